"""The kinds of faults: each makes one in a `Ground`, and returns what holdfast made of it."""

import errno
import os
import signal
import time
from functools import partial

from tests.chaos.ground import NAMED, RESUME, SAME, require
from tests.chaos.mounts import tmpfs
from tests.chaos.reference import COMMAND, OTHER, READERS, RUN
from tests.chaos.shim import Shim

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT)
SIZES = tuple(round(4 * 1.43**n) for n in range(20))
"""Kilobytes of a disk that becomes full: less than the first file to nearly all."""
BEGUN = 20
"""Calls after which a run has files."""
YEARS = 20 * 365 * 86400.0
LOCKED, FOREIGN = "another holdfast works here", "holds a run of another recipe"
VANISHING = (
    RUN,
    f"{RUN}/run.json",
    f"{RUN}/recipe.yaml",
    f"{RUN}/metrics.jsonl",
    f"{RUN}/ledger",
    f"{RUN}/checksums.txt",
)


def killed(number, ground):
    """A signal at a random time, or before a random call of the system; sometimes another where it goes on."""
    ground.prepare()
    again = True
    while again:
        if ground.rng.random() < 0.5:
            command = ground.start(*COMMAND, shim=Shim(at=ground.rng.randrange(ground.reference.calls), signal=number))
        else:
            command = ground.start(*COMMAND)
            command.running(ground.rng.uniform(0, ground.reference.seconds))
            command.send(number)
        interrupted(number, command, ground)
        again = ground.rng.random() < 0.2
    return ground.resume()


def interrupted(number, command, ground):
    """A process that was signalled after its work began says how to resume, if it can."""
    ended, holder = ground.ended(command), ground.place / RUN / ".lock-holder"
    begun = holder.exists() and holder.read_text().startswith(f"{command.number} on ")
    if ended.code == 0 or (ended.code == -number and ended.out):
        whole, shown = ground.reference.out, ended.out.rstrip()  # it may be killed while it prints
        same = ended.out == whole if ended.code == 0 else whole.startswith(shown)
        require(same, f"finished with other output: {ended}")
    elif number == signal.SIGKILL or ended.code == -number:
        require(ended.code == -number, f"expected to be killed; got {ended}")
        require(number == signal.SIGKILL or not begun, "ended without a word in mid-work")
    else:
        require(ended.code == 130, f"expected the exit code of an interruption; got {ended}")
        require(RESUME in ended.err or not begun or ended.out, f"does not say how to resume: {ended.err}")


def partly_done(ground):
    """A run that was killed somewhere."""
    ground.prepare()
    at = ground.rng.randrange(BEGUN, ground.reference.calls)
    ground.run(*COMMAND, shim=Shim(at=at, signal=signal.SIGKILL))


def full_disk(ground):
    """A disk that becomes full, and then has room."""
    ground.prepare()
    size = SIZES[ground.turn % len(SIZES)]
    with tmpfs(ground.place / "runs", f"size={size}k") as disk:
        ended = ground.run(*COMMAND)
        require(ended.named or ended.code == 0, f"expected one line; got {ended}")
        if ended.named:
            require("No space left on device" in ended.err, f"does not say that the disk is full: {ended.err}")
            require(RESUME in ended.err, f"does not say how to resume: {ended.err}")
        disk.remount("size=100m")
        return ground.resume()


def read_only(ground):
    """A disk that becomes read-only in the middle or after the end of a run."""
    ground.prepare()
    with tmpfs(ground.place / "runs", "size=100m") as disk:
        at = ground.rng.randrange(BEGUN, int(1.5 * ground.reference.calls))
        ground.run(*COMMAND, shim=Shim(at=at, signal=signal.SIGKILL))
        disk.remount("ro")
        for argv in (COMMAND, ("report", RUN), ("evaluate", RUN), ("train", "tiny.yaml")):
            ended = ground.run(*argv)
            require(ended.named, f"{' '.join(argv)}: expected one line; got {ended}")
        disk.remount("rw")
        return ground.resume()


def failing_call(ground):
    """A call of the system that fails, and all later ones of its kind."""
    ground.prepare()
    number = ground.rng.choice(ERRORS)
    at = ground.rng.randrange(ground.reference.calls)
    ended = ground.run(*COMMAND, shim=Shim(at=at, errno=number, named=ground.rng.random() < 0.5))
    require(ended.named or ended.code == 0, f"expected one line; got {ended}")
    require(ended.code == 0 or os.strerror(number) in ended.err, f"does not say what failed: {ended.err}")
    require(ended.code != 0 or ended.out == ground.reference.out, f"finished with other output: {ended}")
    return ground.resume()


def damaged(change, ground):
    """One file of a finished or of a half finished run truncated, emptied, deleted or with a flipped bit."""
    if ground.rng.random() < 0.7:
        ground.prepare(finished=True)
    else:
        partly_done(ground)
    whole = (ground.place / "other").exists()
    file = ground.rng.choice(files_of(ground))
    ground.note(f"{change.__name__} {file.relative_to(ground.place)}")
    change(file, ground.rng)
    ground.forget_ticks()
    read = ground.read(ground.rng.randrange(len(READERS))) if whole else SAME
    again = ground.resume(may_be_named=True)
    return NAMED if NAMED in (read, again) else SAME


