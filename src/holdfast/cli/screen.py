"""What the verbs show: tables, one progress bar, and a way to stop between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import typer

from holdfast.cli.output import echo
from holdfast.cli.system_errors import PASSING, in_words
from holdfast.errors import HoldfastError

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
    from holdfast.show.table import Cell, Table
    from holdfast.show.terminal import rich_table

    body = [(row[0], [Cell(text, words=not numbers) for text in row[1:]]) for row in rows]
    stdout().print(rich_table(Table(title or "", columns[0], columns[1:], body)))


COMPILED = ("polars", "pydantic")
"""Libraries that an interruption does not get through."""


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
    """A line on stderr if memory ran out and work continues with fewer images at once."""
    if halved is not None:
        echo(f"{subject}: {halved}", err=True)


def say(text: str, *, quiet: bool = False) -> None:
    """A line for people."""
    if not quiet:
        echo(text)
