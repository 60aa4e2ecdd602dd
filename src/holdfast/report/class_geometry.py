"""Classes in feature space: how wide, how far from the hyperplanes, and what follows, as an analysis found it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.analysis.class_verdicts import verdicts
from holdfast.analysis.store import Answer
from holdfast.report.runs import RunData, answers_to
from holdfast.show.figures import Figure
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Cell, Table

MOST = 20
"""Classes up to which the distances of all pairs of centroids are shown."""

NONE = "none"

BY_CLASS = {
    "dispersion": ("Dispersion by class: largest distance of two examples", False),
    "mean_margin": ("Mean margin by class: signed distance to the nearest hyperplane", True),
    "margin": ("Smallest margin by class; negative where an example is wrong", True),
}


@dataclass(frozen=True)
class ClassGeometry:
    """The section on classes.

    Args:
        overview: of each network, None where nobody asked.
        by_class: tables with a column for each class.
        centroids: distances of the centroids, of one network.
        verdicts: network, and sentences about it.
    """

    overview: Table | None
    by_class: Sequence[Table]
    centroids: Table | None
    verdicts: Sequence[tuple[str, Sequence[str]]]
    figures: Sequence[Figure] = ()

    name: ClassVar[str] = "class_geometry"
    title: ClassVar[str] = "Classes in feature space"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> ClassGeometry:
        """What the analysis found of these runs."""
        found = [(run, answer) for _, run, answer in answers_to(runs, "classes")]
        tables = [_by_class(found, name) for name in BY_CLASS] if found else []
        said = [(_who(run, answer), verdicts(answer.settings, answer.result)) for run, answer in found]
        return cls(_overview(found) if found else None, tables, _centroids(found), said)

    @property
    def there(self) -> bool:
        """Whether anybody asked."""
        return self.overview is not None


def _overview(found: Sequence[tuple[RunData, Answer]]) -> Table:
    rows = []
    for run, answer in found:
        result, settings = answer.result, answer.settings
        apart = [value for _, _, value in _pairs(result)]
        cells = [
            Cell(_number(max(result["dispersion"]))), Cell(_number(_least(result["margin"]))),
            Cell(_number(_mean(result))), Cell(_number(_relative(result))),
            Cell(percent(sum(result["within"]) / sum(result["count"]))),
            Cell(_number(min(apart, default=None))), Cell(short(settings["delta_v"])), Cell(short(settings["delta_d"])),
            Cell(count(sum(result["count"]))),
        ]  # fmt: skip
        rows.append((_who(run, answer), cells))
    columns = (
        "Widest class", "Smallest margin", "Mean margin", "Margin to width", "Examples within δv", "Nearest centroids",
        "δv", "δd", "Images",
    )  # fmt: skip
    return Table("Classes in feature space", "Run", columns, rows)


def _by_class(found: Sequence[tuple[RunData, Answer]], name: str) -> Table:
    """One measure: a row for each network, a column for each class; colours compare networks."""
    caption, good = BY_CLASS[name]
    values = [value for _, answer in found for value in answer.result[name] if value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    labels = sorted({label for _, answer in found for label in answer.result["classes"]})

    def cell(value: float | None) -> Cell:
        if value is None:
            return Cell(NONE)
        heat = (value - low) / (high - low) if high > low else 0.0
        return Cell(_fixed(value, max(abs(low), abs(high))), heat=heat, good=good)

    rows = []
    for run, answer in found:
        here = dict(zip(answer.result["classes"], answer.result[name], strict=True))
        rows.append((_who(run, answer), [cell(here[label]) if label in here else Cell("") for label in labels]))
    return Table(caption, "Run", [found[0][0].class_name(label) for label in labels], rows)


def _centroids(found: Sequence[tuple[RunData, Answer]]) -> Table | None:
    """Distances of all pairs of centroids; only for one network with few classes, or the page would be full of them."""
    if len(found) != 1 or not 1 < len(found[0][1].result["classes"]) <= MOST:
        return None
    run, answer = found[0]
    result = answer.result
    names = [run.class_name(label) for label in result["classes"]]
    high = max(value for _, _, value in _pairs(result))
    rows = [
        (names[i], [Cell("") if i == j else Cell(_fixed(value, high), heat=value / high if high else 0.0, good=True)
                    for j, value in enumerate(row)])
        for i, row in enumerate(result["centroid_distance"])
    ]  # fmt: skip
    return Table("Distances of the centroids", "Class", names, rows)


def _pairs(result: Mapping[str, Any]) -> Iterator[tuple[int, int, float]]:
    for i, row in enumerate(result["centroid_distance"]):
        for j, value in enumerate(row):
            if j > i:
                yield i, j, value


def _mean(result: Mapping[str, Any]) -> float | None:
    """Mean margin of all examples."""
    values = [
        (value, size) for value, size in zip(result["mean_margin"], result["count"], strict=True) if value is not None
    ]
    return sum(value * size for value, size in values) / sum(size for _, size in values) if values else None


def _relative(result: Mapping[str, Any]) -> float | None:
    """Mean margin over mean dispersion, which does not change when all features are scaled."""
    margin, width = _mean(result), sum(result["dispersion"]) / len(result["dispersion"])
    return margin / width if margin is not None and width > 0 else None


def _least(values: Sequence[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:z.3g}".replace("-", "−")


def _fixed(value: float, largest: float) -> str:
    """With as many digits after the point as three digits of the largest number leave."""
    digits = 2 if largest < 10 else 1 if largest < 100 else 0
    return f"{value:z.{digits}f}".replace("-", "−")


def _who(run: RunData, answer: Answer) -> str:
    """The run, and what was asked where that was asked more than once."""
    several = sum(one.kind == "classes" and one.weights == answer.weights for one in run.answers) > 1
    said = f", δv {short(answer.settings['delta_v'])}, δd {short(answer.settings['delta_d'])}" if several else ""
    return f"{run.label} ({answer.weights}{said})"