def files_of(ground):
    """The files of a run, of all kinds alike: one of each directory and kind, drawn at random."""
    kinds = {}
    for path in sorted((ground.place / RUN).rglob("*")):
        if path.is_file():
            kind = path.name if path.parent == ground.place / RUN else (path.parent, path.suffix)
            kinds.setdefault(kind, []).append(path)
    return [ground.rng.choice(paths) for paths in kinds.values()]


def truncated(path, rng):
    """Keep a part of it."""
    os.truncate(path, rng.randrange(max(path.stat().st_size, 1)))


def flipped(path, rng):
    """Flip one bit."""
    content = bytearray(path.read_bytes())
    if content:
        bit = rng.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def emptied(path, rng):
    """Keep nothing of it."""
    path.write_bytes(b"")


def deleted(path, rng):
    """Delete it."""
    path.unlink()


def clock(ground):
    """Clocks that jump in the middle, and files from the past or the future."""
    partly_done(ground)
    for path in (ground.place / "runs").rglob("*"):
        moment = time.time() + ground.rng.uniform(-YEARS, YEARS)
        os.utime(path, (moment, moment))
    at = ground.rng.randrange(ground.reference.calls)
    jumps = {"clock": ground.rng.uniform(-YEARS, YEARS), "monotonic": ground.rng.uniform(0, YEARS)}
    ended = ground.run(*COMMAND, shim=Shim(at=at, **jumps))
    require((ended.code, ended.out) == (0, ground.reference.out), f"expected the same result; got {ended}")
    return ground.resume()


def two_processes(recipe, ground):
    """Two processes started within a moment in one directory, on one recipe or on two of one name."""
    ground.prepare()
    (ground.place / "second.yaml").write_text(recipe or (ground.place / "tiny.yaml").read_text())
    first = ground.start(*COMMAND)
    time.sleep(ground.rng.choice((0.0, ground.rng.uniform(0, ground.reference.seconds))))
    second = ground.start("run", "second.yaml", output="second")
    ends = [ground.ended(first), ground.ended(second)]
    require(any(ended.code == 0 for ended in ends), f"neither went on: {ends}")
    for ended in ends:
        refused = ended.named and (LOCKED in ended.err or FOREIGN in ended.err)
        require(ended.code == 0 or refused, f"expected one to be refused; got {ended}")
    if recipe is None or ends[0].code == 0:
        return ground.resume()
    ground.require_outcome(ground.reference.other)
    return SAME


def hanging(ground):
    """The process that holds the lock hangs; then it goes on, or is killed."""
    ground.prepare()
    holder = ground.start(*COMMAND)
    while holder.running() and not (ground.place / RUN / ".lock-holder").exists():
        time.sleep(0.001)
    holder.running(ground.rng.uniform(0, 0.7 * ground.reference.seconds))
    held = holder.send(signal.SIGSTOP)
    ended = ground.run(*COMMAND, output="second")
    refused = ended.named and f"{LOCKED} (process {holder.number} on " in ended.err
    require(refused or not held, f"expected one line that names the process; got {ended}")
    holder.send(ground.rng.choice((signal.SIGCONT, signal.SIGKILL)))
    interrupted(signal.SIGKILL, holder, ground)
    return ground.resume()


def vanishing(ground):
    """A file, or the whole directory, disappears under a process."""
    ground.prepare()
    what = ground.rng.choice(VANISHING)
    ground.note(f"vanishes: {what}")
    at = ground.rng.randrange(ground.reference.calls)
    ended = ground.run(*COMMAND, shim=Shim(at=at, delete=what))
    require(ended.named or ended.code == 0, f"expected one line; got {ended}")
    require(ended.code != 0 or ended.out == ground.reference.out, f"finished with other output: {ended}")
    ground.forget_ticks()
    return ground.resume(may_be_named=True)


KINDS = {
    "SIGKILL": (partial(killed, signal.SIGKILL), 90),
    "SIGTERM": (partial(killed, signal.SIGTERM), 60),
    "SIGINT": (partial(killed, signal.SIGINT), 60),
    "disk full": (full_disk, 40),
    "read-only disk": (read_only, 20),
    "failing call": (failing_call, 60),
    "file truncated": (partial(damaged, truncated), 25),
    "file emptied": (partial(damaged, emptied), 25),
    "bit flipped": (partial(damaged, flipped), 25),
    "file deleted": (partial(damaged, deleted), 25),
    "file vanishes at work": (vanishing, 20),
    "clock jumps": (clock, 15),
    "two processes": (partial(two_processes, None), 10),
    "two recipes": (partial(two_processes, OTHER), 10),
    "process hangs": (hanging, 15),
}
"""The kinds with their share: how many of 500."""
