"""How well layers separate classes, clean and noisy: numbers by layer, and maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
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
    "The silhouette goes from −1 to 1; it is near 0 where classes overlap. Nearest centroid is the share of the "
    "images that lie nearest to the mean of the other images of their class, clean centroid the same for noisy images "
    "with the means of clean ones. Intervals are 95 %, by bootstrap over the images."
)
OF_MAPS = (
    "Clean and noisy images share a map, and all pictures of a layer share a scale: the distance of the clean points "
    "from their middle. In maps of t-SNE and UMAP only neighbourhoods are meaningful, not the sizes of groups or "
    "the distances between them. The numbers do not come from the maps."
)


def presented(answers: Answers) -> Iterator[Item]:
    """Numbers of every layer as a table and charts, and its maps; kinds of noise stand apart."""
    every = [answer for answer in answers if answer.records]
    if not every:
        return
    yield EXPLANATION
    yield from _notes(every)
    groups = [list(group) for _, group in groupby(sorted(every, key=_noise), key=_noise)]
    for group in groups:
        distinct = _distinct(group)
        yield from _charts(distinct)
        yield _table(distinct)
    if panels := [panel for group in groups for panel in _panels(group)]:
        yield Details("Maps", [OF_MAPS, *panels])


def _layers(answer: Answer) -> Mapping[str, Record]:
    """What was measured of each layer."""
    return {record["name"]: record for record in answer.records}


def _noise(answer: Answer) -> str:
    """What made the noisy images."""
    return in_words(answer.settings["noise"])


def images_of(answer: Answer) -> int:
    """How many images the numbers are of."""
    most: int = answer.settings["images"]
    return min(most, answer.key.examples)


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


def _table(group: Sequence[Answer]) -> Table:
    """Layers down, with all networks next to each other."""
    rows = []
    for name, answer, side in product(_names(group), group, SIDES):
        if layer := _layers(answer).get(name):
            cells = [Cell(answer.network, words=True), *(_cell(layer, side, measure) for measure in MEASURES)]
            rows.append((f"{name} ({count(layer['size'])}), {side}", cells))
    caption = f"Separation of the classes, {_noise(group[0])}, {counts([*map(images_of, group)])} images"
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


def _charts(group: Sequence[Answer]) -> Iterator[Chart]:
    """The numbers as lines over the layers, where there are several."""
    names, kinds = _names(group), Answers(tuple(group)).kinds()
    ticks = tuple("last" if name == PENULTIMATE else name.removeprefix("stage ") for name in names)
    for measure, title in CHARTS.items():
        curves = [
            _curve(answer, names, side, measure, f"{side} images, {kind}")
            for kind, answer in zip(kinds, group, strict=True)
            for side in SIDES
        ]
        curves = [curve for curve in curves if curve.x]
        if curves and len(names) > 1:
            title = f"{title}, {_noise(group[0])}"
            yield Chart(title, "stage; last: penultimate", tuple(curves), measure in SHARES, ticks=ticks)


def _curve(answer: Answer, names: Sequence[str], side: str, measure: str, kind: str) -> Curve:
    layers = _layers(answer)
    places = [(float(place), layers[name][side][measure]) for place, name in enumerate(names) if name in layers]
    points = [(x, number["value"], *_interval(number, measure)) for x, number in places if number["value"] is not None]
    x, y, low, high = zip(*points, strict=True) if points else ((),) * 4
    return Curve(answer.place, kind, x, y, low, high)


def _panels(group: Sequence[Answer]) -> Iterator[Panel]:
    """The maps of each layer, all networks next to each other on one scale."""
    for kind, name in product(MAPS, _names(group)):
        places = [(answer, _layers(answer).get(name, {}).get("maps", {}).get(kind)) for answer in group]
        maps = [
            (answer.network, [list(zip(*sides[side], strict=True)) for side in SIDES], answer.records[0]["label"])
            for answer, sides in places
            if sides
        ]
        if maps:
            class_name = group[0].class_name
            keys = legend([label for _, _, labels in maps for label in labels], class_name)
            yield Panel(
                f"{name.capitalize()}, {MAPS[kind]}, {_noise(group[0])}", "dots", scatters(maps, class_name), keys
            )


def _distinct(group: Sequence[Answer]) -> list[Answer]:
    """One answer of each network: that with most images, whatever maps it has."""
    best = {one.network: one for one in sorted(group, key=lambda one: (len(one.records), images_of(one)))}
    return [one for one in group if best[one.network] is one]


def _names(group: Sequence[Answer]) -> list[str]:
    """Layers of all networks from the first to the last."""
    names = {name for answer in group for name in _layers(answer)}
    return sorted(names, key=lambda name: (name == PENULTIMATE, int("".join(filter(str.isdecimal, name)) or 0)))


def _notes(every: Sequence[Answer]) -> Iterator[str]:
    alone = dict.fromkeys(one.network for one in every if one.records[0]["layers"] == [PENULTIMATE])
    if alone:
        yield f"Of {', '.join(alone)} there is only the penultimate layer: the network shows no stages."
    interrupted = dict.fromkeys(one.network for one in every if len(one.records) < len(one.records[0]["layers"]))
    if interrupted:
        yield f"Of {', '.join(interrupted)} some layers are missing: the analysis was interrupted; repeat it to resume."
    classes = {label for one in every for label in one.records[0]["label"] if one.settings["maps"]}
    if len(classes) > STYLES:
        yield f"There are {len(classes)} classes, more than marks: those after {STYLES} repeat."
