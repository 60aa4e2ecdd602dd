"""Corruptions by kind and severity: mean errors, heat maps, accuracy against severity, and what they look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from holdfast.errors import HoldfastError
from holdfast.report.gallery import png
from holdfast.report.runs import RunData
from holdfast.results import accuracies
from holdfast.results.corruption_errors import Corrupted, corrupted
from holdfast.results.recorded_checks import checks_of
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import Figure, figures
from holdfast.show.numbers import count, decimal, give_or_take, percent
from holdfast.show.table import Cell, Table


@dataclass(frozen=True)
class Strip:
    """One image in all its corruptions.

    Args:
        caption: which image, and how severe.
        pictures: name and data URI of each, the original first.
    """

    caption: str
    pictures: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Corruptions:
    """The section on corruptions by kind and severity.

    Args:
        means: mean errors of each family.
        figures: accuracy against severity.
        maps: errors by kind and severity of each run.
        strips: what the corruptions look like.
    """

    means: Sequence[Table]
    figures: Sequence[Figure]
    maps: Sequence[Table]
    strips: Sequence[Strip]

    name: ClassVar[str] = "corruptions"
    title: ClassVar[str] = "Corruptions"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Corruptions:
        """What the ledgers have of them."""
        results = corrupted_runs(runs)
        drawn = figures(severity_charts(runs, results), labels, "severity")
        return cls(mean_tables(runs, results), drawn, error_maps(runs, results), strips(runs))

    @property
    def has_content(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.means)


def corrupted_runs(runs: Sequence[RunData]) -> tuple[tuple[int, Corrupted], ...]:
    """Errors of each run's main weights, with the place of the run."""
    return tuple(
        (place, one) for place, run in enumerate(runs) for one in corrupted(run.graded) if one.weights == run.weights[0]
    )


def mean_tables(runs: Sequence[RunData], results: Sequence[tuple[int, Corrupted]]) -> list[Table]:
    """Mean corruption errors, absolute and relative to the first run: a table for each family."""
    tables = []
    for family, called in _families(results):
        members = [(place, one) for place, one in results if one.family == family]
        rows = []
        for place, one in members:
            mean, first = one.mean(), next(other for _, other in members if other.source == one.source)
            cells = [
                Cell("incomplete") if mean is None else Cell(percent(mean), give_or_take(one.half, percent)),
                Cell(_relative(one, first)), Cell(f"{len(one.kinds)} x {len(one.severities)}"),
                Cell(count(one.examples)),
            ]  # fmt: skip
            rows.append((f"{runs[place].label}, {one.source}" if one.source else runs[place].label, cells))
        columns = ("Mean error, 95 %", f"Relative to {runs[members[0][0]].label}", "Kinds x severities", "Images")
        tables.append(Table(f"Mean corruption error, {called}", "Run", columns, rows))
    return tables


def _families(results: Sequence[tuple[int, Corrupted]]) -> list[tuple[str, str]]:
    """Name and title of each family, in the order of the page."""
    return sorted({(one.family, one.called) for _, one in results}, key=lambda family: family[1].casefold())


def _relative(one: Corrupted, first: Corrupted) -> str:
    try:
        value = one.mean(first)
    except HoldfastError:
        value = None
    return "unknown" if value is None else decimal(value, 3)


def error_maps(runs: Sequence[RunData], results: Sequence[tuple[int, Corrupted]]) -> list[Table]:
    """Error of every kind at every severity, with the mean of the kind."""
    tables = []
    for place, one in results:
        severities = sorted({severity for _, severity in one.errors})
        rows = []
        for kind in one.kinds:
            cells = [_error(one.errors.get((kind, severity))) for severity in severities]
            errors = [one.errors[kind, severity] for severity in severities if (kind, severity) in one.errors]
            rows.append((kind.replace("_", " "), [*cells, _error(sum(errors) / len(errors))]))
        caption = f"{runs[place].label}: error under {one.title}"
        columns = (*(f"severity {severity}" for severity in severities), "mean")
        tables.append(Table(caption, "Kind", columns, rows))
    return tables


def _error(value: float | None) -> Cell:
    return Cell("") if value is None else Cell(percent(value), heat=value)


def severity_charts(runs: Sequence[RunData], results: Sequence[tuple[int, Corrupted]]) -> tuple[Chart, ...]:
    """Accuracy against severity, mean over the kinds, from the clean images on: a chart for each family."""
    charts = []
    for family, called in _families(results):
        curves = []
        for place, one in results:
            if one.family != family or not one.severities:
                continue
            points = {0.0: clean} if (clean := _clean(runs[place])) is not None else {}
            for severity in one.severities:
                errors = [one.errors[kind, severity] for kind in one.kinds if (kind, severity) in one.errors]
                points[float(severity)] = 1 - sum(errors) / len(errors)
            curves.append(Curve(place, one.source or "mean over kinds", tuple(points), tuple(points.values())))
        if curves:
            charts.append(Chart(f"Accuracy under {called}", "severity", tuple(curves), True))
    return tuple(charts)


def _clean(run: RunData) -> float | None:
    names = [check.name for check in run.main_checks if check.clean]
    rows = accuracies(run.main_rows).iter_rows(named=True)
    return next((float(row["accuracy"]) for row in rows if row["check"] in names), None)


def strips(runs: Sequence[RunData]) -> list[Strip]:
    """The first image of the first run that kept some, in every kind at the middle of the severities."""
    for run in runs:
        made = list(_strips(run))
        if made:
            return made
    return []


def _strips(run: RunData) -> Iterator[Strip]:
    kept = {shown.check: shown for shown in run.graded_galleries if shown.weights == run.weights[0] and len(shown.x)}
    pictured = [check for check in checks_of(run.graded) if check.name in kept]
    for name in sorted({str(check.traits.family) for check in pictured}, key=str.casefold):
        graded = [check for check in pictured if check.traits.family == name]
        severities = sorted({int(check.params["severity"]) for check in graded})
        severity = severities[len(severities) // 2]
        chosen = [check for check in graded if int(check.params["severity"]) == severity]
        first = kept[chosen[0].name]
        pictures = [("original", png(first.x[0]))]
        pictures += [(str(check.params["kind"]).replace("_", " "), png(kept[check.name].z[0])) for check in chosen]
        label = run.class_name(int(first.label[0]))
        yield Strip(f"{name}, severity {severity}: example {int(first.example[0])}, {label}", pictures)
