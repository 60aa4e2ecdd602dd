"""The most robust of runs that are about as accurate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.errors import LedgerError, RecipeError
from holdfast.questions.question import Needs
from holdfast.report.quantities import CLEAN, Measured, measured, quantity, select, writer
from holdfast.report.runs import RunData
from holdfast.report.same_images import image_doubts
from holdfast.show.items import Item, Note
from holdfast.show.numbers import percent
from holdfast.show.table import Cell, Table
from holdfast.yaml_text import load_mapping


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Choose among runs with a clean accuracy in a band; the best of each group comes first.

    Args:
        by: the quantity that decides, or a part of its name, such as margin or linf eps=8/255.
        accuracy: centre of the band of clean accuracy, such as 0.985.
        within: half the width of the band.
        per: the best for each value of this field, such as train.objective.
    """

    title: ClassVar = "Selection"
    needs: ClassVar = Needs.ROWS

    by: str
    accuracy: float
    within: float = 0.003
    per: str | None = None

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """The chosen runs, and whether their numbers compare."""
        name, chosen = self.chosen(runs)
        rows = [row for group, members in chosen.items() for row in _rows(group, members, name)]
        caption = f"Clean accuracy {percent(self.accuracy)} ± {100 * self.within:.1f} points, by {name}"
        yield Table(caption, "Run", (*([self.per] if self.per else []), "", CLEAN, name), rows)
        yield from image_doubts(runs)
        if not same_checks(chosen, name):
            yield Note(f"'{name}' is not over the same checks for all runs.", "doubt", "Check this.")

    def chosen(self, runs: Sequence[RunData]) -> tuple[str, dict[str, Sequence[Measured]]]:
        """The name of the quantity, and the runs in the band by group, the best first."""
        results = [(one, _group(run, self.per)) for run in runs for one in measured(run.main_rows)]
        if not results:
            raise LedgerError("select: expected runs with results; got none")
        name = quantity([one for one, _ in results], self.by)
        groups: dict[str, list[Measured]] = {}
        for one, group in results:
            groups.setdefault(group, []).append(one)
        chosen: dict[str, Sequence[Measured]] = {
            group: select(members, by=name, accuracy=self.accuracy, within=self.within)
            for group, members in groups.items()
        }
        return name, chosen


def same_checks(chosen: Mapping[str, Sequence[Measured]], name: str) -> bool:
    """Whether a quantity is over the same checks for all runs."""
    return len({one.checks.get(name) for members in chosen.values() for one in members}) <= 1


def _rows(group: str, members: Sequence[Measured], name: str) -> Iterator[tuple[str, list[Cell]]]:
    of_group = [Cell(group, words=True)] if group else []
    for place, one in enumerate(members):
        mark = "at chance level" if one.at_chance else "best" if place == 0 else ""
        numbers = [Cell(percent(one.values[CLEAN]), value=one.values[CLEAN])]
        numbers.append(Cell(writer(name)(one.values[name]), value=one.values[name]))
        yield one.run, [*of_group, Cell(mark, words=True), *numbers]
    if not members:
        yield "none in the band", [*of_group, *[Cell("")] * 3]


def _group(run: RunData, per: str | None) -> str:
    """A field of a resolved recipe in words; of a method its name."""
    value: Any = load_mapping(run.recipe, f"{run.label}: recipe.yaml") if run.recipe else {}
    if per is None:
        return ""
    for key in per.split("."):
        if not isinstance(value, dict) or key not in value:
            raise RecipeError(f"--per {per}: expected a field of the runs' recipes; '{key}' is none")
        value = value[key]
    return next(iter(value)) if isinstance(value, dict) and len(value) == 1 else str(value)
