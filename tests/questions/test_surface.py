"""Loss surfaces on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.analysis.store import Answer, write_answer
from holdfast.report import read_runs, write_report
from holdfast.report.surface import Surfaces, borders, directions
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


ANSWER = Answer("surface", "best", "abc", SETTINGS, {"surfaces": [surface()]})
ATTACKED = {**SETTINGS, "along": ["pgd", "pgd@runs/other/seed-0"], "norm": "linf", "budget": "8/255"}


def run(path: Path, name: str, *answers: Answer) -> Path:
    made = make_run(path / name, [FakeCheck("clean", correct=[True, False])], name=name)
    for answer in answers:
        write_answer(made, answer)
    return made


def section(*paths: Path) -> Surfaces:
    runs = read_runs(paths)
    return Surfaces.of(runs, [each.label for each in runs])


def test_borders_lie_between_points_of_different_classes() -> None:
    x, y = borders(PREDICTION, [-2.0, 0.0, 2.0])
    assert x == [1.0, 1.0, None] * 3
    assert y == [-3.0, -1.0, None, -1.0, 1.0, None, 1.0, 3.0, None]
    across, up = borders([[0, 0], [1, 1]], [0.0, 1.0])
    assert (across, up) == ([-0.5, 0.5, None, 0.5, 1.5, None], [0.5, 0.5, None, 0.5, 0.5, None])
    assert borders([[1, 1], [1, 1]], [0.0, 1.0]) == ([], [])


def test_networks_share_a_scale(tmp_path: Path) -> None:
    other = replace(ANSWER, result={"surfaces": [surface(scale=10.0)]})
    (sheet,) = section(run(tmp_path, "a", ANSWER), run(tmp_path, "b", other)).sheets
    assert sheet.title == "Example 3, class cat, gradient and random"
    heats = [figure.spec["data"][0] for figure in sheet.figures]
    assert [heat["zmax"] for heat in heats] == [40.0, 40.0]
    assert heats[0]["x"] == [-2.0, 0.0, 2.0]
    assert heats[0]["z"][2] == [0.1, None, 4.0]
    assert heats[0]["text"][0] == ["cat", "cat", "dog"]
    assert [each.high for each in sheet.reliefs] == [4.0, 40.0]
    here = [relief.pins[0][1][1] for relief in sheet.reliefs]
    assert here[0] > here[1]  # the same scale: the loss of a is drawn lower


def test_other_planes_and_images_stand_alone(tmp_path: Path) -> None:
    both = replace(ANSWER, result={"surfaces": [surface(3), surface(1)]})
    marked = replace(ANSWER, settings=ATTACKED, result={"surfaces": [surface(3, marks=[[1.5, 0.0], [0.5, 9.0]])]})
    found = section(run(tmp_path, "a", marked, both), run(tmp_path, "b", ANSWER))
    assert [sheet.title for sheet in found.sheets] == [
        "Example 1, class cat, gradient and random",
        "Example 3, class cat, gradient and random",
        "Example 3, class cat, pgd and pgd@runs/other/seed-0",
    ]
    assert [len(sheet.figures) for sheet in found.sheets] == [1, 2, 1]
    ends = found.sheets[2].figures[0].spec["data"][3]
    assert (ends["x"], ends["y"], ends["text"]) == ([1.5, 0.5], [0.0, 9.0], ["pgd", "pgd on other/seed-0"])
    assert [name for name, _, _ in found.sheets[2].reliefs[0].pins] == ["image", "pgd"]  # the other lies outside
    assert directions(ATTACKED["along"]) == ("pgd", "pgd on other/seed-0, orthogonal part")


def test_what_a_reader_must_know_is_told(tmp_path: Path) -> None:
    clipped = replace(
        ANSWER, settings={**SETTINGS, "clip": True}, result={"surfaces": [surface(replaced=[True, False])]}
    )
    notes = section(run(tmp_path, "a", clipped)).notes
    assert notes[0] == "Points were cut to [0, 1], so that not all of them lie in the plane."
    assert notes[1].endswith("is random instead: a (best), example 3.")
    assert section(run(tmp_path, "b", ANSWER)).notes == [
        "Points were not cut to [0, 1]: where pixels leave it there is a loss, but no image."
    ]


def test_the_page_has_numbers_beside_the_pictures(tmp_path: Path) -> None:
    page = read(write_report([run(tmp_path, "a", ANSWER)], tmp_path / "a.html"))
    rows = page.table("Loss surfaces in numbers")
    assert rows["a (best), example 3"] == ["gradient and random", "0.5000", "4.0000", "66.7 %", "2", "2"]
    assert "surface-0-0" in page.specs
    assert any(tag == "svg" and said.get("class") == "relief" for tag, said in page.elements)
    nothing = replace(ANSWER, result={"surfaces": []})
    for name, answers in (("b", ()), ("c", (nothing,))):
        text = write_report([run(tmp_path, name, *answers)], tmp_path / f"{name}.html").read_text()
        assert 'id="surface"' not in text
