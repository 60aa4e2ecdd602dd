"""Permission to run code that a recipe names: asked for once, remembered for the same recipe and the same code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.output import echo
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.recipe.schema import Recipe

TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust", help="Allow the code that the recipe names (`holdfast show` lists it) to run, and remember it."
    ),
]


def allowed_code(recipes: Sequence[Recipe | Any], file: Path, *, trust: bool) -> frozenset[str]:
    """The third-party code that recipes may run: all they name, if the user allows it now or did before.

    Raises:
        RecipeError: if they name some and are not trusted, with what would run and the remedy.
    """
    from holdfast.runs.code import code_of, fingerprints

    code = code_of(recipes)
    if not code:
        return frozenset()
    new = fingerprints(recipes) - _marks()
    if new and not trust:
        raise RecipeError(
            f"{file}: expected --trust, since this recipe runs code that could do anything: {call_list(code)}; look at "
            "it first; --trust is remembered until the recipe or this code changes"
        )
    if new:
        _remember(new, file)
    return frozenset(code)


def call_list(code: Mapping[str, Path | None]) -> str:
    """Calls of factories and methods, options and fields included, with their files."""
    return ", ".join(call if file is None else f"{call} ({file})" for call, file in code.items())


def _memory() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "holdfast" / "trusted"


def _marks() -> frozenset[str]:
    """What the user has trusted: the first word of each line."""
    try:
        lines = _memory().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return frozenset()
    return frozenset(line.split(" ")[0] for line in lines)


def _remember(marks: set[str], file: Path) -> None:
    """Add a line for each, with the file for people; where it cannot be written, the question comes again."""
    try:
        _memory().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _memory().open("a", encoding="utf-8") as memory:
            memory.writelines(f"{mark} {str(file.absolute())!r}\n" for mark in sorted(marks))
    except OSError as error:
        echo(f"{_memory()}: cannot remember --trust: {error.strerror}", err=True)
