"""Runs that a command works on: no other process may write there until it ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runs.directory import Run

_held: ContextVar[tuple[ExitStack, set[Path]]] = ContextVar("held")


@contextmanager
def released_at_the_end() -> Iterator[None]:
    """While a command runs: what it holds is released with it."""
    with ExitStack() as stack:
        token = _held.set((stack, set()))
        try:
            yield
        finally:
            _held.reset(token)


def hold(run: Run) -> None:
    """Keep others out of a run's directory until the command ends; a command may name a run twice.

    Raises:
        RecipeError: if another process works there.
    """
    stack, held = _held.get()
    if (path := run.path.resolve()) not in held:
        stack.enter_context(run.lock())
        held.add(path)
