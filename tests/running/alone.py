"""Every test in a process of its own, forked once everything is imported: finds tests that need another one before."""

import os
import pickle
import signal
import time

import pytest
from _pytest.runner import runtestprotocol

SECONDS = 600
"""After this long a test counts as stuck."""


def pytest_runtest_protocol(item, nextitem):
    """Run a test in a child and hand on its reports."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports(item):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _reports(item):
    path = item.config._tmp_path_factory.getbasetemp() / "reports.pickle"
    path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _run(item, path)
    if not _ended(child) or not path.exists():
        return [_crash(item)]
    hook = item.config.hook
    return [hook.pytest_report_from_serializable(config=item.config, data=d) for d in pickle.loads(path.read_bytes())]


def _run(item, path):
    """In the child: run the test, write the reports, leave without the parent's clean-up."""
    try:
        reports = runtestprotocol(item, nextitem=None, log=False)
        hook = item.config.hook
        data = [hook.pytest_report_to_serializable(config=item.config, report=report) for report in reports]
        path.write_bytes(pickle.dumps(data))
    finally:
        os._exit(0)


def _ended(child):
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _crash(item):
    message = "expected a report; the process of this test ended without one"
    return pytest.TestReport(item.nodeid, item.location, {}, "failed", message, "call")
