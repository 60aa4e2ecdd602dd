"""Areas under curves, and quantities of runs over the two settings they differ in."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from holdfast.questions.question import Needs
from holdfast.report.quantities import Measured, is_share, measured, writer
from holdfast.report.runs import RunData
from holdfast.report.variants import Variant, most_seeds, over_seeds, variants
from holdfast.show.items import Item, Note
from holdfast.show.numbers import short
from holdfast.show.table import Cell, Table, coloured
from holdfast.yaml_text import load_yaml

Place = tuple[float, float]

IGNORED = ("name", "seed", "checks", "evaluate")
"""Fields of a recipe that do not make it another point of a grid."""


AREAS = Note(
    "The average radius of a certificate counts wrong and missing answers as 0. The noise area is that under the "
    "accuracy against the standard deviation of Gaussian noise, stretched so that guessing counts as 0; it depends on "
    "how far the noise goes, so compare runs with the same noise."
)
GRIDS = Note("Runs that differ in two settings and nothing else, from the lowest value of each table to the highest.")


@dataclass(frozen=True, kw_only=True)
class Maps:
    """Areas under curves, and quantities over the two settings that runs differ in."""

    title: ClassVar = "Areas and maps"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Areas and radii, then heat maps."""
        if (table := areas(runs)) is not None:
            yield AREAS
            yield table
        if grids := grid_maps(runs):
            yield GRIDS
            yield from grids


def grid_maps(runs: Sequence[RunData]) -> list[Table]:
    """For runs whose recipes differ in two numbers and nothing else: each quantity over the two, means over seeds."""
    groups: dict[str, list[tuple[dict[str, float], Measured]]] = {}
    for run in runs:
        numbers, others = _flat(_recipe(run))
        results = measured(run.measured_rows)
        if numbers and results:
            groups.setdefault(json.dumps([sorted(numbers), others], sort_keys=True), []).append((numbers, results[0]))
    return [table for members in groups.values() for table in _grid(members)]


def _grid(members: Sequence[tuple[Mapping[str, float], Measured]]) -> list[Table]:
    fields = [name for name in members[0][0] if len({numbers[name] for numbers, _ in members}) > 1]
    if len(fields) != 2:
        return []
    down, across = fields
    method = ".".join(down.split(".")[:-1])
    title = method.removeprefix("train.") if method == ".".join(across.split(".")[:-1]) else ""
    tables = []
    for name in dict.fromkeys(itertools.chain.from_iterable(one.values for _, one in members)):
        places: dict[Place, list[float]] = {}
        for numbers, one in members:
            if name in one.values:
                places.setdefault((numbers[down], numbers[across]), []).append(one.values[name])
        values = {place: statistics.fmean(repeats) for place, repeats in places.items()}
        seeds = max(len(repeats) for repeats in places.values())
        over = f", means over {seeds} seeds" if seeds > 1 else ""
        about = f"{title}: {name}" if title else f"{name[:1].upper()}{name[1:]}"
        caption = f"{about} by {_last(down)} and {_last(across)}{over}"
        tables.append(heat_map(caption, _last(down), _last(across), values, writer(name)))
    return tables


def heat_map(
    caption: str, down: str, across: str, values: Mapping[Place, float], write: Callable[[float], str]
) -> Table:
    """Values over two numbers, coloured from the lowest to the highest; places without a value stay empty."""
    rows, columns = (sorted({place[side] for place in values}) for side in (0, 1))

    def cell(value: float | None) -> Cell:
        if value is None:
            return Cell("")
        return Cell(write(value), value=value)

    return Table(
        caption=caption,
        corner=f"{down} \\ {across}",
        columns=[short(column) for column in columns],
        rows=coloured([(short(row), [cell(values.get((row, column))) for column in columns]) for row in rows]),
    )


def areas(runs: Sequence[RunData]) -> Table | None:
    """Areas, mean errors and average radii of every variant; None where there are none."""
    some = variants(runs)
    results = [(one, [measured(run.measured_rows)[0].values for run in one.runs]) for one in some]
    names = list(dict.fromkeys(name for _, each in results for values in each for name in values))
    names = [name for name in names if not is_share(name)]  # which are in the table of accuracies
    if not names:
        return None
    most = most_seeds(some)

    def cell(one: Variant, name: str, values: Sequence[float]) -> Cell:
        return over_seeds(values, writer(name), column=len(one.runs), table=most) if values else Cell("not run")

    rows = [
        (one.label, [cell(one, name, [values[name] for values in each if name in values]) for name in names])
        for one, each in results
    ]
    seeds = f", mean ± standard deviation over {most} seeds" if most > 1 else ""
    return Table(f"Areas and radii{seeds}", "run", names, rows)


def _flat(recipe: Mapping[str, Any], path: str = "") -> tuple[dict[str, float], dict[str, Any]]:
    """The numbers of a recipe by their path, and everything else."""
    numbers: dict[str, float] = {}
    others: dict[str, Any] = {}
    for key, value in recipe.items():
        here = f"{path}{key}"
        if here in IGNORED:
            continue
        if isinstance(value, dict):
            inside, rest = _flat(value, f"{here}.")
            numbers |= inside
            others |= rest if value else {here: {}}
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[here] = float(value)
        else:
            others[here] = value
    return numbers, others


def _recipe(run: RunData) -> Mapping[str, Any]:
    """The recipe of a run; empty where there is none to read."""
    try:
        read = load_yaml(run.recipe or "")
    except yaml.YAMLError:
        return {}
    return read if isinstance(read, dict) else {}


def _last(path: str) -> str:
    return path.rpartition(".")[2]
