"""One execution: write a file, read it as a command would, and judge how that ended."""

import contextlib
import os
import re
import resource
import traceback
from dataclasses import dataclass
from pathlib import Path

from holdfast.budget import VARIABLE, memory_budget
from holdfast.errors import LONGEST, HoldfastError

BUDGET = 32_000_000
"""Bytes that a file may need while fuzzing: low, so that a reader that asks for more shows."""
BEYOND = 1_000_000_000
"""Bytes of address space beside what the process has before; who allocates more without touching it shows."""
OVERHEAD = 8_000_000
"""Bytes of buffers and modules that reading any file may take beside."""
READ = "read"


@dataclass(frozen=True)
class Outcome:
    """How an execution ended.

    Args:
        name: `read`, or the error with the line that raised it; equal for executions that ended in the same way.
        broken: what holdfast does not promise: another exception, a message of several lines, too much memory.
        detail: the error in full.
        memory: bytes that were needed at most.
    """

    name: str
    broken: bool = False
    detail: str = ""
    memory: int = 0


def prepared(target, place):
    """A directory with everything but the file itself; all modules that the reader needs are imported then."""
    os.environ |= {VARIABLE: str(BUDGET), "RUST_BACKTRACE": "0"}  # which takes more memory than many a file
    target.prepare(place)
    (place / target.place).parent.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        if (outcome := executed(target, place, seed)).name != READ and not outcome.memory:
            raise SystemExit(f"fuzz: expected to read a valid file for {target.place}; got {outcome.detail}")


def executed(target, place, content):
    """What comes of reading a file with this content."""
    before = _reset_peak()
    (place / target.place).write_bytes(content)
    name, broken, detail = _read(target, place)
    memory = max(0, _memory("VmHWM") - before)
    if memory > memory_budget() + OVERHEAD and not broken:
        name, broken, detail = f"memory in {name}", True, f"needed {memory:,} bytes"
    return Outcome(name, broken, detail, memory)


def _read(target, place):
    try:
        target.read(place)
    except HoldfastError as error:
        if allocation := _allocation(error):
            return f"allocation {_line(allocation)}", True, _described(allocation)
        text = str(error)
        if len(text.splitlines()) != 1 or len(text) > LONGEST:
            return f"message {_line(error)}", True, f"expected one line of at most {LONGEST} characters: {text[:500]!r}"
        return f"{type(error).__name__} {_line(error)}", False, text
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  panics of Rust are no ordinary exceptions
        return f"{type(error).__name__} {_line(error)}", True, _described(error)
    return READ, False, ""


def _allocation(error):
    """The error behind an error that says that memory was asked for and not given."""
    while error is not None:
        if isinstance(error, MemoryError) or re.search(r"allocat.*memory|memory.*allocat|out of memory", str(error)):
            return error
        error = error.__cause__ or error.__context__
    return None


def _line(error):
    """Where an error comes from: the last line of holdfast."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/holdfast/" in frame.filename]
    frame = frames[-1] if frames else None
    return f"{Path(frame.filename).parent.name}/{Path(frame.filename).name}:{frame.lineno}" if frame else "outside"


def _described(error):
    return "".join(traceback.format_exception(error, limit=-6))[-3000:]


@contextlib.contextmanager
def limited_memory(beyond=BEYOND):
    """Let allocations fail that go far beyond the budget, in this process."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + beyond, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _reset_peak():
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(field):
    with open("/proc/self/status", "rb") as file:
        return 1024 * int(re.search(rb"%s:\s+(\d+)" % field.encode(), file.read())[1])
