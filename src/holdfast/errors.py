"""The errors holdfast raises on purpose; anything else is a bug and keeps its traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 2000
"""Characters of a message; of a longer one the middle is left out."""


class HoldfastError(Exception):
    """Root of all errors that tell the user what to change; the command line prints them in one line, exit code 2.

    Messages quote files of strangers, so they are made one line of at most `LONGEST` characters here, in one place.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(one_line(str(message)))


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


def one_line(text: str) -> str:
    """A text without line breaks, of at most `LONGEST` characters; of a longer one the middle is left out."""
    if len(text) > LONGEST:
        end = LONGEST // 4
        text = f"{text[: LONGEST - end - 5]} ... {text[-end:]}"
    return " ".join(line.strip() for line in text.splitlines())


def type_and_line(error: BaseException) -> str:
    """The type and the first line of a third-party error."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def unknown(name: object, available: Iterable[str]) -> str:
    """A sentence that `name` is unknown, with the available names and the nearest as a suggestion.

    >>> unknown("stepz", ["loss", "steps"])
    "unknown name 'stepz'; known: loss, steps. Did you mean 'steps'?"
    """
    names = sorted(set(available))
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"unknown name '{name}'; known: {', '.join(names) or 'none'}.{hint}"
