"""Locks: one holder, free as soon as its process is gone."""

import os
import signal
import subprocess
import sys

from holdfast.search.claims import Claims, Lock

HOLDER = """
import sys, time
from pathlib import Path
from holdfast.search.claims import Claims
assert Claims(Path(sys.argv[1])).take(3)
print("held", flush=True)
time.sleep(60)
"""


def test_a_trial_belongs_to_one_worker_until_it_is_dropped(tmp_path):
    first, second = Claims(tmp_path), Claims(tmp_path)
    assert not first.knows(3)
    assert first.take(3)
    assert first.knows(3)
    assert not second.take(3)
    assert not first.take(3)
    assert second.take(4)
    first.drop(3)
    assert second.take(3)


def test_the_trial_of_a_killed_process_is_free_at_once(tmp_path):
    # Loads no torch: the module is run by its file, so that the holder starts quickly.
    import holdfast.search.claims as module

    code = HOLDER.replace(
        "from holdfast.search.claims import Claims",
        f"import importlib.util as u; s = u.spec_from_file_location('claims', {module.__file__!r}); "
        "m = u.module_from_spec(s); sys.modules['claims'] = m; s.loader.exec_module(m); Claims = m.Claims",
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    assert not Claims(tmp_path).take(3)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    holder.stdout.close()
    assert Claims(tmp_path).take(3)


def test_a_lock_waits_for_its_turn_and_can_be_taken_again(tmp_path):
    lock = Lock(tmp_path / "a" / "lock")
    assert lock.acquire()
    assert not Lock(tmp_path / "a" / "lock").acquire(wait=False)
    lock.release()
    lock.release()  # twice does no harm
    assert lock.acquire(wait=False)
    lock.release()
