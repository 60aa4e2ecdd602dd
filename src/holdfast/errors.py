"""The errors holdfast raises on purpose; anything else is a bug and keeps its traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HoldfastError(Exception):
    """Root of all errors that tell the user what to change; the command line prints them in one line, exit code 2."""


class RecipeError(HoldfastError):
    """A recipe asks for something that does not exist or cannot be."""


class DataError(HoldfastError):
    """Data that is missing, damaged or not what its format promises."""


class ModelError(HoldfastError):
    """A model that cannot be built, called or differentiated."""


class CheckpointError(HoldfastError):
    """Weights or training state that cannot be read or do not fit."""


class LedgerError(HoldfastError):
    """A results table that is missing, damaged or of another run."""


class TrainingError(HoldfastError):
    """Training cannot go on, for instance because the loss is not finite."""


def unknown(name: object, known: Iterable[str]) -> str:
    """Say that `name` is unknown, list the known names and suggest the nearest.

    >>> unknown("stepz", ["loss", "steps"])
    "unknown name 'stepz'; known: loss, steps. Did you mean 'steps'?"
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"unknown name '{name}'; known: {', '.join(names) or 'none'}.{hint}"
