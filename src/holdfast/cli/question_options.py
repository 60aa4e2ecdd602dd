"""The fields of questions and sections as options of the command line; values are read as in a recipe."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from holdfast.errors import RecipeError
from holdfast.families import QUESTIONS
from holdfast.questions.docs import defaults, fields

if TYPE_CHECKING:
    from holdfast.questions.question import Question


def options_of(kind: Any) -> Iterator[inspect.Parameter]:
    """The fields of a question as options; values are read as in a recipe."""
    described, default = fields(kind), defaults(kind)
    for field in dataclasses.fields(kind):
        option, note = f"--{dashed(field.name)}", default[field.name]
        text = _sentence(described[field.name])
        switch = field.type == "bool"
        names = [f"{option}/--no-{dashed(field.name)}"] if switch else [option]
        declared = typer.Option(*names, help=text + (f" [default: {note}]" if note and not switch else ""))
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=None,
            annotation=Annotated[bool | None if switch else str | None, declared],
        )  # fmt: skip


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def question_of(name: str, stated: Mapping[str, Any]) -> Question:
    """A question with the fields that options state; others have None."""
    from holdfast.questions.question import Question
    from holdfast.recipe.strict import parse

    values = _values(QUESTIONS[name], stated)
    question = parse(Question, {name: values}, where=lambda path: _place(name, path), code_allowed=True)
    return cast("Question", question)


def section_of(name: str, kind: Any, stated: Mapping[str, Any]) -> Any:
    """A section of the report with the fields that options state; others have None."""
    values = _values(kind, stated)
    if not values:
        return kind()  # reading values needs torch, which takes longer than all else

    from holdfast.recipe.strict import parse

    return parse(kind, values, where=lambda path: _place(name, path))


def _values(kind: Any, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The stated options, read as in a recipe."""
    import yaml

    from holdfast.yaml_text import load_yaml

    values: dict[str, Any] = {}
    several = {field.name for field in dataclasses.fields(kind) if str(field.type).startswith("tuple")}
    for field, text in stated.items():
        if text is None:
            continue
        try:
            listed = field in several and "," in text and text[:1] not in "[{"
            values[field] = load_yaml(f"[{text}]" if listed else text) if isinstance(text, str) else text
        except yaml.YAMLError:
            raise RecipeError(f"--{dashed(field)}: expected a value as in a recipe; got {text!r}") from None
    return values


def _place(name: str, path: tuple[str, ...]) -> str:
    inner = path[1:] if path[:1] == (name,) else path
    return f"--{'.'.join(inner).replace('_', '-')}" if inner else f"analyse {dashed(name)}"


def dashed(name: str) -> str:
    """A name as the command line writes it."""
    return name.replace("_", "-")
