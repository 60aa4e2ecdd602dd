"""What the verbs show: tables, one progress bar, and a way to stop between two steps."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli.output import echo
from holdfast.cli.system_errors import PASSING, in_words
from holdfast.errors import HoldfastError
from holdfast.show.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from holdfast.halving import Halved


def stdout() -> Console:
    """For results. Wide enough not to cut anything when piped."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, markup=False, width=200)


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None, numbers: bool = True
) -> None:
    """Print a quiet table; columns of numbers (all but the first) are right-aligned."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, title=title and one_line(title), title_justify="left", pad_edge=False)
    for number, column in enumerate(columns):
        shown.add_column(Text(one_line(column)), justify="right" if number and numbers else "left", overflow="fold")
    for row in rows:
        shown.add_row(*[Text(one_line(cell)) for cell in row])
    stdout().print(shown)


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:z.1f} %"


def interval(low: float, high: float) -> str:
    """An interval of shares for people."""
    return f"[{100 * low:z.1f}, {100 * high:z.1f}]"


COMPILED = ("polars", "pydantic")
"""Libraries that an interruption does not get through."""

FIRST, EVERY = 10.0, 30.0
"""Seconds before the first line of progress where nobody watches, and between two of them."""


class Bar:
    """One progress bar with time left, on stderr; where that is not a terminal, regular lines.

    Args:
        quiet: never show it.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._lines = not quiet and not console.is_terminal

    @contextmanager
    def stage(self, title: str, unit: str = "") -> Iterator[Any]:
        """A stage of the work; yields `show(done, total, note)`.

        Args:
            title: what is done.
            unit: of what `done` and `total` count.
        """
        with self._progress, _Lines(title, unit, speak=self._lines) as lines:
            task = self._progress.add_task(one_line(title), total=None, unit=unit)

            def show(done: int, total: int, note: str = "") -> None:
                text = one_line(f"{title}  {note}" if note else title)
                lines.now = f"{text.rstrip()}  {done} of {total} {unit}".rstrip()
                self._progress.update(task, completed=done, total=total, description=text)

            yield show
            self._progress.remove_task(task)


class _Lines:
    """Lines of progress at regular times, also while a step takes long, from a thread of its own.

    Args:
        title: what is done.
        unit: of what is counted.
        speak: whether to print anything at all.
    """

    def __init__(self, title: str, unit: str, *, speak: bool) -> None:
        self.now = f"{title}  started"
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True) if speak else None

    def __enter__(self) -> _Lines:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _talk(self) -> None:
        wait = FIRST
        while not self._ended.wait(wait):
            echo(f"{self.now}, {time.monotonic() - self._started:.0f} s", err=True)
            wait = EVERY


class Stop:
    """Set by the first Ctrl-C or SIGTERM inside `between_steps`; a second one interrupts at once."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


@contextmanager
def between_steps() -> Iterator[Stop]:
    """Let work under way reach its next step before an interruption takes effect."""
    stop = Stop()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def resumable() -> Iterator[None]:
    """A command that saves its work as it goes: what stops it ends with a word on how to resume.

    An interruption has exit code 130; an error of the system, such as a full disk, is one line like any other error.
    """
    interrupt_on_kill()
    try:
        yield
    except KeyboardInterrupt:
        echo("holdfast: interrupted; everything done is saved, repeat the same command to resume", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        if error.errno not in PASSING:
            raise
        raise HoldfastError(
            f"{in_words(error)}; everything done before is saved, repeat the same command to resume"
        ) from error
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # nothing is left to be saved, and Python does not end well with ours


def interrupt_on_kill() -> None:
    """Treat SIGTERM as Ctrl-C, so that `kill` also ends with a word on how to resume.

    Inside libraries of `COMPILED` both wait a moment: an exception that is raised while their compiled code calls
    Python is swallowed there, or comes out as another one.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_globals.get("__name__", "").partition(".")[0] in COMPILED:
                threading.Timer(0.01, signal.raise_signal, [number]).start()
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def mention(halved: Halved | None, subject: str) -> None:
    """A line on stderr if memory ran out and work goes on with fewer images at once."""
    if halved is not None:
        echo(f"{subject}: {halved}", err=True)


def say(text: str, *, quiet: bool = False) -> None:
    """A line for people."""
    if not quiet:
        echo(text)
