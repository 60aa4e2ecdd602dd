"""Where a fault happens, and what must be true after it."""

import shutil
import signal

from holdfast.errors import HoldfastError
from holdfast.files import TEMPORARY
from tests.chaos.nursery import TICKS
from tests.chaos.reference import COMMAND, EXTRA, READERS, RUN, fresh, outcome, reading

SAME, NAMED = "same result", "named in one line"
RESUME = "repeat the same command to resume"


class Violation(AssertionError):  # noqa: N818 (a promise that was broken is not an error of this program)
    """A promise of docs/reliability.md that did not hold."""


class Ground:
    """A directory for one fault.

    Args:
        nursery: where processes come from.
        reference: undisturbed runs.
        rng: random numbers of this fault.
        place: the directory; made anew.
        turn: how many faults of this kind came before.
    """

    def __init__(self, nursery, reference, rng, place, *, turn):
        self.nursery, self.reference, self.rng, self.place, self.turn = nursery, reference, rng, place, turn
        self.remark, self._extra, self._expected = "", (), reference.outcome
        self._commands = []

    def note(self, text):
        """Remember what exactly is done, for the line that reports a violation."""
        self.remark = f"{text}: "

    def prepare(self, *, finished=False):
        """A directory with the recipe, or with a copy of the finished run and its further answers."""
        if finished:
            shutil.copytree(self.reference.place, self.place)
            self._extra, self._expected = EXTRA, self.reference.finished
        else:
            fresh(self.place)
        self.forget_ticks()

    def forget_ticks(self):
        """From now on what was finished may be gone, because the fault is that it is."""
        (self.place / TICKS).unlink(missing_ok=True)

    def start(self, *argv, **options):
        """Begin a command here."""
        self._commands.append(self.nursery.start(*argv, cwd=self.place, **options))
        return self._commands[-1]

    def end_all(self):
        """Kill what still runs, which may be stopped."""
        for command in self._commands:
            if command.send(signal.SIGKILL):
                command.end()

    def run(self, *argv, **options):
        """A command from its beginning to its end, which must be an orderly one."""
        return self.ended(self.start(*argv, **options))

    def ended(self, command):
        """The end of a command, which must be an orderly one."""
        ended = command.end()
        orderly(ended)
        return ended

    def resume(self, *, may_be_named=False):
        """Repeat the commands: they end with the same result, or (where that is allowed) with one line.

        After such a line the remedy that it names must help; what only `EXTRA` asked is gone then.
        """
        named = self._repeated()
        if named:
            require(may_be_named, f"expected the run to go on; got {named}")
            require(self.run(*COMMAND, "--fresh").code == 0, "--fresh did not help")
        self.require_outcome(self.reference.outcome if named else self._expected)
        return NAMED if named else SAME

    def _repeated(self):
        """Repeat the commands until one ends with a line, which is returned, if any does."""
        kept = finished_work(self.place)
        for argv in (COMMAND, *self._extra):
            ended = self.run(*argv)
            if ended.named:
                return ended.err
            require(ended.code == 0, f"the repeated {' '.join(argv)} ended with {ended.code}: {ended.err}")
            require(ended.err == "", f"the repeated {' '.join(argv)} printed {ended.err}")
            require_kept(self.place, kept)
            require(argv != COMMAND or ended.out == self.reference.out, f"the repeated command printed {ended.out}")
        return ""

    def read(self, number):
        """Let a command read what is here: the same as before the fault, or one line."""
        argv = READERS[number]
        ended, page = reading(self.nursery, self.place, argv)
        orderly(ended)
        expected, expected_page = self.reference.read[number]
        same = (ended.code, ended.out, ended.err, page) == (0, expected.out, "", expected_page)
        require(same or ended.named, f"{' '.join(argv)} reported something else: {ended}")
        return SAME if same else NAMED

    def require_outcome(self, expected):
        """The run is equal to the bit and row, and nothing half written is left."""
        left = [path.name for path in self.place.rglob("*") if TEMPORARY.fullmatch(path.name)]
        require(not left, f"temporary files stayed: {left}")
        try:
            now = outcome(self.place / RUN)
        except (OSError, ValueError, HoldfastError) as error:
            raise Violation(f"the finished run cannot be read: {error}") from error
        different = [name for name, value in expected.items() if now.get(name) != value]
        require(not different, f"the finished run differs in {', '.join(different)}")


def require(holds, text):
    """Raise a violation unless something holds."""
    if not holds:
        raise Violation(" ".join(text.split()))


def orderly(ended):
    """A process never hangs and never ends with a traceback."""
    require(ended.code is not None, f"hangs: {ended}")
    require("Traceback" not in ended.err + ended.out, f"traceback: {ended.err[-2000:]}")
    require(ended.code != 2 or ended.named, f"expected one line; got {ended}")


def finished_work(place):
    """Parts and lines of epochs that are on disk; all that a process has said to be finished is among them."""
    run = place / RUN
    parts = {path: path.read_bytes() for path in (run / "ledger").glob("*.parquet")}
    metrics = run / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines() if metrics.exists() else []
    ticks = (place / TICKS).read_text().splitlines() if (place / TICKS).exists() else []
    for tick in ticks:
        what, _, which = tick.partition(" ")
        if what == "part":
            require(place / which in parts, f"a finished part is gone: {which}")
        else:
            require(len(lines) >= int(which), f"a finished epoch is gone: {which} of {len(lines)}")
    return parts, lines


def require_kept(place, kept):
    """What was finished was not done again, but for an epoch whose end came between its files."""
    parts, lines = kept
    again = [path.name for path, content in parts.items() if path.read_bytes() != content]
    require(not again, f"finished parts were measured again: {again}")
    now = (place / RUN / "metrics.jsonl").read_bytes().splitlines()
    ended = lines[:-1]  # the end of the last may have come between its files
    require(now[: len(ended)] == ended, f"finished epochs were trained again: {len(lines)} lines")
