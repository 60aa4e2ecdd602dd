"""Accuracy and robustness in one picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.questions.answers import Answer
from holdfast.report import read_runs, write_report
from holdfast.report.plane import Plane
from holdfast.show.figures import Figure
from tests.questions.test_mixing import PLAN, answer
from tests.questions.test_presentations import store
from tests.report.factory import FakeCheck, composed, make_run, nearest, noise, pgd
from tests.report.reading import read

RIGHT = [True] * 4


def aimed(eps: float, correct: list[bool], strength: float) -> FakeCheck:
    inner = pgd(eps, correct)
    params = {"attack": {"pgd": dict(inner.params)}, "strength": strength}
    return FakeCheck(f"aimed {inner.name} strength={strength:g}", "aimed", params, correct)


def runs(tmp_path: Path, *checks: Any) -> list[Path]:
    return [make_run(tmp_path / name, found, name=name) for name, found in zip("abc", checks, strict=False)]


def charts(paths: list[Path]) -> list[Figure]:
    return [item for item in Plane().present(read_runs(paths)) if isinstance(item, Figure)]


CLEAN = FakeCheck("clean", correct=RIGHT)


def test_each_run_is_a_point_with_intervals_both_ways(tmp_path: Path) -> None:
    paths = runs(
        tmp_path,
        [FakeCheck("clean", correct=[True, True, True, False]), pgd(0.1, [True, False, False, True])],
        [CLEAN, pgd(0.1, [False] * 4), pgd(0.1, [True, False, True, False], steps=5)],
    )
    (chart,) = charts(paths)
    first, second = chart.spec["data"]
    assert (first["x"], first["y"]) == ((0.75,), (0.25,))  # an image that is wrong when clean does not hold
    assert (second["x"], second["y"]) == ((1.0,), (0.0,))  # the worst of both attacks
    assert first["error_x"]["arrayminus"][0] > 0
    assert first["error_y"]["array"][0] > 0
    assert second["text"] == ["2 attacks"]
    assert "Pareto-optimal runs (no other is as good in both and better in one): a, b." in chart.note
    assert chart.title == "Accuracy and robustness, ℓ∞ 0.1"


def test_runs_that_are_beaten_are_not_named(tmp_path: Path) -> None:
    paths = runs(tmp_path, [CLEAN, pgd(0.1, [True] * 4)], [CLEAN, pgd(0.1, [False] * 4)])
    assert charts(paths)[0].note == "Pareto-optimal runs (no other is as good in both and better in one): a."


def test_attacks_around_others_count_in_the_budget_of_these(tmp_path: Path) -> None:
    paths = runs(
        tmp_path,
        [CLEAN, pgd(0.1, RIGHT), aimed(0.1, [True, False, True, True], 0.0), aimed(0.2, [False] * 4, 0.0)],
        [CLEAN, pgd(0.1, RIGHT)],
    )
    (chart,) = charts(paths)
    assert [trace["y"] for trace in chart.spec["data"]] == [(0.75,), (1.0,)]


def test_the_reach_of_a_minimum_distance_attack_is_no_budget_beside_a_fixed_one(tmp_path: Path) -> None:
    far = nearest("fmn", 2.0, [0.3, 0.9, 1.0, 2.0], norm="l2")
    paths = runs(tmp_path, [CLEAN, pgd(0.5, RIGHT, norm="l2"), far], [CLEAN, far])
    (chart,) = charts(paths)
    assert chart.title == "Accuracy and robustness, ℓ2 0.5"
    assert [trace["y"] for trace in chart.spec["data"]] == [(0.75,), (0.75,)]  # fmn breaks one within 0.5
    assert [trace["text"] for trace in chart.spec["data"]] == [["2 attacks"], ["1 attack"]]


def test_the_budget_is_that_of_most_runs_and_one_for_each_norm(tmp_path: Path) -> None:
    paths = runs(
        tmp_path,
        [CLEAN, pgd(0.1, RIGHT), pgd(0.3, RIGHT), pgd(0.5, RIGHT, norm="l2"), noise(0.1, RIGHT)],
        [CLEAN, pgd(0.3, RIGHT), pgd(0.5, RIGHT, norm="l2")],
        [CLEAN, pgd(0.3, RIGHT), pgd(0.3, RIGHT, steps=3)],
    )
    assert [chart.title for chart in charts(paths)] == [
        "Accuracy and robustness, ℓ2 0.5", "Accuracy and robustness, ℓ∞ 0.3",
    ]  # fmt: skip


def test_unfinished_attacks_are_hollow(tmp_path: Path) -> None:
    paths = runs(tmp_path, [CLEAN, composed("sswa")], [CLEAN, pgd(0.1, RIGHT)])
    first, second = charts(paths)[0].spec["data"]
    assert (first["marker"]["symbol"], second["marker"]["symbol"]) == ("circle-open", "circle")


def test_one_run_alone_or_runs_without_attacks_have_no_plane(tmp_path: Path) -> None:
    paths = runs(tmp_path, [CLEAN, pgd(0.1, RIGHT)], [CLEAN], [CLEAN, noise(0.1, RIGHT)])
    assert not list(Plane().present(read_runs(paths)))


def test_mixtures_are_a_line_from_one_network_to_the_other(tmp_path: Path) -> None:
    paths = runs(tmp_path, [CLEAN, pgd(0.1, [False] * 4)])
    store(paths[0], answer())
    store(paths[0], _with_policy())
    (chart,) = charts(paths)
    line, _, star, dot = sorted(
        chart.spec["data"], key=lambda trace: (trace["name"] == "a", trace["mode"] == "markers")
    )
    assert (line["x"], line["y"]) == ([1.0] * 4, [0.0, 0.25, 0.25, 0.25])
    assert line["text"][1:] == ["strength 1", "strength 100", "strength ∞"]
    assert (star["text"], dot["y"]) == (["policy"], (0.0,))
    assert "lose least at strength 1: 0.0 points on clean images and 0.0 points under attack" in chart.note
    page = read(write_report(paths, tmp_path / "page.html"))
    caption = next(
        caption for caption in page.tables if caption.startswith("Clean accuracy, and accuracy in the worst")
    )
    assert "ℓ∞ 0.1" in caption


def _with_policy() -> Answer:
    return answer(replace(PLAN, radii=(), adaptive=True), mixing="other")


def test_mixtures_within_another_budget_are_not_drawn_beside_runs(tmp_path: Path) -> None:
    paths = runs(tmp_path, [CLEAN, pgd(0.2, RIGHT)], [CLEAN, pgd(0.2, RIGHT)])
    store(paths[0], answer())
    (chart,) = charts(paths)
    assert [trace["name"] for trace in chart.spec["data"]] == ["a", "b"]


@pytest.mark.parametrize("name", ["a & <b>"])
def test_names_are_no_markup(tmp_path: Path, name: str) -> None:
    paths = [make_run(tmp_path / str(n), [CLEAN, pgd(0.1, RIGHT)], name=f"{name}{n}") for n in (0, 1)]
    assert charts(paths)[0].spec["data"][0]["name"] == "a &amp; &lt;b&gt;0"
