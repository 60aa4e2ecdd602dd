"""Mixtures of two networks on the page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.analysis.measures import Measures
from holdfast.analysis.mixing_plan import Plan
from holdfast.analysis.store import Answer, write_answer
from holdfast.report import read_runs, write_report
from holdfast.report.mixing import Mixtures
from holdfast.report.mixing_figures import place_of, strength
from tests.report.factory import FakeCheck, make_run, pgd
from tests.report.reading import read

STRENGTHS = (0.0, 1.0, 100.0, math.inf)
PLAN = Plan(strengths=STRENGTHS, eps=0.1, radii=(0.2,), at=1.0)
SETTINGS = {
    "seed": 0, "robust": "digits/robust/seed-0", "robust_hash": "cd34", "mixing": "probabilities",
    "mixing_params": "Probability()", "attack": "pgd linf eps=0.1", "params": "{}", "norm": "linf", "examples": 4,
}  # fmt: skip


def answer(plan: Plan = PLAN, **changed: Any) -> Answer:
    found = {"crossing": 10**0.8}  # g ahead by 3/4 at 100 and behind by 1/2 at 1: two fifths of the way
    return Answer("mixing", "best", "ab12", {**plan.settings(), **SETTINGS, **changed}, found)


def rows(plan: Plan = PLAN) -> dict[str, Any]:
    """Four images: all right when clean, g falls when it is the aim, h half of the time, and mixtures as h."""
    right = np.ones((4, len(plan.tries), len(plan.mixtures)), dtype=bool)
    for number, one in enumerate(plan.tries[1:], 1):
        right[:, number, 0] = one.aim not in (0.0, 1.0)
        right[:2, number, 1:] = False
        right[2, number, 1:] = one.aim != 100.0
    sizes = np.random.default_rng(0).gamma(2.0, size=(6, 4, 2))
    names = [f"{who}_{points}" for points in ("clean", "on_standard", "on_robust") for who in ("standard", "robust")]
    columns = {name: size.tolist() for name, size in zip(names, sizes, strict=True)}
    return {"example": [0, 1, 2, 3], "label": [0, 1, 0, 1], "right": right.tolist(), **columns}


def ask(path: Path, said: Answer | None = None, plan: Plan = PLAN) -> None:
    said = answer(plan) if said is None else said
    write_answer(path, said)
    Measures(path, said).append(0, "a", rows(plan))


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True] * 4), pgd(0.1, [False] * 4)], name="digits/a")
    ask(path)
    return path


def section(*paths: Path) -> Mixtures:
    runs = read_runs(paths)
    return Mixtures.of(runs, [run.label for run in runs])


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def test_accuracy_against_strength_has_a_line_for_each_attack(asked: Path) -> None:
    chart = section(asked).curves[0]
    lines = {trace["name"]: trace["y"] for trace in chart.figure.spec["data"]}
    assert lines == {
        "clean images": (1.0, 1.0, 1.0, 1.0),
        "attack on the standard network": (0.0, 0.5, 0.5, 0.5),
        "attack on the robust network": (1.0, 0.5, 0.5, 0.5),
        "attack on the mixture": (0.0, 0.5, 0.25, 0.5),
        "worst of all attacks": (0.0, 0.25, 0.25, 0.25),
    }
    assert chart.figure.spec["layout"]["xaxis"]["ticktext"] == ["0", "1", "100", "∞"]
    assert "Worst case and clean accuracy are 25.0\u00a0% and 100.0\u00a0% at strength 1, where" in chart.words
    assert "the standard one 0.0\u00a0% and 100.0\u00a0%" in chart.words


def test_accuracy_against_the_aim_marks_where_the_networks_change_places(asked: Path) -> None:
    chart = section(asked).curves[1]
    lines = {trace["name"]: trace["y"] for trace in chart.figure.spec["data"]}
    assert lines["standard"] == (0.0, 0.0, 1.0, 1.0)
    assert lines["robust"] == lines["mixture of strength 1"] == (0.5, 0.5, 0.25, 0.5)
    shape = chart.figure.spec["layout"]["shapes"][0]
    assert shape["x0"] == pytest.approx(1.4)
    assert "Up to an aim of 6.31 the robust network answers better" in chart.words
    assert "The mixture of strength 1 suffers most from the aim 100: 25.0\u00a0% right" in chart.words


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"crossing": "inf"}, "The robust network answers at least as well over all aims together. The mixture"),
        ({"crossing": 0.0}, "The standard network answers better over all aims together. The mixture"),
        ({}, "The mixture of strength 1 suffers most"),  # not all images were asked about yet
    ],
)
def test_curves_that_do_not_cross_have_no_mark(asked: Path, result: Any, words: str) -> None:
    write_answer(asked, replace(answer(), result=result))
    chart = section(asked).curves[1]
    assert "shapes" not in chart.figure.spec["layout"]
    assert chart.words.startswith(words)


def test_accuracy_against_the_radius_starts_with_clean_images(asked: Path) -> None:
    chart = section(asked).curves[2]
    lines = {trace["name"]: (trace["x"], trace["y"]) for trace in chart.figure.spec["data"]}
    assert lines["standard"] == ((0.0, 0.1, 0.2), (1.0, 0.0, 0.0))
    assert lines["robust"] == ((0.0, 0.1, 0.2), (1.0, 0.5, 0.5))  # the aim 100 counts for nobody here
    assert "At ε = 0.1" in chart.words


def test_gradients_are_drawn_for_three_kinds_of_points_and_told(asked: Path) -> None:
    found = section(asked)
    violins, matrix = (told.figure.spec["data"] for told in found.gradients[:2])
    assert len(found.gradients) == 6
    assert [trace["side"] for trace in violins] == ["negative", "positive"]
    assert len(violins[0]["y"]) == 2 * 41
    sizes = np.array([rows()["standard_clean"], rows()["robust_clean"]])
    whole = np.corrcoef(np.concatenate(sizes, axis=1).T)
    np.testing.assert_allclose(np.array(matrix[0]["z"]), whole, atol=5e-4)
    assert f"Mean sizes are {sizes[0].mean():.4g} and {sizes[1].mean():.4g}" in found.gradients[0].words
    assert f"{whole[0, 1]:.2f}".replace("-", "−") in found.gradients[1].words


def test_ways_to_mix_share_the_gradients_of_their_networks(asked: Path) -> None:
    ask(asked, answer(mixing="gradient ratios of all classes"))
    found = section(asked)
    assert (len(found.curves), len(found.gradients)) == (6, 6)
    assert len({one.identifier for one in found.figures}) == 12


def test_a_policy_stands_apart(tmp_path: Path) -> None:
    plan = replace(PLAN, adaptive=True)
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True] * 4)], name="digits/a")
    ask(path, answer(plan, robust=""), plan)
    found = section(path)
    trace = found.curves[0].figure.spec["data"][0]
    assert trace["y"] == [1.0, 1.0, 1.0, 1.0, None, 1.0]
    assert trace["x"] == [0, 1, 2, 3, None, 4]
    assert len(trace["error_y"]["array"]) == 6
    assert found.curves[0].figure.spec["layout"]["xaxis"]["ticktext"][-1] == "policy"
    assert found.curves[0].words.endswith("the policy 25.0\u00a0% and 100.0\u00a0%.")
    assert "mixture with policy" in [trace["name"] for trace in found.curves[1].figure.spec["data"]]
    assert "g of digits/a (best) and its h" in found.curves[0].figure.title


def test_the_robust_network_has_the_name_that_the_report_gives_it(asked: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "b", [FakeCheck("clean", correct=[True] * 4)], name="digits/b")
    ask(asked, answer(robust_hash="ab12" + "0" * 8))  # that of the fake runs
    assert "digits/robust/seed-0" in section(asked, other).curves[0].figure.title
    facts = json.loads((other / "run.json").read_text())
    facts["weights"]["best"]["sha256"] = "cd34" + "0" * 60
    (other / "run.json").write_text(json.dumps(facts))
    assert any("a (best) and b (best)" in told.figure.title for told in section(asked, other).curves)


def test_tables_have_the_numbers_of_the_charts(asked: Path, tmp_path: Path) -> None:
    strengths, aims, radii, sizes, medians, correlations, *_ = section(asked).numbers
    assert texts(strengths)["100"][3:] == ["25.0\u00a0%", "25.0\u00a0%"]
    assert texts(aims)["∞"] == ["100.0\u00a0%", "50.0\u00a0%", "50.0\u00a0%"]
    assert texts(radii)["0.2"][0] == "0.0\u00a0%"
    assert len(texts(sizes)) == 3
    assert texts(medians)["standard network"][0] == f"{np.median(np.array(rows()['standard_clean'])[:, 0]):.4g}"
    assert texts(correlations)["g cat"][0] == "1.00"
    page = read(write_report([asked], tmp_path / "page.html"))
    assert any(
        caption.startswith("Mixtures by strength: digits/a (best) and digits/robust/seed-0") for caption in page.tables
    )


def test_nobody_asked_nothing_shown(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True] * 4)], name="a")
    assert not section(path).there


@pytest.mark.parametrize(("value", "place"), [(0.5, 0.5), (1.0, 1.0), (10.0, 1.5), (400.0, 2.75)])
def test_places_between_strengths_are_those_of_the_crossing(value: float, place: float) -> None:
    assert place_of(value, STRENGTHS) == pytest.approx(place)


def test_strengths_are_written_short() -> None:
    assert [strength(value) for value in (0.0, 10**-0.5, 10**3.5, math.inf, "policy")] == [
        "0", "0.316", "3162", "∞", "policy",
    ]  # fmt: skip
