"""`holdfast list`: what a recipe may name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.errors import RecipeError, unknown
from holdfast.families import ALL
from holdfast.registry import Registry

FAMILIES = (*ALL, "presets")


def command(
    family: Annotated[str | None, typer.Argument(help="Family to list, such as models (default: all).")] = None,
    as_json: Json = False,
) -> None:
    """List models, attacks, objectives and everything else that has a name, with its fields."""
    from holdfast.cli.screen import table

    if family is None:
        rows: list[list[str]] = [[name, ", ".join(_labelled(name))] for name in FAMILIES]
        if as_json:
            echo_json({name: list(_names(name)) for name in FAMILIES})
        else:
            table(["family", "names"], rows, numbers=False)
        return
    if family not in FAMILIES:
        raise RecipeError(f"list: {unknown(family, FAMILIES)}")
    described = {name: _described(family, name) for name in _names(family)}
    if as_json:
        echo_json(described)
        return
    table(
        ["name", "fields", "what it is"],
        [
            [label, ", ".join(d["fields"]) or "-", d["about"]]
            for label, d in zip(_labelled(family), described.values(), strict=True)
        ],
        numbers=False,
    )


def _names(family: str) -> Mapping[str, Any]:
    """The names of a family; what they stand for is imported when it is looked at."""
    if family == "presets":
        from holdfast.presets import PRESETS

        return PRESETS
    return ALL[family]


def _labelled(family: str) -> list[str]:
    """The names, those of installed packages with their package."""
    names = _names(family)
    packages = {name: names.package(name) if isinstance(names, Registry) else "" for name in names}
    return [f"{name} ({package})" if package else name for name, package in packages.items()]


def _described(family: str, name: str) -> dict[str, Any]:
    names = _names(family)
    package = names.package(name) if isinstance(names, Registry) else ""
    try:
        described = _describe(names[name])
    except RecipeError as error:  # the others are shown all the same
        described = {"fields": [], "about": str(error)}
    return {**described, **({"package": package} if package else {})}


def _describe(entry: Any) -> dict[str, Any]:
    import dataclasses

    kind = entry if isinstance(entry, type) or inspect.isfunction(entry) else type(entry)
    names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
    about = (inspect.getdoc(kind) or "").splitlines() or [""]
    return {"fields": names, "about": plain_text(about[0])}


SIGNS = {
    "le": "<=", "ge": ">=", "ne": "!=", "sim": "~", "approx": "~", "dots": "...", "epsilon": "eps", "ell": "l",
    "cdot": "*", "times": "x", "to": "->", "infty": "inf",
}  # fmt: skip
"""Commands of LaTeX whose name is not what a terminal should show."""


def plain_text(line: str) -> str:
    r"""A line of a docstring for a terminal: mathematics without the source code of LaTeX.

    >>> plain_text(r":math:`\|z - x\|_2 \le \epsilon`, with `project`.")
    '||z - x||_2 <= eps, with project.'
    >>> plain_text(r":math:`\tfrac12 \max_{k \ne y} z_k`")
    '1/2 max_(k != y) z_k'
    >>> plain_text(r":math:`\bigl(\|q\| \cos\theta\bigr)`")
    '(||q|| cos theta)'
    """
    text = line.replace(":math:", "").replace("`", "")
    if "\\" not in text:
        return text
    text = re.sub(r"\\(?:mathrm|mathbf|text|operatorname)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\t?frac(\d)(\w)", r"\1/\2", text)
    text = re.sub(r"\\t?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1) / (\2)", text)
    text = re.sub(r"\\(bar|tilde|hat) ?(\w)", r"\2_\1", text)
    text = re.sub(r"\\sqrt ?(\w)", r"sqrt(\1)", text)
    text = re.sub(r"\\lfloor ?(.*?) ?\\rfloor", r"floor(\1)", text)
    text = re.sub(r"\\[,;! ]", " ", text).replace(r"\|", "||").replace(r"\#", "#")
    text = re.sub(r"(?<!\\)([{}])", lambda brace: "(" if brace[1] == "{" else ")", text)
    text = re.sub(r"\\([{}])", r"\1", text)
    text = re.sub(r"\\(?:left|right|[bB]ig+[lr]?)(?![a-z])", "", text)
    text = re.sub(r"\\([a-zA-Z]+)(?=\\)", r"\\\1 ", text)  # \cos\theta is two words
    text = re.sub(r"\\([a-zA-Z]+)", lambda name: SIGNS.get(name[1], name[1]), text)
    return re.sub(r"(?<=\bl)_(?=\d)", "", text)
