"""How well layers separate classes, clean and noisy: numbers by layer, and maps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.analysis.store import Answer
from holdfast.report.runs import RunData, answers_to
from holdfast.report.scatter import STYLES, Scatter, scatters, style
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import Figure, Key, figures
from holdfast.show.numbers import decimal, percent, several
from holdfast.show.table import Cell, Table

SIDES = ("clean", "noisy")
MEASURES = {
    "silhouette": "Silhouette",
    "nearest_centroid": "Nearest centroid",
    "scatter_ratio": "Scatter between classes over scatter within",
}
SHARES = ("nearest_centroid", "reference_centroid")
MAPS = {"tsne": "t-SNE", "pca": "PCA", "umap": "UMAP"}
PENULTIMATE = "penultimate"


@dataclass(frozen=True)
class Sheet:
    """Maps of one layer, of all runs.

    Args:
        title: layer, map and noise.
        pictures: clean and noisy of each run, on the same scale.
    """

    title: str
    pictures: Sequence[Scatter]


@dataclass(frozen=True)
class Features:
    """The section on layers.

    Args:
        tables: a row for each layer; one for each noise and number.
        figures: the numbers as charts.
        sheets: maps.
        keys: what the marks of the maps mean.
        notes: what else there is to say.
    """

    tables: Sequence[Table]
    figures: Sequence[Figure]
    sheets: Sequence[Sheet]
    keys: Sequence[Key]
    notes: Sequence[str]

    name: ClassVar[str] = "features"
    title: ClassVar[str] = "Features"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Features:
        """What analyses found of these runs."""
        found = [Found(*one) for one in answers_to(runs, "features") if one[2].result["layers"]]
        groups = [list(some) for _, some in itertools.groupby(sorted(found, key=_noise), key=_noise)]
        tables = [table for some in groups for table in number_tables(some)]
        charts = [chart for some in groups for chart in number_charts(some)]
        sheets = [sheet for some in groups for sheet in map_sheets(some)]
        return cls(tables, figures(charts, labels, "features"), sheets, _keys(found), _notes(found))

    @property
    def there(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.tables)


@dataclass(frozen=True)
class Found:
    """An answer with its run."""

    place: int
    run: RunData
    answer: Answer

    @property
    def who(self) -> str:
        """The network's name on the page."""
        return f"{self.run.label} ({self.answer.weights})"

    @property
    def layers(self) -> Mapping[str, Mapping[str, Any]]:
        """What was found of each layer."""
        return {layer["name"]: layer for layer in self.answer.result["layers"]}


def number_tables(found: Sequence[Found]) -> list[Table]:
    """A table for each number: layers down, networks across, clean and noisy."""
    tables = []
    for measure, title in MEASURES.items():
        columns = [(side, measure) for side in SIDES]
        columns += [("noisy", "reference_centroid")] if measure == "nearest_centroid" else []
        rows = [
            (name, [_cell(one.layers.get(name), *column) for one in _distinct(found) for column in columns])
            for name in _names(found)
        ]
        heads = [*(side.capitalize() for side, _ in columns[:2]), *("Noisy, clean centroids" for _ in columns[2:])]
        caption = f"{title}, {_noise(found[0])}, with its 95 % interval"
        groups = [(one.who, len(columns)) for one in _distinct(found)]
        tables.append(Table(caption, "Layer", heads * len(groups), rows, groups=groups))
    return tables


def number_charts(found: Sequence[Found]) -> list[Chart]:
    """The same as lines over the layers."""
    names = _names(found)
    charts = []
    for measure, title in MEASURES.items():
        curves = [
            curve
            for one in _distinct(found)
            for side in SIDES
            if (curve := _curve(one, names, side, measure)) is not None
        ]
        share = measure in SHARES
        ticks = tuple("last" if name == PENULTIMATE else name.removeprefix("stage ") for name in names)
        chart = Chart(f"{title}, {_noise(found[0])}", "stage; last: penultimate", tuple(curves), share, ticks=ticks)
        charts += [chart] if curves and len(names) > 1 else []
    return charts


