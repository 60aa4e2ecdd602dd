"""How the suite runs: one thread, the same examples every time, and options to search at random and in any order.

CONTRIBUTING.md, section Tests, says when to use which.
"""

import itertools
import random

import pytest
import torch
from hypothesis import settings

from holdfast import rng
from tests import chance
from tests.running import alone, pin

torch.set_num_threads(1)  # small tensors, and two busy processes would spin against each other

# The default run draws the same examples everywhere: only `make fuzz` and `make test-all` look for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("repeatable")

NUMBERS = itertools.count()


def pytest_addoption(parser):
    group = parser.getgroup("holdfast")
    group.addoption("--shuffle", type=int, metavar="SEED", help="Run the tests in a random order.")
    group.addoption("--reseed", metavar="SALT", help="Draw other numbers in all of holdfast's random streams.")
    group.addoption(
        "--alone", action="store_true", help="Run every test in a process of its own, forked after imports."
    )


def pytest_configure(config):
    if config.getoption("--reseed") is not None:
        reseed(config.getoption("--reseed"))
    config.pluginmanager.register(chance.Ledger(config), "false alarms")
    config.pluginmanager.register(pin, "pin")
    if config.getoption("--alone"):
        config.pluginmanager.register(alone, "alone")


def reseed(salt):
    """Let every seed and purpose name other streams, before anything else of holdfast is imported."""
    derive = rng.derive
    rng.derive = lambda seed, purpose: derive(seed, f"{purpose}, {salt}")


@pytest.fixture(scope="session", autouse=True)
def _memory_of_the_session(tmp_path_factory):
    """What fixtures of modules trust is not remembered for the user."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
        yield


@pytest.fixture(autouse=True)
def _nothing_trusted_yet(monkeypatch, tmp_path_factory):
    """Every test has a memory of trusted code of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / f"state-{next(NUMBERS)}"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


def pytest_terminal_summary(terminalreporter, config):
    seed = config.getoption("--shuffle")
    if seed is not None:
        terminalreporter.write_line(f"order of the tests: --shuffle={seed}")
