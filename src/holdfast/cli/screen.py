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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console


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

    shown = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for number, column in enumerate(columns):
        shown.add_column(Text(column), justify="right" if number and numbers else "left", overflow="fold")
    for row in rows:
        shown.add_row(*[Text(cell) for cell in row])
    stdout().print(shown)


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.1f} %"


def interval(low: float, high: float) -> str:
    """An interval of shares for people."""
    return f"[{100 * low:.1f}, {100 * high:.1f}]"


EVERY = 60.0
"""Seconds between two lines of progress where nobody watches."""


class Bar:
    """One progress bar with time left, on stderr; where that is not a terminal, a line a minute.

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
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._lines = not quiet and not console.is_terminal

    @contextmanager
    def stage(self, title: str) -> Iterator[Any]:
        """A stage of the work; yields `show(done, total, note)`."""
        with self._progress:
            task, spoken = self._progress.add_task(title, total=None), time.monotonic()

            def show(done: int, total: int, note: str = "") -> None:
                nonlocal spoken
                said = f"{title}  {note}" if note else title
                self._progress.update(task, completed=done, total=total, description=said)
                if self._lines and time.monotonic() - spoken >= EVERY:
                    spoken = time.monotonic()
                    typer.echo(f"{said.rstrip()}  {done} of {total}", err=True)

            yield show
            self._progress.remove_task(task)


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
    """Work that is saved as it goes: an interruption ends with a word on how to resume, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("holdfast: interrupted; everything done is saved, repeat the same command to resume", err=True)
        raise typer.Exit(130) from None


def interrupt_on_kill() -> None:
    """Treat SIGTERM as Ctrl-C, so that `kill` also ends with a word on how to resume.

    Inside Polars both wait a moment: an exception that is raised while its compiled code asks Python for a type is
    swallowed there, or comes out as another one.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_globals.get("__name__", "").partition(".")[0] == "polars":
                threading.Timer(0.01, signal.raise_signal, [number]).start()
                return
            frame = frame.f_back
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def say(text: str, *, quiet: bool = False) -> None:
    """A line for people."""
    if not quiet:
        typer.echo(text)
