"""How well layers separate classes, clean and noisy: numbers by layer, and maps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.docs import number_written
from holdfast.questions.features.maps import STYLES, legend, scatters
from holdfast.questions.question import Record
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Item
from holdfast.show.numbers import count, counts, decimal, interval, percent
from holdfast.show.pictures import Panel
from holdfast.show.table import Cell, Table

SIDES = ("clean", "noisy")
MEASURES = {
    "silhouette": "Silhouette",
    "nearest_centroid": "Nearest centroid",
    "reference_centroid": "Clean centroid",
    "scatter_ratio": "Between / within",
}
CHARTS = {
    "silhouette": "Silhouette",
    "nearest_centroid": "Nearest centroid",
    "scatter_ratio": "Scatter between classes over scatter within",
}
SHARES = ("nearest_centroid", "reference_centroid")
MAPS = {"tsne": "t-SNE", "pca": "PCA", "umap": "UMAP"}
PENULTIMATE = "penultimate"
EXPLANATION = (
    "How well each layer separates the classes, in the full space of its features (stages are averaged over space). "
    "The silhouette goes from −1 to 1; it is near 0 where classes lie in each other. Nearest centroid is the share of "
    "the images that lie nearest to the mean of the other images of their class, clean centroid the same for noisy "
    "images with the means of clean ones. Intervals are 95 %, by bootstrap over the images."
)
OF_MAPS = (
    "Clean and noisy images share a map, and all pictures of a layer share a scale: the distance of the clean points "
    "from their middle. In maps of t-SNE and UMAP only who is near whom means something; sizes and distances of groups "
    "do not. The numbers do not come from the maps."
)


@dataclass(frozen=True)
class Measured:
    """An answer with its layers by name."""

    answer: Answer

    @property
    def network(self) -> str:
        """Name of the network."""
        return f"{self.answer.run} ({self.answer.key.weights})"

    @property
    def layers(self) -> Mapping[str, Record]:
        """What was measured of each layer."""
        return {record["name"]: record for record in self.answer.records}

    @property
    def expected(self) -> Sequence[str]:
        """Names of all layers, also of those that were not measured yet."""
        names: list[str] = self.answer.records[0]["layers"]
        return names

    @property
    def labels(self) -> Sequence[int]:
        """Classes of the images in the maps."""
        labels: list[int] = self.answer.records[0]["label"]
        return labels

    @property
    def noise(self) -> str:
        """What made the noisy images."""
        return in_words(self.answer.settings["noise"])

    @property
    def size(self) -> tuple[int, int]:
        """How much was measured."""
        return len(self.layers), min(self.answer.settings["images"], self.answer.key.examples)


def presented(answers: Answers) -> Iterator[Item]:
    """Numbers of every layer as a table and charts, and its maps; kinds of noise stand apart."""
    every = [Measured(answer) for answer in answers if answer.records]
    if not every:
        return
    yield EXPLANATION
    yield from _notes(every)
    groups = [list(group) for _, group in itertools.groupby(sorted(every, key=_noise), key=_noise)]
    for group in groups:
        distinct = _distinct(group)
        yield from _charts(distinct)
        yield _table(distinct)
    if panels := [panel for group in groups for panel in _panels(group)]:
        yield Details("Maps", [OF_MAPS, *panels])


def in_words(value: Any) -> str:
    """A method as a recipe has it: its name and what it is given."""
    if isinstance(value, Mapping):
        given = {name: each for name, each in value.items() if each is not None and each is not True}
        return " ".join(
            f"{name} {in_words(each)}" if isinstance(each, Mapping) else f"{name}={in_words(each)}"
            for name, each in given.items()
        )
    if isinstance(value, list | tuple):
        return " + ".join(map(in_words, value))
    return number_written(value) if isinstance(value, float) else str(value)


def _table(group: Sequence[Measured]) -> Table:
    """Layers down, with all networks next to each other."""
    rows = []
    for name, one, side in itertools.product(_names(group), group, SIDES):
        if layer := one.layers.get(name):
            cells = [Cell(one.network, words=True), *(_cell(layer, side, measure) for measure in MEASURES)]
            rows.append((f"{name} ({count(layer['size'])}), {side}", cells))
    caption = f"Separation of the classes, {group[0].noise}, {counts([one.size[1] for one in group])} images"
    return Table(caption, "Layer (size)", ("Run", *MEASURES.values()), rows)


def _cell(layer: Record, side: str, measure: str) -> Cell:
    number = layer[side][measure]
    if side == "clean" and measure == "reference_centroid":
        return Cell("")  # that of the nearest centroid
    if number["value"] is None:
        return Cell("none")
    low, high = _interval(number, measure)
    share = measure in SHARES
    text = percent(number["value"]) if share else decimal(number["value"], 3)
    return Cell(text, interval(low, high) if share else f"[{low:z.3f}, {high:z.3f}]", value=number["value"])


def _interval(number: Mapping[str, Any], measure: str) -> tuple[float, float]:
    half = 1.959964 * (number["error"] or 0.0)
    low, high = number["value"] - half, number["value"] + half
    return (max(0.0, low), min(1.0, high)) if measure in SHARES else (low, high)


def _charts(group: Sequence[Measured]) -> Iterator[Chart]:
    """The numbers as lines over the layers, where there are several."""
    names = _names(group)
    ticks = tuple("last" if name == PENULTIMATE else name.removeprefix("stage ") for name in names)
    for measure, title in CHARTS.items():
        curves = [_curve(one, names, side, measure) for one in group for side in SIDES]
        curves = [curve for curve in curves if curve.x]
        if curves and len(names) > 1:
            title = f"{title}, {group[0].noise}"
            yield Chart(title, "stage; last: penultimate", tuple(curves), measure in SHARES, ticks=ticks)


def _curve(one: Measured, names: Sequence[str], side: str, measure: str) -> Curve:
    places = [(float(place), one.layers[name][side][measure]) for place, name in enumerate(names) if name in one.layers]
    points = [(place, number) for place, number in places if number["value"] is not None]
    ends = [_interval(number, measure) for _, number in points]
    return Curve(
        one.answer.place, f"{side} images, {one.answer.key.weights} weights", tuple(place for place, _ in points),
        tuple(number["value"] for _, number in points), tuple(low for low, _ in ends), tuple(high for _, high in ends),
    )  # fmt: skip


def _panels(group: Sequence[Measured]) -> Iterator[Panel]:
    """The maps of each layer, all networks next to each other on one scale."""
    for kind, name in itertools.product(MAPS, _names(group)):
        some = [one for one in group if kind in one.layers.get(name, {}).get("maps", {})]
        if some:
            class_name = some[0].answer.class_name
            maps = [(one.network, _points(one.layers[name]["maps"][kind]), one.labels) for one in some]
            keys = legend([label for one in some for label in one.labels], class_name)
            title = f"{name.capitalize()}, {MAPS[kind]}, {some[0].noise}"
            yield Panel(title, "dots", scatters(maps, class_name), keys)


def _points(places: Mapping[str, Sequence[Sequence[float]]]) -> list[list[tuple[float, float]]]:
    """Clean and noisy points."""
    return [[(x, y) for x, y in zip(*places[side], strict=True)] for side in SIDES]


def _noise(one: Measured) -> str:
    return one.noise


def _distinct(group: Sequence[Measured]) -> list[Measured]:
    """One answer of each network: that with most images, whatever maps it has."""
    best = {one.network: one for one in sorted(group, key=lambda one: one.size)}
    return [one for one in group if best[one.network] is one]


def _names(group: Sequence[Measured]) -> list[str]:
    """Layers of all networks from the first to the last."""
    names = {name for one in group for name in one.layers}
    return sorted(names, key=lambda name: (name == PENULTIMATE, int("".join(filter(str.isdecimal, name)) or 0)))


def _notes(every: Sequence[Measured]) -> Iterator[str]:
    alone = dict.fromkeys(one.network for one in every if [*one.expected] == [PENULTIMATE])
    if alone:
        yield f"Of {', '.join(alone)} there is only the penultimate layer: the network shows no stages."
    interrupted = dict.fromkeys(one.network for one in every if len(one.layers) < len(one.expected))
    if interrupted:
        yield f"Of {', '.join(interrupted)} some layers are missing: the analysis was interrupted; repeat it to resume."
    classes = {label for one in every for label in one.labels}
    if len(classes) > STYLES and any(one.answer.settings["maps"] for one in every):
        yield f"There are {len(classes)} classes, more than marks: those after {STYLES} repeat."