def map_sheets(found: Sequence[Found]) -> list[Sheet]:
    """The maps of each layer, all networks next to each other on one scale."""
    sheets = []
    for kind, name in itertools.product(MAPS, _names(found)):
        shown = [
            (one, one.layers[name]["maps"][kind])
            for one in found
            if name in one.layers and kind in one.layers[name]["maps"]
        ]
        if shown:
            pictures = [
                (f"{one.who}, {side}", [_points(places[s]) for s in SIDES], number, one.answer.result["label"])
                for one, places in shown
                for number, side in enumerate(SIDES)
            ]
            title = f"{name.capitalize()}, {MAPS[kind]}, {_noise(found[0])}"
            sheets.append(Sheet(title, scatters(pictures, shown[0][0].run.class_name)))
    return sheets


def _points(places: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    return list(zip(*places, strict=True))


def _curve(one: Found, names: Sequence[str], side: str, measure: str) -> Curve | None:
    spots = [(place, one.layers[name][side][measure]) for place, name in enumerate(names) if name in one.layers]
    known = [(float(place), number) for place, number in spots if number["value"] is not None]
    if not known:
        return None
    ends = [_interval(number, share=measure in SHARES) for _, number in known]
    x, y = tuple(place for place, _ in known), tuple(number["value"] for _, number in known)
    return Curve(one.place, f"{side} images", x, y, tuple(low for low, _ in ends), tuple(high for _, high in ends))


def _cell(layer: Mapping[str, Any] | None, side: str, measure: str) -> Cell:
    number = layer[side][measure] if layer else None
    if number is None:
        return Cell("")
    if number["value"] is None:
        return Cell("none")
    low, high = _interval(number, share=measure in SHARES)
    if measure in SHARES:
        return Cell(percent(number["value"]), f"[{100 * low:z.1f}, {100 * high:z.1f}]")
    return Cell(decimal(number["value"], 3), f"[{low:z.3f}, {high:z.3f}]")


def _interval(number: Mapping[str, float], *, share: bool) -> tuple[float, float]:
    half = 1.959964 * (number["error"] or 0.0)
    low, high = number["value"] - half, number["value"] + half
    return (max(0.0, low), min(1.0, high)) if share else (low, high)


def _noise(one: Found) -> str:
    return str(one.answer.settings["noise"])


def _distinct(found: Sequence[Found]) -> list[Found]:
    """One answer of each network: that with most images, whatever maps were asked for."""
    best: dict[str, Found] = {}
    for one in found:
        known = best.get(one.who)
        if known is None or _seen(one) > _seen(known):
            best[one.who] = one
    return list(best.values())


def _seen(one: Found) -> tuple[int, int]:
    return len(one.answer.result["layers"]), one.answer.settings["images"]


def _names(found: Sequence[Found]) -> list[str]:
    """Layers of all networks from the first to the last."""
    names = dict.fromkeys(name for one in found for name in one.layers)
    return sorted(names, key=lambda name: (name == PENULTIMATE, int("".join(filter(str.isdecimal, name)) or 0)))


def _keys(found: Sequence[Found]) -> list[Key]:
    if not any(one.answer.settings["maps"] for one in found):
        return []
    run, labels = found[0].run, sorted({label for one in found for label in one.answer.result["label"]})
    return [Key(run.class_name(label), style(label)[0], style(label)[1], point=True) for label in labels[:STYLES]]


def _notes(found: Sequence[Found]) -> list[str]:
    notes = []
    alone = list(dict.fromkeys(one.who for one in found if one.answer.result["names"] == [PENULTIMATE]))
    if alone:
        notes.append(f"Of {', '.join(alone)} there is only the penultimate layer: the network shows no stages.")
    cut = list(dict.fromkeys(one.who for one in found if len(one.layers) < len(one.answer.result["names"])))
    if cut:
        notes.append(f"Of {', '.join(cut)} some layers are missing: the analysis was interrupted; repeat it to go on.")
    classes = {label for one in found for label in one.answer.result["label"]}
    if len(classes) > STYLES:
        notes.append(
            f"There are {several(len(classes), 'class')[:-1]}es, more than marks: those after {STYLES} repeat."
        )
    return notes
