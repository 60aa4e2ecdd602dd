"""Corruptions by kind and severity: mean errors, heat maps, accuracy against severity, and what they look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from holdfast.errors import HoldfastError
from holdfast.questions.question import Needs
from holdfast.report.gallery import png
from holdfast.report.runs import RunData, read_runs
from holdfast.report.same_images import image_doubts
from holdfast.results.corruption_errors import ALEXNET, Corrupted, corrupted
from holdfast.results.recorded_checks import checks_of
from holdfast.results.summaries import accuracies
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Heading, Item, Note
from holdfast.show.numbers import count, decimal, give_or_take, percent
from holdfast.show.pictures import Photo, Photos
from holdfast.show.table import Cell, Table

GUIDE = Note(
    "Mean errors are over the severities of each kind and then over the kinds. Relative ones divide each kind by that "
    "of another network. They count in no worst case."
)
Reference = Mapping[tuple[str, str], Corrupted | Mapping[str, float]]
"""What errors are divided by, for each family and source."""


@dataclass(frozen=True, kw_only=True)
class Corruptions:
    """Mean errors under corruptions by kind and severity.

    Args:
        reference: run to divide each kind's error by, or alexnet (ImageNet); the first run if there is none.
    """

    title: ClassVar = "Corruptions"
    needs: ClassVar = Needs.ROWS

    reference: str | None = None

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Mean errors of each family, accuracy against severity, errors of each kind, and what they look like."""
        results = corrupted_runs(runs)
        if not results:
            return
        base, others = reference_of(self.reference, results)
        yield GUIDE
        yield from mean_tables(runs, results, base, self.reference or runs[results[0][0]].label)
        yield from image_doubts([*runs, *others])
        yield from severity_charts(runs, results)
        yield Details("Errors of each kind", error_maps(runs, results), open=len(results) == 1)
        yield from strips(runs)


def reference_of(
    reference: str | None, results: Sequence[tuple[int, Corrupted]]
) -> tuple[Reference, Sequence[RunData]]:
    """What errors are divided by, and the run beside these that it comes from."""
    families = {(one.family, one.source): one for _, one in reversed(results)}  # the first run with each
    if reference is None:
        return families, ()
    if reference == "alexnet":
        return {key: ALEXNET for key in families if key[0] in ("common", "stored")}, ()
    other = read_runs([Path(reference)])
    return {(one.family, one.source): one for _, one in corrupted_runs(other)}, other


def corrupted_runs(runs: Sequence[RunData]) -> tuple[tuple[int, Corrupted], ...]:
    """Errors of each run's main weights, with the place of the run."""
    return tuple(
        (place, one) for place, run in enumerate(runs) for one in corrupted(run.graded) if one.weights == run.weights[0]
    )


def mean_tables(
    runs: Sequence[RunData], results: Sequence[tuple[int, Corrupted]], base: Reference, name: str
) -> list[Table]:
    """Mean corruption errors, absolute and relative to a reference: a table for each family."""
    tables = []
    for family, called in _families(results):
        rows = []
        for place, one in (each for each in results if each[1].family == family):
            cells = [
                _mean(one), _relative(relative_mean(one, base.get((one.family, one.source)))),
                Cell(f"{len(one.kinds)} x {len(one.severities)}"), Cell(count(one.examples), value=one.examples),
            ]  # fmt: skip
            rows.append((f"{runs[place].label}, {one.source}" if one.source else runs[place].label, cells))
        columns = ("Mean error, 95 %", f"Relative to {name}", "Kinds x severities", "Images")
        tables.append(Table(f"Mean corruption error, {called}", "Run", columns, rows))
    return tables


def _families(results: Sequence[tuple[int, Corrupted]]) -> list[tuple[str, str]]:
    """Name and title of each family, in the order of the page."""
    return sorted({(one.family, one.called) for _, one in results}, key=lambda family: family[1].casefold())


def _mean(one: Corrupted) -> Cell:
    mean = one.mean()
    return Cell("incomplete") if mean is None else Cell(percent(mean), give_or_take(one.half, percent), value=mean)


def _relative(value: float | None) -> Cell:
    return Cell("unknown" if value is None else decimal(value, 3), value=value)


def relative_mean(one: Corrupted, base: Corrupted | Mapping[str, float] | None) -> float | None:
    """The mean error relative to a reference; None where it has none that divides."""
    try:
        return None if base is None else one.mean(base)
    except HoldfastError:
        return None


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


def strips(runs: Sequence[RunData]) -> list[Heading | Photos]:
    """The first image of the first run that kept some, in every kind at the middle of the severities."""
    return next((made for run in runs if (made := list(_strips(run)))), [])


def _strips(run: RunData) -> Iterator[Heading | Photos]:
    kept = {shown.check: shown for shown in run.graded_galleries if shown.weights == run.weights[0] and len(shown.x)}
    pictured = [check for check in checks_of(run.graded) if check.name in kept]
    for name in sorted({str(check.traits.family) for check in pictured}, key=str.casefold):
        graded = [check for check in pictured if check.traits.family == name]
        severities = sorted({int(check.params["severity"]) for check in graded})
        severity = severities[len(severities) // 2]
        chosen = [check for check in graded if int(check.params["severity"]) == severity]
        first = kept[chosen[0].name]
        images = [("original", first.x[0])]
        images += [(str(check.params["kind"]).replace("_", " "), kept[check.name].z[0]) for check in chosen]
        label = run.class_name(int(first.label[0]))
        yield Heading(f"{name}, severity {severity}: example {int(first.example[0])}, {label}")
        yield Photos([Photo([(png(image), kind)], kind) for kind, image in images], "strip")
