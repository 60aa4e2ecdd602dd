"""The loss on planes through images: heat maps with the borders of predicted classes, and the same in relief."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from holdfast.analysis.store import Answer
from holdfast.report.relief import Relief, relief
from holdfast.report.runs import RunData, answers_to
from holdfast.show.chart import Chart
from holdfast.show.figures import SCALE, Figure, Key, figure, plain
from holdfast.show.numbers import decimal, percent, short
from holdfast.show.table import Cell, Table

WORD = 18
"""Letters of a class under the pointer."""
ALIKE = ("along", "radius", "steps", "clip", "norm", "budget")
"""Settings that surfaces must share to stand next to each other."""


@dataclass(frozen=True)
class Sheet:
    """Surfaces around one image, of all runs.

    Args:
        title: which image.
        figures: heat maps.
        reliefs: the same in three dimensions.
    """

    title: str
    figures: Sequence[Figure]
    reliefs: Sequence[Relief]


@dataclass(frozen=True)
class Surfaces:
    """The section on loss surfaces.

    Args:
        sheets: pictures by image.
        table: what the grids say in numbers; None where nobody asked.
        notes: what else there is to say.
    """

    sheets: Sequence[Sheet]
    table: Table | None
    notes: Sequence[str]

    name: ClassVar[str] = "surface"
    title: ClassVar[str] = "Loss surfaces"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Surfaces:
        """What analyses found of these runs."""
        found = [(run, one) for _, run, one in answers_to(runs, "surface") if one.result["surfaces"]]
        groups: dict[str, list[tuple[RunData, Answer, Mapping[str, Any]]]] = {}
        for run, answer in found:
            for surface in answer.result["surfaces"]:
                alike = [answer.settings.get(name) for name in ALIKE]
                groups.setdefault(json.dumps([alike, surface["example"]]), []).append((run, answer, surface))
        order = sorted(groups.values(), key=lambda some: (some[0][1].settings["along"], some[0][2]["example"]))
        sheets = [_sheet(some, number) for number, some in enumerate(order)]
        return cls(sheets, _table(order) if order else None, _notes(found))

    @property
    def there(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.sheets)

    @property
    def figures(self) -> Sequence[Figure]:
        """The heat maps."""
        return [each for sheet in self.sheets for each in sheet.figures]


def borders(prediction: Sequence[Sequence[int]], positions: Sequence[float]) -> tuple[list[Any], list[Any]]:
    """Lines between grid points of different classes, as places along both directions with gaps (None)."""
    half, x, y = (positions[1] - positions[0]) / 2, [], []
    for row, classes in enumerate(prediction):
        for column, here in enumerate(classes):
            a, b = positions[column], positions[row]
            if column and classes[column - 1] != here:
                x += [a - half, a - half, None]
                y += [b - half, b + half, None]
            if row and prediction[row - 1][column] != here:
                x += [a - half, a + half, None]
                y += [b - half, b - half, None]
    return [short_number(value) for value in x], [short_number(value) for value in y]


def short_number(value: float | None) -> float | None:
    """Four digits: more cannot be seen."""
    return None if value is None else float(f"{value:z.4g}")


def heat_map(
    title: str, surface: Mapping[str, Any], settings: Mapping[str, Any], identifier: str, *, high: float,
    name: Callable[[int], str],
) -> Figure:  # fmt: skip
    """The loss as colours, with borders of the predicted classes and the points that the plane was made through.

    Args:
        title: the network.
        surface: as stored.
        settings: of the question.
        identifier: of the element on the page.
        high: loss of the strongest colour, the same in pictures to compare.
        name: of a class.
    """
    along, across = directions(settings["along"])
    places = positions(settings)
    drawn = figure(Chart(title, along, (), False), [""], identifier)
    words = [[plain(_word(name(label))) for label in row] for row in surface["prediction"]]
    heat = {
        "type": "heatmap", "x": places, "y": places, "z": surface["loss"], "text": words, "zmin": 0, "zmax": high,
        "colorscale": SCALE, "reversescale": True, "hovertemplate": "loss %{z:.4g}, predicted %{text}<extra></extra>",
        "colorbar": {"thickness": 10, "outlinewidth": 0, "tickfont": {"color": "var(--quiet)"}},
    }  # fmt: skip
    x, y = borders(surface["prediction"], places)
    line = {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip",
        "line": {"color": "rgb(20,24,28)", "width": 1.6},
    }  # fmt: skip
    layout = drawn.spec["layout"]
    heading = {"text": plain(across), "font": {"size": 13}, "standoff": 8}
    layout["yaxis"] = layout["yaxis"] | {"title": heading, "scaleanchor": "x"}
    for axis in ("xaxis", "yaxis"):
        layout[axis].pop("rangemode", None)
        layout[axis] |= {"automargin": False, "zeroline": False, "constrain": "domain", "showgrid": False}
    layout["margin"] |= {"l": 56}
    marks = [_dots(surface, settings["along"])] if surface["marks"] else []
    return replace(drawn, keys=_keys(settings["along"]), spec={"data": [heat, line, _here(), *marks], "layout": layout})


def positions(settings: Mapping[str, Any]) -> list[float]:
    """Places of the grid along a direction."""
    steps = settings["steps"]
    return [float(f"{settings['radius'] * (place - steps) / steps:z.4g}") for place in range(2 * steps + 1)]


def directions(along: Sequence[str]) -> tuple[str, str]:
    """Both directions in words."""
    first, second = along
    return _attack(first), "random, orthogonal" if second == "random" else f"{_attack(second)}, orthogonal part"


def _sheet(some: Sequence[tuple[RunData, Answer, Mapping[str, Any]]], number: int) -> Sheet:
    high = max((value for _, _, one in some for row in one["loss"] for value in row if value is not None), default=0.0)
    high = high or 1.0
    run, answer, first = some[0]
    title = (
        f"Example {first['example']}, class {run.class_name(first['label'])}, {' and '.join(answer.settings['along'])}"
    )
    maps, reliefs = [], []
    for place, (owner, asked, one) in enumerate(some):
        who, settings = f"{owner.label} ({asked.weights})", asked.settings
        identifier = f"surface-{number}-{place}"
        maps.append(heat_map(who, one, settings, identifier, high=high, name=owner.class_name))
        along, across = directions(settings["along"])
        pins = [("image", 0.0, 0.0), *_pins(one, settings)]
        reliefs.append(relief(who, one["loss"], high=high, marks=pins, along=along, across=across))
    return Sheet(title, maps, reliefs)


def _pins(surface: Mapping[str, Any], settings: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    size = settings["radius"]
    named = zip(settings["along"], surface["marks"], strict=False)
    return [(_attack(word), a / size, b / size) for word, (a, b) in named if max(abs(a), abs(b)) <= size]


def _here() -> dict[str, Any]:
    marker = {
        "color": "rgb(255,255,255)",
        "size": 10,
        "symbol": "circle",
        "line": {"color": "rgb(20,24,28)", "width": 2},
    }
    return {
        "type": "scatter", "mode": "markers", "x": [0], "y": [0], "marker": marker,
        "hovertemplate": "the image<extra></extra>",
    }  # fmt: skip


def _dots(surface: Mapping[str, Any], along: Sequence[str]) -> dict[str, Any]:
    marker = {
        "color": "rgb(255,255,255)",
        "size": 10,
        "symbol": "diamond",
        "line": {"color": "rgb(20,24,28)", "width": 2},
    }
    names = [plain(_attack(word)) for word, _ in zip(along, surface["marks"], strict=False)]
    return {
        "type": "scatter", "mode": "markers", "x": [a for a, _ in surface["marks"]],
        "y": [b for _, b in surface["marks"]], "text": names, "marker": marker,
        "hovertemplate": "%{text}<extra></extra>",
    }  # fmt: skip


def _keys(along: Sequence[str]) -> tuple[Key, ...]:
    ends = [Key("points that attacks found", None, 2, point=True)] if along[0] != "gradient" else []
    return Key("the image", None, 0, point=True), *ends, Key("border of predicted classes", None, 0)


def _table(groups: Sequence[Sequence[tuple[RunData, Answer, Mapping[str, Any]]]]) -> Table:
    rows = []
    for some in groups:
        for run, answer, one in some:
            numbers = one["numbers"]
            cells = [
                Cell(" and ".join(answer.settings["along"]), words=True), Cell(decimal(numbers["here"], 4)),
                Cell(decimal(numbers["highest"], 4)), Cell(percent(numbers["right"])),
                Cell("none" if numbers["nearest"] is None else short(float(numbers["nearest"]))),
                Cell(short(float(answer.settings["radius"]))),
            ]  # fmt: skip
            rows.append((f"{run.label} ({answer.weights}), example {one['example']}", cells))
    columns = ("Plane", "Loss of the image", "Highest", "Predicted as labelled", "Nearest other class", "Half side")
    return Table("Loss surfaces in numbers; distances are Euclidean", "Network and example", columns, rows)


def _notes(found: Sequence[tuple[RunData, Answer]]) -> list[str]:
    notes = []
    clipped = {answer.settings["clip"] for _, answer in found}
    if True in clipped:
        notes.append("Points were cut to [0, 1], so that not all of them lie in the plane.")
    if False in clipped:
        notes.append("Points were not cut to [0, 1]: where pixels leave it there is a loss, but no image.")
    replaced = [
        f"{run.label} ({answer.weights}), example {one['example']}"
        for run, answer in found
        for one in answer.result["surfaces"]
        if any(one["replaced"])
    ]
    if replaced:
        notes.append(f"A direction was zero or parallel to the other, and is random instead: {'; '.join(replaced)}.")
    return notes


def _attack(word: str) -> str:
    """An attack in few words; of another network's directory the last two parts say enough."""
    name, _, other = word.partition("@")
    return f"{name} on {_word('/'.join(other.split('/')[-2:]))}" if other else name


def _word(text: str) -> str:
    return text if len(text) <= WORD else f"{text[: WORD - 1]}…"
