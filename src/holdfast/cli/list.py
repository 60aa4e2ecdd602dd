"""`holdfast list`: what a recipe may name."""

from __future__ import annotations

import inspect
import re
from typing import Annotated, Any

import typer

from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.errors import RecipeError, unknown

FAMILIES = {
    "models": ("holdfast.ensembles", "ARCHITECTURES"),
    "mixings": ("holdfast.ensembles", "MIXINGS"),
    "data": ("holdfast.data", "DATASETS"),
    "augmentations": ("holdfast.augment", "AUGMENTATIONS"),
    "objectives": ("holdfast.objectives", "OBJECTIVES"),
    "optimizers": ("holdfast.optim", "OPTIMIZERS"),
    "schedules": ("holdfast.optim", "SCHEDULES"),
    "checks": ("holdfast.checks", "CHECKS"),
    "attacks": ("holdfast.attacks", "ATTACKS"),
    "certifiers": ("holdfast.certify", "CERTIFIERS"),
    "corruptions": ("holdfast.corruptions", "CORRUPTIONS"),
    "threats": ("holdfast.threat", "THREATS"),
    "losses": ("holdfast.losses", "LOSSES"),
    "step_schedules": ("holdfast.attacks.schedule", "STEP_SCHEDULES"),
    "samplings": ("holdfast.certify.sampling", "SAMPLINGS"),
    "questions": ("holdfast.questions", "QUESTIONS"),
    "presets": ("holdfast.checks", "PRESETS"),
}


def command(
    family: Annotated[str | None, typer.Argument(help="Such as models; without it, all families.")] = None,
    as_json: Json = False,
) -> None:
    """List models, attacks, objectives and everything else that has a name, with its fields."""
    from holdfast.cli.screen import table

    if family is None:
        rows: list[list[str]] = [[name, ", ".join(_entries(name))] for name in FAMILIES]
        if as_json:
            echo_json({name: list(_entries(name)) for name in FAMILIES})
        else:
            table(["family", "names"], rows, numbers=False)
        return
    if family not in FAMILIES:
        raise RecipeError(f"list: {unknown(family, FAMILIES)}")
    described = {name: _describe(entry) for name, entry in _entries(family).items()}
    if as_json:
        echo_json(described)
    else:
        table(
            ["name", "fields", "what it is"],
            [[name, ", ".join(d["fields"]) or "-", d["about"]] for name, d in described.items()],
            numbers=False,
        )


def _entries(family: str) -> dict[str, Any]:
    import importlib

    module, name = FAMILIES[family]
    entries: dict[str, Any] = getattr(importlib.import_module(module), name)
    return entries


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
