"""Many executions in a forked process that may die, hang or take too much memory, and what came of them."""

import contextlib
import hashlib
import mmap
import multiprocessing
import os
import random
import signal
import struct
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.mutations import MOST_BYTES
from tests.fuzz.trial import executed, limited_memory, prepared

HANG = 10
"""Seconds of processor time that one execution may take."""
ASLEEP = 300
"""Seconds of any time; on a busy machine a process may wait long for its turn."""
START = 60
"""Seconds of processor time for imports and valid files."""
MOST_POOL = 300
"""Files that are mutated further because they had a new outcome."""
MOST_WORDS = 100_000
HEAD = struct.Struct("<QQ")
FORK = multiprocessing.get_context("fork")


@dataclass
class Tally:
    """What has come of the executions of one target.

    Args:
        executions: how many there were.
        outcomes: how often each was.
        broken: for each outcome that holdfast does not promise, the file and what happened.
        memory: bytes that one execution needed at most.
        seconds: spent.
    """

    executions: int = 0
    outcomes: Counter = field(default_factory=Counter)
    broken: dict = field(default_factory=dict)
    memory: int = 0
    seconds: float = 0.0

    def add(self, content, outcome):
        """Count an execution."""
        self.executions += 1
        self.memory = max(self.memory, outcome.memory)
        self.outcomes[outcome.name] += 1
        if outcome.broken:
            self.broken.setdefault(outcome.name, (content, outcome.detail))


def run(target, seed, *, until, most=10**9, tally=None):
    """Execute mutants of a target until the time is up; processes that die are replaced."""
    tally, round_ = tally or Tally(), 0
    while time.monotonic() < until and tally.executions < most:
        round_ += 1
        shared = mmap.mmap(-1, HEAD.size + MOST_BYTES)
        ours, theirs = FORK.Pipe(duplex=False)
        words = os.open(_fast_place() or tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR | os.O_APPEND)
        some = most - tally.executions
        child = FORK.Process(target=_work, args=(target, f"{seed}/{round_}", until, some, shared, theirs, words))
        start = time.monotonic()
        child.start()
        theirs.close()
        finished = _collect(child, ours, shared, tally)
        tally.seconds += time.monotonic() - start
        if not finished:
            _blame(tally, shared, child.exitcode, words)
        os.close(words)
        if tally.executions == 0 and round_ > 3:
            break
    return tally


def _collect(child, ours, shared, tally):
    """Take in what a process reports; False if it died or had to be killed."""
    beat, since, used = -1, time.monotonic(), 0.0
    while True:
        if ours.poll(0.5):
            try:
                report = ours.recv()
            except EOFError:
                child.join()
                return False
            if report is None:
                child.join()
                return True
            merge(tally, report)
        count = HEAD.unpack_from(shared)[0]
        if count != beat:
            beat, since, used = count, time.monotonic(), _processor_time(child.pid)
        elif time.monotonic() - since > ASLEEP or _processor_time(child.pid) - used > (HANG if count else START):
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            return False


def _processor_time(pid):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def merge(tally, part):
    """Add what has come of further executions."""
    tally.executions += part.executions
    tally.seconds += part.seconds
    tally.outcomes += part.outcomes
    tally.memory = max(tally.memory, part.memory)
    for name, finding in part.broken.items():
        tally.broken.setdefault(name, finding)


def _blame(tally, shared, code, words):
    """Name the file that a process was reading when it ended."""
    count, size = HEAD.unpack_from(shared)
    content = shared[HEAD.size : HEAD.size + size]
    tally.executions += 1
    ended = (
        "hang" if code == -signal.SIGKILL else f"death by {signal.Signals(-code).name if code and code < 0 else code}"
    )
    last = os.pread(words, 4000, max(0, os.fstat(words).st_size - 4000)).decode(errors="replace")
    # Deaths have no line that tells them apart; a hash keeps a few.
    mark = int(hashlib.sha256(content).hexdigest(), 16) % 4
    tally.broken.setdefault(f"{ended} #{mark}", (content, f"{ended} after {count} executions of this process: {last}"))
    tally.outcomes[ended] += 1


def _work(target, seed, until, most, shared, pipe, words):
    """The child: mutate, leave the file where the parent finds it, execute; report every second."""
    _silence(words)
    with tempfile.TemporaryDirectory(dir=_fast_place()) as directory, contextlib.ExitStack() as limits:
        place, draw = Path(directory), random.Random(seed)
        prepared(target, place)
        fresh = list(target.seeds())
        limits.enter_context(limited_memory())
        pool, tally, count, reported, seen = list(fresh), Tally(), 0, time.monotonic(), set()
        while (time.monotonic() < until or not count) and count < most:  # preparing may take all of the time
            content = target.mutant(draw, pool, fresh)
            count += 1
            shared[: HEAD.size + len(content)] = HEAD.pack(count, len(content)) + content
            outcome = executed(target, place, content)
            tally.add(content, outcome)
            if outcome.name not in seen:
                seen.add(outcome.name)
                pool.append(content)
                pool[len(fresh) + MOST_POOL :] = []
            if os.fstat(words).st_size > MOST_WORDS:
                os.ftruncate(words, 0)
            if time.monotonic() - reported > 1:
                pipe.send(tally)
                tally, reported = Tally(), time.monotonic()
        pipe.send(tally)
        pipe.send(None)


def _silence(words):
    """What native libraries and this process print goes to a file, of which the end is shown if the process dies."""
    os.dup2(words, 1)
    os.dup2(words, 2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _fast_place():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
