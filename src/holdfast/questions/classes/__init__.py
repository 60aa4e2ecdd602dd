"""The question of classes in feature space."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.classes.theorems import conclusions
from holdfast.questions.presenting import answered, of_each_kind
from holdfast.questions.question import Context, Material, Needs, Prepared, Record
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Heading, Item
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Cell, Table

if TYPE_CHECKING:
    from torch import nn

DELTAS = {"delta_v": 0.5, "delta_d": 5.0}
"""Those of the paper, where neither the question nor the recipe has others."""
MOST = 20
"""Classes up to which axes have their names, and the distances of all pairs of centroids are shown."""
AXIS = "distance in feature space"
EXPLANATION = (
    "Distances before the last layer, whose rows and biases define a hyperplane between any two classes. The margin of "
    "an example is its distance to the nearest hyperplane of its class, negative if it is on the wrong side. Networks "
    "differ in the scale of their features, so margins mean something only beside dispersions: the margin to width is "
    "the mean margin over the mean dispersion."
)


@dataclass(frozen=True, kw_only=True)
class Classes:
    r"""Class geometry: how compact the classes are before the last layer, and how far from its hyperplanes.

    With features :math:`q`, a linear head :math:`z = W q + b` and all examples of a class :math:`c`:

    .. math:: \mathrm{dispersion}(c) = \max_{x, x' \in c} \|q(x) - q(x')\|, \qquad
              \mathrm{margin}(c) = \min_{x \in c}\, \min_{i \ne c} \frac{(z_c - z_i)(q(x))}{\|W_c - W_i\|}

    Args:
        delta_v: distance from the centroid up to which an example counts as compact (default: the recipe's, or 0.5).
        delta_d: distance of centroids from hyperplanes that counts as far (default: the recipe's, or 5).

    Reference:
        Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
        definitions 3.1 and 5.1, propositions 5.1 and 5.2, theorems 6.2 and 6.3.
    """

    title: ClassVar = "Classes in feature space"
    needs: ClassVar = Needs.NETWORK
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **dict.fromkeys(
            ("classes", "count", "dispersion", "margin", "mean_margin", "radius", "within", "centroid_margin",
             "centroid_norm", "nearest_other", "mapping"), ("class",),
        ),
        "centroid_distance": ("class", "class"),
    }  # fmt: skip

    delta_v: float | None = None
    delta_d: float | None = None

    def __post_init__(self) -> None:
        if self.delta_v is not None and not 0 < self.delta_v < math.inf:
            raise ValueError(f"delta_v: expected a positive number, got {self.delta_v:g}")
        if self.delta_d is not None and not 0 <= self.delta_d < math.inf:
            raise ValueError(f"delta_d: expected a number from 0 on, got {self.delta_d:g}")

    def prepared(self, context: Context) -> Prepared:
        """The distances of this question, of the objective that the run was trained with, or of the paper."""
        trained: Any = context.recipe
        for name in ("train", "objective", "discriminative"):
            trained = trained.get(name) if isinstance(trained, Mapping) else None
        own = {name: value for name, value in vars(self).items() if value is not None}
        values = {**DELTAS, **(trained if isinstance(trained, Mapping) else {}), **own}
        deltas = {name: float(values[name]) for name in DELTAS}
        return Prepared(replace(self, **deltas), deltas)

    def count(self, material: Material) -> int:
        """One record for all classes."""
        return 1

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """Distances within and between the classes, and what the theorems conclude from them."""
        from holdfast.questions.classes.measurement import class_record

        yield class_record(
            cast("nn.Module", material.model), material.x, material.y, batch_size=material.batch_size,
            delta_v=cast(float, self.delta_v), delta_d=cast(float, self.delta_d),
        )  # fmt: skip

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """All networks side by side, then the classes of each, and what the theorems conclude."""
        some = answered(answers)
        if not some:
            return
        yield EXPLANATION
        yield _overview(some)
        yield from _charts(of_each_kind(answers))
        for name, answer in some:
            yield _by_class(name, answer, [one.records[0] for _, one in some])
        few = [(name, answer) for name, answer in some if 1 < len(answer.records[0]["classes"]) <= MOST]
        if few:
            yield Details("Distances of the centroids", [_centroids(name, answer) for name, answer in few])
        for name, answer in some:
            yield Heading(f"What the theorems conclude about {name}")
            yield from conclusions(answer.settings, answer.records[0])


def _overview(some: Sequence[tuple[str, Answer]]) -> Table:
    rows = []
    for name, answer in some:
        record, examples = answer.records[0], sum(answer.records[0]["count"])
        margins = [value for value in record["margin"] if value is not None]
        compact = sum(record["within"]) / examples
        cells = [
            _cell(max(record["dispersion"])), _cell(min(margins, default=None)), _cell(_mean_margin(record)),
            _cell(_margin_to_width(record)), Cell(percent(compact), value=compact), _cell(_nearest(record)),
            Cell(count(examples), value=examples),
        ]  # fmt: skip
        rows.append((name, cells))
    columns = (
        "Widest class", "Smallest margin", "Mean margin", "Margin to width", "Within\u00a0δv", "Nearest centroids",
        "Images",
    )  # fmt: skip
    return Table("Classes in feature space", "Run", columns, rows)


def _charts(some: Sequence[tuple[str, Answer]]) -> Iterator[Chart]:
    """Width and margins of every class, for all networks."""
    labels = sorted({label for _, answer in some for label in answer.records[0]["classes"]})
    ticks = tuple(some[0][1].class_name(label) for label in labels) if len(labels) <= MOST else ()
    for title, columns in {
        "Dispersion by class": {"dispersion": "largest distance of two examples"},
        "Margin by class": {"mean_margin": "mean margin", "margin": "smallest margin"},
    }.items():
        curves = [
            _curve(answer, column, f"{word}, {kind}", labels)
            for kind, answer in some
            for column, word in columns.items()
        ]
        yield Chart(f"{title}, {AXIS}", "class", tuple(curve for curve in curves if curve.x), False, ticks=ticks)


def _curve(answer: Answer, column: str, kind: str, labels: Sequence[int]) -> Curve:
    record = answer.records[0]
    pairs = zip(record["classes"], record[column], strict=True)
    points = [(float(labels.index(label)), value) for label, value in pairs if value is not None]
    x, y = tuple(place for place, _ in points), tuple(value for _, value in points)
    return Curve(answer.place, kind, x, y, form="points")


def _by_class(name: str, answer: Answer, records: Sequence[Record]) -> Table:
    """A row for each class; colours compare networks."""
    own = answer.records[0]
    columns = {
        "Dispersion": ("dispersion", False), "Smallest margin": ("margin", True), "Mean margin": ("mean_margin", True),
    }  # fmt: skip
    scales = {column: _scale(records, column) for column, _ in columns.values()}
    rows = []
    for place, label in enumerate(own["classes"]):
        compact = own["within"][place] / own["count"][place]
        others = [value for other, value in enumerate(own["centroid_distance"][place]) if other != place]
        cells = [
            Cell(count(own["count"][place]), value=own["count"][place]),
            *(_cell(own[column][place], scales[column], good) for column, good in columns.values()),
            Cell(percent(compact), value=compact), _cell(min(others, default=None)),
        ]  # fmt: skip
        rows.append((answer.class_name(label), cells))
    return Table(f"Classes of {name}", "Class", ("Images", *columns, "Within\u00a0δv", "Nearest centroid"), rows)


def _centroids(name: str, answer: Answer) -> Table:
    """Distances of all pairs of centroids."""
    record = answer.records[0]
    names = [answer.class_name(label) for label in record["classes"]]
    scale = (0.0, max(map(max, record["centroid_distance"])))
    rows = [
        (names[i], [Cell("") if i == j else _cell(value, scale, True) for j, value in enumerate(row)])
        for i, row in enumerate(record["centroid_distance"])
    ]
    return Table(f"Distances of the centroids, {name}", "Class", names, rows, style="dense")


def _cell(value: float | None, scale: tuple[float, float] | None = None, good: bool = False) -> Cell:
    """A number, coloured by its place on a scale; "none" where there is no hyperplane or no other class."""
    if value is None:
        return Cell("none")
    low, high = scale or (0.0, 0.0)
    heat = None if scale is None else (value - low) / (high - low) if high > low else 0.0
    return Cell(short(float(value)), heat=heat, good=good, value=value)


def _scale(records: Sequence[Record], column: str) -> tuple[float, float]:
    values = [value for record in records for value in record[column] if value is not None]
    return min(values, default=0.0), max(values, default=0.0)


def _nearest(record: Record) -> float | None:
    """Smallest distance of two centroids."""
    distances = record["centroid_distance"]
    return min((value for i, row in enumerate(distances) for value in row[i + 1 :]), default=None)


def _mean_margin(record: Record) -> float | None:
    """Mean margin of all examples."""
    pairs = zip(record["mean_margin"], record["count"], strict=True)
    values = [(value, size) for value, size in pairs if value is not None]
    return sum(value * size for value, size in values) / sum(size for _, size in values) if values else None


def _margin_to_width(record: Record) -> float | None:
    """Mean margin over mean dispersion, which does not change when all features are scaled."""
    margin, width = _mean_margin(record), sum(record["dispersion"]) / len(record["dispersion"])
    return margin / width if margin is not None and width > 0 else None
