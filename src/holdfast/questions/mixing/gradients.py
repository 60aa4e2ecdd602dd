r"""Magnitudes of the gradients of two classifiers: in few numbers, tables and charts; without torch.

Mixtures weigh logits by :math:`R_i = \|\nabla g_i\|_* / \|\nabla h_i\|_*`. Were the two magnitudes of a class
proportional over the images, the ratio would be a number and the mixture an average of logits.

Reference:
    Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
    section 4.1 and figures 2, 3 and 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.questions.answers import Answer
from holdfast.questions.presenting import number
from holdfast.show.chart import Chart
from holdfast.show.figures import Figure, Key, figure, plain
from holdfast.show.heat_map import heat_map
from holdfast.show.items import Details, Heading, Item
from holdfast.show.numbers import percent
from holdfast.show.table import Cell, Table

Numbers = NDArray[np.float64]

QUANTILES = 41
"""Numbers that stand for the distribution of one class."""

MOST = 20
"""Classes whose distributions are drawn, and whose correlations are in a table."""

SIDES = {"standard": "negative", "robust": "positive"}
"""Where the distributions of each network are drawn."""

POINT_NAMES = {
    "clean": "clean images", "on_standard": "images attacked through the standard network",
    "on_robust": "images attacked through the robust network",
}  # fmt: skip
"""Where gradients are measured, by their names in the rows."""

EXPLANATION = (
    "Mixtures by gradient ratios weigh the logits of a class by the magnitudes of their gradients, in the norm dual to "
    "the attack’s. If these were proportional for both networks, the mixture would be an average of logits: the table "
    "has the mean correlations of the magnitudes of two classes over the images, and how much the ratio of the two "
    "networks varies, as a share of its mean (median class)."
)


@dataclass(frozen=True)
class MagnitudeSummary:
    """Magnitudes of gradients at one kind of points.

    Args:
        standard: equally spaced quantiles of each class of the accurate classifier, from the least to the largest.
        robust: of the robust one.
        means: mean magnitude over images and classes, of the two.
        correlation: of all classes of the accurate classifier, then of the robust one, over the images; None where one
            does not vary.
        within_standard: mean correlation of two classes of the accurate classifier, None where there is none.
        within_robust: of the robust one.
        between: of a class of the one and a class of the other.
        ratio: deviation over mean of the ratio of the two magnitudes, median over the classes; None where one is 0.
    """

    standard: list[list[float]]
    robust: list[list[float]]
    means: tuple[float, float]
    correlation: list[list[float | None]]
    within_standard: float | None
    within_robust: float | None
    between: float | None
    ratio: float | None


def summarise_magnitudes(rows: pl.DataFrame, points: str) -> MagnitudeSummary:
    """The gradients at one kind of points, from the columns `standard_<points>` and `robust_<points>`."""
    standard, robust = (
        np.asarray(rows[f"{who}_{points}"].to_list(), dtype=np.float64) for who in ("standard", "robust")
    )
    matrix, classes = correlation(np.concatenate((standard, robust), axis=1)), standard.shape[1]
    others = ~np.eye(classes, dtype=np.bool_)
    return MagnitudeSummary(
        standard=quantiles(standard),
        robust=quantiles(robust),
        means=(float(standard.mean()), float(robust.mean())),
        correlation=[[None if np.isnan(value) else float(value) for value in row] for row in matrix],
        within_standard=_mean(matrix[:classes, :classes][others]),
        within_robust=_mean(matrix[classes:, classes:][others]),
        between=_mean(matrix[:classes, classes:].flatten()),
        ratio=ratio_spread(standard, robust),
    )


def quantiles(values: Numbers, count: int = QUANTILES) -> list[list[float]]:
    """Equally spaced quantiles of every column."""
    columns: list[list[float]] = np.quantile(values, np.linspace(0, 1, count), axis=0).T.tolist()
    return columns


def correlation(values: Numbers) -> Numbers:
    """Correlations of the columns over the rows; not a number where a column does not vary."""
    centred = values - values.mean(axis=0)
    # what rounding leaves of a column of equal numbers is no variation
    varies = np.ptp(values, axis=0) > 1e-12 * np.abs(values).max(axis=0, initial=0)
    unit = centred / np.where(varies, np.linalg.norm(centred, axis=0), np.nan)
    matrix: Numbers = np.clip(unit.T @ unit, -1, 1)
    return matrix


def ratio_spread(standard: Numbers, robust: Numbers) -> float | None:
    """Deviation over mean of the ratio of the two magnitudes, median over the classes; None where one is 0."""
    if not (robust > 0).all():
        return None
    ratio = standard / robust
    means = ratio.mean(axis=0)
    return float(np.median(ratio.std(axis=0) / means)) if (means > 0).all() else None


def _mean(values: Numbers) -> float | None:
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if len(numbers) else None


def gradient_items(answers: Sequence[tuple[str, Answer]]) -> Iterator[Item]:
    """Distributions and correlations of the gradients of each pair of networks, by the name of the pair."""
    if answers:
        yield EXPLANATION
    for name, answer in answers:
        classes = [answer.class_name(label) for label in range(len(answer.rows["standard_clean"][0]))]
        summaries = {points: summarise_magnitudes(answer.rows, points) for points in POINT_NAMES}
        yield Heading(f"Gradients of {name}")
        for points, summary in summaries.items():
            yield violin_chart(summary, classes, f"Gradient magnitudes, {POINT_NAMES[points]}")
            yield correlation_chart(summary, classes, f"Correlations, {POINT_NAMES[points]}")
        yield _overview(summaries)
        tables = [table for points, one in summaries.items() for table in _by_class(one, classes, POINT_NAMES[points])]
        yield Details("Gradient magnitudes by class, and their correlations", tables)


def violin_chart(summary: MagnitudeSummary, classes: Sequence[str], title: str) -> Figure:
    """Figure 2: the magnitudes of each class, the standard network to the left and the robust one to the right."""
    data: list[dict[str, Any]] = []
    for colour, (who, side) in enumerate(SIDES.items()):
        columns = getattr(summary, who)[:MOST]
        data.append(
            {
                "type": "violin", "name": who, "side": side, "points": False, "scalemode": "width", "width": 0.9,
                "x": [place for place, column in enumerate(columns) for _ in column],
                "y": [float(f"{value:z.4g}") for column in columns for value in column],
                "line": {"color": f"var(--series-{colour})", "width": 1.2}, "spanmode": "hard", "hoverinfo": "y+name",
            }
        )  # fmt: skip
    made = figure(Chart(title, "class", (), False, ticks=tuple(classes[:MOST])), [""], "")
    layout = made.spec["layout"]
    positive = all(value > 0 for trace in data for value in trace["y"])
    scale = {"type": "log", "tickformat": ".3~g"} if positive else {}
    layout = {**layout, "violinmode": "overlay", "yaxis": {**layout["yaxis"], "rangemode": "normal", **scale}}
    keys = tuple(Key(f"{who} network", colour, 0) for colour, who in enumerate(SIDES))
    return replace(made, keys=keys, spec={"data": data, "layout": layout})


def correlation_chart(summary: MagnitudeSummary, classes: Sequence[str], title: str) -> Figure:
    """Figure 3: correlations of all magnitudes; the standard network's classes come first, then the robust one's."""
    names = _both(classes)
    size, step = len(names), max(1, len(names) // 10)
    drawn = heat_map(
        title, [[None if value is None else round(value, 3) for value in row] for row in summary.correlation],
        axes=("g: standard network, h: robust network", ""), ends=(-1, 1), high_is_worse=False, from_top=True,
        texts=[[f"{down}, {across}" for across in names] for down in names], hover="%{text}<br>%{z:.2f}",
    )  # fmt: skip
    drawn.spec["data"][0]["colorbar"]["dtick"] = 0.5
    layout = drawn.spec["layout"]
    own = {"tickvals": [*range(0, size, step)], "ticktext": [plain(name) for name in names[::step]]}
    axes = {axis: {**layout[axis], **own, "automargin": True} for axis in ("xaxis", "yaxis")}
    line = {"type": "line", "line": {"color": "var(--ink)", "width": 1}}
    (low, high), middle = (-0.5, size - 0.5), size / 2 - 0.5
    shapes = [
        line | {"x0": middle, "x1": middle, "y0": low, "y1": high},
        line | {"x0": low, "x1": high, "y0": middle, "y1": middle},
    ]
    return replace(drawn, spec={**drawn.spec, "layout": {**layout, **axes, "shapes": shapes}})


def _overview(summaries: Mapping[str, MagnitudeSummary]) -> Table:
    """Means and mean correlations at every kind of points."""
    columns = (
        "Mean, standard", "Mean, robust", "Correlation in standard", "In robust", "Between both", "Ratio varies by",
    )  # fmt: skip
    rows = [
        (
            POINT_NAMES[points].capitalize(),
            [
                *map(number, one.means), *map(_correlation, (one.within_standard, one.within_robust, one.between)),
                Cell("unknown") if one.ratio is None else number(one.ratio, percent),
            ],
        )
        for points, one in summaries.items()
    ]  # fmt: skip
    return Table("Gradient magnitudes: means and correlations", "Points", columns, rows)


def _by_class(summary: MagnitudeSummary, classes: Sequence[str], points: str) -> Iterator[Table]:
    """Medians of each class, and correlations of few classes."""
    rows = [(f"{who} network", [number(column[len(column) // 2]) for column in getattr(summary, who)]) for who in SIDES]
    yield Table(f"Median gradient magnitudes, {points}", "Network", classes, rows, style="dense")
    if len(classes) <= MOST:
        names = _both(classes)
        rows = [(name, [*map(_correlation, row)]) for name, row in zip(names, summary.correlation, strict=True)]
        yield Table(f"Correlations of gradient magnitudes, {points}", "Class", names, rows, style="dense")


def _both(classes: Sequence[str]) -> list[str]:
    return [f"{who} {name}" for who in ("g", "h") for name in classes]


def _correlation(value: float | None) -> Cell:
    """A correlation with two digits, in a colour of its strength."""
    if value is None:
        return Cell("unknown")
    return Cell(correlation_text(value), heat=abs(value), good=value > 0, value=value)


def correlation_text(value: float) -> str:
    """A correlation with two digits."""
    return f"{value:z.2f}".replace("-", "−")
