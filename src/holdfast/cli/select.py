"""`holdfast select`: the most robust of runs that are about as accurate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.screen import percent, say, table
from holdfast.errors import LedgerError, RecipeError

if TYPE_CHECKING:
    from holdfast.report.quantities import Measured
    from holdfast.report.runs import RunData


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, or directories of runs.")],
    by: Annotated[
        str,
        typer.Option(
            "--by", help="The quantity that decides, or a part of its name, such as margin or linf eps=8/255."
        ),
    ],
    accuracy: Annotated[float, typer.Option("--accuracy", help="Centre of the band of clean accuracy, such as 0.985.")],
    within: Annotated[float, typer.Option("--within", help="Half the width of the band.")] = 0.003,
    per: Annotated[
        str | None, typer.Option("--per", help="The best for each value of this field, such as train.objective.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose among runs with a clean accuracy in a band; the best of each group comes first."""
    from holdfast.report import read_runs
    from holdfast.report.find import find_runs
    from holdfast.report.quantities import CLEAN, quantity
    from holdfast.report.quantities import select as best
    from holdfast.report.same_images import different_images, tested

    data = read_runs(find_runs(runs))
    measured, note = _measured(data), different_images([tested(run) for run in data]) or None
    name = quantity([one for one, _ in measured], by)
    groups: dict[str, list[Measured]] = {}
    for one, recipe in measured:
        groups.setdefault(_field(recipe, per) if per else "", []).append(one)
    chosen = {group: best(members, by=name, accuracy=accuracy, within=within) for group, members in groups.items()}
    same_checks = len({one.checks.get(name) for members in chosen.values() for one in members}) <= 1
    if as_json:
        notes = {"other_images": note, "same_checks": same_checks}
        echo_json({"by": name, "accuracy": accuracy, "within": within, "runs": _records(chosen), **notes})
        return
    title = f"clean accuracy {percent(accuracy)} ± {100 * within:.1f} points, by {name}"
    table([per or "", "run", "", CLEAN, name], _rows(chosen, name), title=title)
    if note:
        say(f"not comparable: {note}")
    if not same_checks:
        say(f"not comparable: '{name}' is not over the same checks for all runs")


def _records(chosen: Mapping[str, Sequence[Measured]]) -> list[dict[str, Any]]:
    """The chosen runs for machines."""
    return [
        {"group": group, "run": one.run, "weights": one.weights, **one.values, "at_chance": one.at_chance}
        for group, members in chosen.items()
        for one in members
    ]


def _rows(chosen: Mapping[str, Sequence[Measured]], name: str) -> list[list[str]]:
    """The chosen runs for people, the best of each group first."""
    from holdfast.report.quantities import CLEAN

    rows = []
    for group, members in chosen.items():
        for place, one in enumerate(members):
            mark = "at chance level" if one.at_chance else "best" if place == 0 else ""
            rows.append([group, one.run, mark, percent(one.values[CLEAN]), f"{one.values[name]:z.4f}"])
        rows += [] if members else [[group, "none in the band", "", "", ""]]
    return rows


def _measured(runs: Sequence[RunData]) -> list[tuple[Any, Mapping[str, Any]]]:
    """What was measured of each run, for the weights that a report shows, with its recipe."""
    from holdfast.report.quantities import measured
    from holdfast.yaml_text import load_mapping

    rows: list[tuple[Any, Mapping[str, Any]]] = []
    for data in runs:
        recipe = load_mapping(data.recipe, f"{data.label}: recipe.yaml") if data.recipe else {}
        rows += [(one, recipe) for one in measured(data.main_rows)]
    if not rows:
        raise LedgerError("select: expected runs with results; got none")
    return rows


def _field(recipe: Mapping[str, Any], path: str) -> str:
    """A field of a resolved recipe in words; of a method its name."""
    value: Any = recipe
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            raise RecipeError(f"--per {path}: expected a field of the runs' recipes; '{key}' is none")
        value = value[key]
    return next(iter(value)) if isinstance(value, dict) and len(value) == 1 else str(value)
