"""Loss surfaces as heat maps with the borders of predicted classes, as reliefs, and in numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.question import Record
from holdfast.questions.surface.relief import relief
from holdfast.show.figures import Figure, Key, plain
from holdfast.show.heat_map import heat_map
from holdfast.show.items import Item
from holdfast.show.numbers import percent, rounded, short
from holdfast.show.pictures import Panel
from holdfast.show.table import Cell, Table

EXPLANATION = (
    "The loss on a plane through an image, from blue (low) to orange (high), on the same scale for all networks of an "
    "image; lines separate points of different predicted classes. Distances are Euclidean. One image and one plane "
    "illustrate a network; they do not measure it."
)
CUT = "Points were cut to [0, 1], so that not all of them lie in the plane."
NOT_CUT = "Points were not cut to [0, 1]: outside it the loss is defined, but the point is not a valid image."
LONGEST = 18
"""Letters of a class under the pointer, and of another network."""
ALIKE = ("along", "radius", "steps", "clip", "norm", "eps")
"""Settings that surfaces must share to stand next to each other."""
DARK = "rgb(20,24,28)"


@dataclass(frozen=True)
class Shown:
    """A surface with the answer that it belongs to.

    Args:
        answer: to the question.
        record: of the image.
    """

    answer: Answer
    record: Record

    @property
    def example(self) -> str:
        """The image of this network."""
        return f"{self.answer.network}, example {self.record['example']}"

    @property
    def attacks(self) -> Sequence[tuple[str, tuple[float, float]]]:
        """Attacks with the points that the plane was made through."""
        marks = self.record["marks"]
        return [(_direction(word), (a, b)) for word, (a, b) in zip(self.answer.settings["along"], marks, strict=False)]

    @property
    def plane(self) -> str:
        """Both directions."""
        return " and ".join(map(_direction, self.answer.settings["along"]))


def presented(answers: Answers) -> Iterator[Item]:
    """Maps and reliefs of every image, all networks on one scale, with their numbers."""
    groups = _groups(answers)
    if not groups:
        return
    yield EXPLANATION
    yield from _notes([shown for group in groups for shown in group])
    for group in groups:
        losses = [value for shown in group for row in shown.record["loss"] for value in row if value is not None]
        high = max(losses, default=0.0) or 1.0
        for shown in group:
            label = shown.answer.class_name(shown.record["label"])
            title = f"{shown.example}, class {label}, {shown.plane}"
            yield _heat_map(title, shown, high)
            yield _relief(f"{title}, in relief", shown, high)
    yield _table(groups)


def _groups(answers: Answers) -> list[list[Shown]]:
    """Surfaces around the same image on the same kind of plane, of all networks; each network has one."""
    groups: dict[tuple[Any, ...], dict[str, Shown]] = {}
    for answer in answers:
        alike = json.dumps([answer.settings.get(name) for name in ALIKE])
        for record in answer.records:
            shown = Shown(answer, record)
            key = (tuple(answer.settings["along"]), record["example"], alike)
            groups.setdefault(key, {})[answer.network] = shown
    return [list(groups[key].values()) for key in sorted(groups)]


def _notes(every: Sequence[Shown]) -> Iterator[str]:
    clipped = {shown.answer.settings["clip"] for shown in every}
    yield from (note for clip, note in ((True, CUT), (False, NOT_CUT)) if clip in clipped)
    if replaced := [shown.example for shown in every if any(shown.record["replaced"])]:
        yield f"A direction was zero or parallel to the other, and is random instead: {'; '.join(replaced)}."


def _table(groups: Sequence[Sequence[Shown]]) -> Table:
    rows = []
    for shown in (shown for group in groups for shown in group):
        numbers, radius = shown.record["numbers"], float(shown.answer.settings["radius"])
        losses = [Cell(_number(numbers[name]), value=numbers[name]) for name in ("here", "highest")]
        cells = [
            Cell(shown.plane, words=True), *losses, Cell(percent(numbers["right"]), value=numbers["right"]),
            Cell(_number(numbers["nearest"]), value=numbers["nearest"]),
            Cell(short(radius), value=radius),
        ]  # fmt: skip
        rows.append((shown.example, cells))
    columns = ("Plane", "Loss of the image", "Highest", "Predicted as labelled", "Nearest other class", "Half side")
    return Table("Loss surfaces in numbers; distances are Euclidean", "Network and example", columns, rows)


def _number(value: float | None) -> str:
    return "none" if value is None else short(float(value))


def _heat_map(title: str, shown: Shown, high: float) -> Figure:
    """The loss as colours up to `high`, with borders of the predicted classes and the points that span the plane."""
    record, places = shown.record, positions(shown.answer.settings)
    along, across = directions(shown.answer.settings["along"])
    words = [[_short(shown.answer.class_name(label)) for label in row] for row in record["prediction"]]
    drawn = heat_map(
        title, record["loss"], axes=(along, across), ends=(0, high), places=(places, places), texts=words,
        hover="loss %{z:.4g}, predicted %{text}",
    )  # fmt: skip
    x, y = borders(record["prediction"], places)
    line = {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip", "line": {"color": DARK, "width": 1.6},
    }  # fmt: skip
    ends = [_points("diamond", shown.attacks)] if shown.attacks else []
    keys = [Key("the image", None, 0, point=True), Key("border of predicted classes", None, 0)]
    keys[1:1] = [Key("points that attacks reach", None, 2, point=True)] if ends else []
    here = _points("circle", [("the image", (0.0, 0.0))])
    return replace(drawn, keys=tuple(keys), spec=drawn.spec | {"data": [*drawn.spec["data"], line, here, *ends]})


def _points(symbol: str, points: Sequence[tuple[str, tuple[float, float]]]) -> dict[str, Any]:
    """Named points of a heat map."""
    return {
        "type": "scatter", "mode": "markers", "x": [a for _, (a, _) in points], "y": [b for _, (_, b) in points],
        "text": [plain(name) for name, _ in points], "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "color": "rgb(255,255,255)", "size": 10, "symbol": symbol, "line": {"color": DARK, "width": 2},
        },
    }  # fmt: skip


def borders(prediction: Sequence[Sequence[int]], positions: Sequence[float]) -> tuple[list[Any], list[Any]]:
    """Lines between grid points of different classes, as places along both directions with gaps (None)."""
    half, x, y = (positions[1] - positions[0]) / 2, [], []
    for row, classes in enumerate(prediction):
        for column, here in enumerate(classes):
            a, b = positions[column], positions[row]
            left, right, below, above = map(rounded, (a - half, a + half, b - half, b + half))
            if column and classes[column - 1] != here:
                x += [left, left, None]
                y += [below, above, None]
            if row and prediction[row - 1][column] != here:
                x += [left, right, None]
                y += [below, below, None]
    return x, y


def positions(settings: Mapping[str, Any]) -> list[float]:
    """Places of the grid along a direction."""
    steps = settings["steps"]
    return [rounded(settings["radius"] * (place - steps) / steps) for place in range(2 * steps + 1)]


def directions(along: Sequence[str]) -> tuple[str, str]:
    """Both directions in words."""
    first, second = map(_direction, along)
    return first, f"{second}, orthogonal" if second == "random" else f"{second}, orthogonal part"


def _relief(title: str, shown: Shown, high: float) -> Panel:
    size = shown.answer.settings["radius"]
    pins = [(name, a / size, b / size) for name, (a, b) in shown.attacks if max(abs(a), abs(b)) <= size]
    along, across = directions(shown.answer.settings["along"])
    marks = [("image", 0.0, 0.0), *pins]
    return Panel(
        title, "relief", [relief(title, shown.record["loss"], high=high, marks=marks, along=along, across=across)]
    )


def _direction(word: str) -> str:
    """A direction in few words; of another network's directory the last two parts say enough."""
    name, _, other = word.partition("@")
    return f"{name} on {_short('/'.join(other.split('/')[-2:]))}" if other else name


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
