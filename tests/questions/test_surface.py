"""What the question of loss surfaces presents, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.questions.answers import Answer, Answers, Store
from holdfast.questions.surface import LossSurface
from holdfast.questions.surface.presentation import CUT, NOT_CUT, borders, directions
from holdfast.report import write_report
from holdfast.show.figures import Figure
from holdfast.show.pictures import Panel
from holdfast.show.table import Table
from tests.questions.test_presentations import key, of, texts
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

SETTINGS = {"along": ["gradient", "random"], "radius": 2.0, "steps": 1, "clip": False}
LOSS = [[0.1, 0.2, 3.0], [0.1, 0.5, 3.0], [0.1, None, 4.0]]
PREDICTION = [[0, 0, 1], [0, 0, 1], [0, 0, 1]]


def surface(example: int = 3, scale: float = 1.0, **more: Any) -> dict[str, Any]:
    loss = [[None if value is None else scale * value for value in row] for row in LOSS]
    numbers = {"here": 0.5, "highest": 4.0 * scale, "right": 2 / 3, "nearest": 2.0}
    base = {"example": example, "label": 0, "numbers": numbers, "loss": loss, "prediction": PREDICTION}
    return {**base, "marks": [], "replaced": [False, False], **more}


ANSWER = Answer(key("surface", SETTINGS), (surface(),), run="a", classes=("cat", "dog"))
ATTACKED = {**SETTINGS, "along": ["pgd", "pgd@runs/other/seed-0"], "norm": "linf", "eps": 8 / 255}


def presented(*answers: Answer) -> list[Any]:
    return list(LossSurface.present(Answers(answers, ("a", "b"))))


def titles(kind: type, items: list[Any]) -> list[str]:
    return [item.title for item in of(kind, items)]


def feet(panel: Panel) -> list[float]:
    """Heights of the points that have names."""
    return [float(s.path.split()[1].partition("V")[0]) for s in panel.pictures[0].shapes if s.style == "stem"]


def test_borders_lie_between_points_of_different_classes() -> None:
    x, y = borders(PREDICTION, [-2.0, 0.0, 2.0])
    assert x == [1.0, 1.0, None] * 3
    assert y == [-3.0, -1.0, None, -1.0, 1.0, None, 1.0, 3.0, None]
    across, up = borders([[0, 0], [1, 1]], [0.0, 1.0])
    assert (across, up) == ([-0.5, 0.5, None, 0.5, 1.5, None], [0.5, 0.5, None, 0.5, 0.5, None])
    assert borders([[1, 1], [1, 1]], [0.0, 1.0]) == ([], [])


def test_networks_share_a_scale() -> None:
    other = replace(ANSWER, records=(surface(scale=10.0),), run="b", place=1)
    items = presented(ANSWER, other)
    heats, reliefs = of(Figure, items), of(Panel, items)
    assert titles(Figure, items) == [
        "a (best), example 3, class cat, gradient and random", "b (best), example 3, class cat, gradient and random",
    ]  # fmt: skip
    assert [each.spec["data"][0]["zmax"] for each in heats] == [40.0, 40.0]
    heat = heats[0].spec["data"][0]
    assert heat["x"] == [-2.0, 0.0, 2.0]
    assert heat["z"][2] == [0.1, None, 4.0]
    assert heat["text"][0] == ["cat", "cat", "dog"]
    assert [each.pictures[0].description.split(": ")[1] for each in reliefs] == [
        "loss from 0.1 to 4", "loss from 1 to 40",
    ]  # fmt: skip
    heights = [feet(each)[0] for each in reliefs]
    assert heights[0] > heights[1]  # the same scale: the loss of a is drawn lower


def test_other_planes_and_images_stand_alone() -> None:
    both = replace(ANSWER, records=(surface(3), surface(1)))
    marked = replace(
        ANSWER, key=key("surface", ATTACKED), records=(surface(3, scale=9.0, marks=[[1.5, 0.0], [0.5, 9.0]]),)
    )
    items = presented(marked, both, replace(ANSWER, run="b", place=1))
    assert titles(Figure, items) == [
        "a (best), example 1, class cat, gradient and random",
        "a (best), example 3, class cat, gradient and random",
        "b (best), example 3, class cat, gradient and random",
        "a (best), example 3, class cat, pgd and pgd on other/seed-0",
    ]
    assert [each.spec["data"][0]["zmax"] for each in of(Figure, items)] == [4.0, 4.0, 4.0, 36.0]
    ends = of(Figure, items)[3].spec["data"][3]
    assert (ends["x"], ends["y"], ends["text"]) == ([1.5, 0.5], [0.0, 9.0], ["pgd", "pgd on other/seed-0"])
    assert [len(each.keys) for each in of(Figure, items)] == [2, 2, 2, 3]
    names = [words.text for words in of(Panel, items)[3].pictures[0].words]
    assert names[:2] == ["image", "pgd"]  # the other lies outside
    assert "pgd on other/seed-0" not in names
    assert directions(ATTACKED["along"]) == ("pgd", "pgd on other/seed-0, orthogonal part")


def test_an_image_of_two_answers_is_shown_once() -> None:
    first = replace(ANSWER, key=key("surface", {**SETTINGS, "show": [3]}))
    second = replace(ANSWER, key=key("surface", {**SETTINGS, "show": [1, 3]}), records=(surface(1), surface(3)))
    assert [name for name, _ in of(Table, presented(first, second))[0].rows] == [
        "a (best), example 1", "a (best), example 3",
    ]  # fmt: skip


def test_what_a_reader_must_know_is_stated() -> None:
    clipped = replace(
        ANSWER, key=key("surface", {**SETTINGS, "clip": True}), records=(surface(replaced=[True, False]),)
    )
    _, cut, replaced = of(str, presented(clipped))
    assert cut == CUT
    assert replaced.endswith("is random instead: a (best), example 3.")
    assert of(str, presented(ANSWER))[1:] == [NOT_CUT]


def test_numbers_stand_beside_the_pictures() -> None:
    none = {"here": 1.3e-6, "highest": None, "right": 1.0, "nearest": None}
    (table,) = of(Table, presented(ANSWER, replace(ANSWER, records=(surface(numbers=none),), run="b", place=1)))
    assert texts(table) == {
        "a (best), example 3": ["gradient and random", "0.5", "4", "66.7\u00a0%", "2", "2"],
        "b (best), example 3": ["gradient and random", "1.3e-06", "none", "100.0\u00a0%", "none", "2"],
    }


def test_the_page_draws_both_kinds_of_pictures(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    for records in ((), ANSWER.records):
        assert 'id="surface"' not in write_report([path], tmp_path / "none.html").read_text()
        Store(path).write(ANSWER.key, records)
    page = read(write_report([path], tmp_path / "a.html"))
    assert "a (best), example 3" in page.table("Loss surfaces in numbers")
    assert [name for name in page.specs if name.startswith("surface-")] == ["surface-0"]
    classes = [attributes.get("class") for tag, attributes in page.elements if tag in ("div", "path")]
    assert {"relief", "base", "stem", "foot"} <= {*classes}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"along": ("gradient",)}, "along: expected gradient,random, or an attack and random .*; got 'gradient'"),
        ({"along": ()}, "along: expected"),
        ({"along": ("gradient", "pgd")}, "along: expected"),
        ({"along": ("random", "pgd")}, "along: expected"),
        ({"along": ("pgd", "gradient")}, "along: expected"),
        ({"along": ("pgd", "apgd", "random")}, "along: expected"),
        ({"radius": 0.0}, "radius: expected a positive number, got 0"),
        ({"radius": float("inf")}, "radius: expected a positive number, got inf"),
        ({"steps": 0}, "steps: expected 1 to 100, got 0"),
        ({"steps": 101}, "steps: expected 1 to 100, got 101"),
    ],
)
def test_fields_that_make_no_plane_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LossSurface(**fields)
