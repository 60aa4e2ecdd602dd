"""Runs that a command works on: no other process may write there until it ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runs import Run

_held: ContextVar[ExitStack] = ContextVar("held")


@contextmanager
def released_at_the_end() -> Iterator[None]:
    """While a command runs: what it holds is released with it."""
    with ExitStack() as stack:
        token = _held.set(stack)
        try:
            yield
        finally:
            _held.reset(token)


def hold(run: Run) -> None:
    """Keep other processes out of a run's directory until the command ends.

    Raises:
        RecipeError: if another process works there.
    """
    _held.get().enter_context(run.lock())
