"""One progress bar on stderr, for the command line and for `holdfast.fit`."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.show.text import one_line

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
            seconds = f"{time.monotonic() - self._started:.0f} s"
            sys.stderr.write(one_line(f"{self.now}, {seconds}") + "\n")
            sys.stderr.flush()
            wait = EVERY
