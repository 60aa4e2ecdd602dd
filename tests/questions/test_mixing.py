"""Mixtures of two networks: what is presented of them, and bad questions."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from holdfast.questions.answers import COMMON, Answer, Answers
from holdfast.questions.mixing import Mixtures, place_of
from holdfast.questions.mixing.summary import Plan
from holdfast.report import write_report
from holdfast.show.figures import Figure
from holdfast.show.items import Details, Heading
from holdfast.show.table import Table
from tests.questions.test_presentations import key, of, store, texts
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

STRENGTHS = (0.0, 1.0, 100.0, math.inf)
PLAN = Plan(strengths=STRENGTHS, eps=0.1, radii=(0.2,), at=1.0)
SETTINGS = {
    "robust": "digits/robust/seed-0", "robust_hash": "cd34" + "0" * 8, "mixing": "probabilities",
    "mixing_params": "Probability()", "gradients": "classes", "norm": "linf", "attack": "pgd linf eps=0.1",
    "params": "{}", "examples": 4,
}  # fmt: skip


def right_answers(plan: Plan = PLAN) -> np.ndarray[Any, Any]:
    """Four images: all right when clean, g falls when it is the aim, h half of the time, and mixtures as h."""
    right = np.ones((4, len(plan.tries), len(plan.mixtures)), dtype=bool)
    for number, one in enumerate(plan.tries[1:], 1):
        right[:, number, 0] = one.aim not in (0.0, 1.0)
        right[:2, number, 1:] = False
        right[2, number, 1:] = one.aim != 100.0
    return right


SIZES = np.random.default_rng(0).gamma(2.0, size=(6, 4, 2))
NAMES = [f"{who}_{points}" for points in ("clean", "on_standard", "on_robust") for who in ("standard", "robust")]


def answer(plan: Plan = PLAN, right: Any = None, *, run: str = "a", **changed: Any) -> Answer:
    columns = {
        "run": [run] * 4, "weights": ["best"] * 4, "weights_hash": ["abc"] * 4, "seed": [0] * 4, "example": range(4),
        "label": [0, 1, 0, 1], "right": (right_answers(plan) if right is None else right).tolist(),
        **{name: size.tolist() for name, size in zip(NAMES, SIZES, strict=True)},
    }  # fmt: skip
    rows = pl.DataFrame(columns, schema_overrides=COMMON)
    return Answer(key("mixing", {**SETTINGS, **plan.settings(), **changed}, 4), (), rows, run, classes=("cat", "dog"))


def shown(*answers: Answer, networks: dict[str, str] | None = None) -> list[Any]:
    return list(Mixtures.present(Answers(answers, tuple(one.run for one in answers), networks or {})))


def curves(items: list[Any]) -> list[Figure]:
    return [item for item in of(Figure, items) if item.title.startswith(("Accuracy", "Worst"))]


def lines(figure: Figure) -> dict[str, Any]:
    return {trace["name"]: trace["y"] for trace in figure.spec["data"]}


def words(items: list[Any]) -> str:
    """The sentences between the first two headings."""
    first = next(number for number, item in enumerate(items) if isinstance(item, Heading))
    sentence = items[first + 1]
    assert isinstance(sentence, str)
    return sentence


def test_accuracy_against_strength_has_a_line_for_each_attack() -> None:
    items = shown(answer())
    chart = curves(items)[0]
    assert lines(chart) == {
        "clean images": (1.0, 1.0, 1.0, 1.0),
        "attack on the standard network": (0.0, 0.5, 0.5, 0.5),
        "attack on the robust network": (1.0, 0.5, 0.5, 0.5),
        "attack on the mixture": (0.0, 0.5, 0.25, 0.5),
        "worst of all attacks": (0.0, 0.25, 0.25, 0.25),
    }
    assert chart.spec["layout"]["xaxis"]["ticktext"] == ["0", "1", "100", "∞"]
    best = "On 4 images, worst-case and clean accuracy are 25.0\u00a0% and 100.0\u00a0% at strength 1, where"
    assert words(items).startswith(best)
    assert "the standard one 0.0\u00a0% and 100.0\u00a0%" in words(items)


def test_accuracy_against_the_aim_marks_where_the_networks_change_places() -> None:
    items = shown(answer())
    chart = curves(items)[1]
    assert lines(chart)["standard network"] == (0.0, 0.0, 1.0, 1.0)
    assert lines(chart)["robust network"] == lines(chart)["mixture of strength 1"] == (0.5, 0.5, 0.25, 0.5)
    shape = chart.spec["layout"]["shapes"][0]
    assert shape["x0"] == pytest.approx(1.4)  # g ahead by 3/4 at 100 and behind by 1/2 at 1: two fifths of the way
    assert "Up to an aim of 6.31 the robust network answers better, beyond it the standard one." in words(items)
    hardest = "is least accurate under the attack with aim 100: 25.0\u00a0% correct."
    assert f"The mixture of strength 1 {hardest}" in words(items)


@pytest.mark.parametrize(
    ("standard", "sentence"),
    [
        (False, "The robust network answers at least as well over all aims together. The mixture"),
        (True, "The standard network answers better over all aims together. The mixture"),
    ],
)
def test_curves_that_do_not_cross_have_no_mark(standard: bool, sentence: str) -> None:
    right = right_answers()
    right[:, :, 0] = standard
    items = shown(answer(right=right))
    assert "shapes" not in curves(items)[1].spec["layout"]
    assert sentence in words(items)


def test_accuracy_against_the_radius_starts_with_clean_images() -> None:
    items = shown(answer())
    chart = {trace["name"]: (trace["x"], trace["y"]) for trace in curves(items)[2].spec["data"]}
    assert chart["standard network"] == ((0.0, 0.1, 0.2), (1.0, 0.0, 0.0))
    assert chart["robust network"] == ((0.0, 0.1, 0.2), (1.0, 0.5, 0.5))  # the aim 100 counts for nobody here
    assert "At ε = 0.1, with the same attacks tried on all: 0.0\u00a0% for the standard network, 50.0" in words(items)


def test_gradients_are_drawn_for_three_kinds_of_points_and_tabulated() -> None:
    items = shown(answer())
    gradients = of(Figure, items)[3:]
    violins, matrix = (figure.spec["data"] for figure in gradients[:2])
    assert len(gradients) == 6
    assert [trace["side"] for trace in violins] == ["negative", "positive"]
    assert len(violins[0]["y"]) == 2 * 41
    whole = np.corrcoef(np.concatenate((SIZES[0], SIZES[1]), axis=1).T)
    np.testing.assert_allclose(np.array(matrix[0]["z"]), whole, atol=5e-4)
    overview = of(Table, items)[-1]
    assert texts(overview)["Clean images"][:3] == [
        f"{SIZES[0].mean():.4g}", f"{SIZES[1].mean():.4g}", f"{whole[0, 1]:.2f}".replace("-", "−"),
    ]  # fmt: skip
    ratio = SIZES[0] / SIZES[1]
    assert overview.rows[0][1][5].value == pytest.approx(np.median(ratio.std(axis=0) / ratio.mean(axis=0)))
    assert len(overview.rows) == 3


def test_medians_and_correlations_by_class_are_details() -> None:
    (details,) = of(Details, shown(answer()))
    medians, correlations, *_ = details.items
    assert isinstance(medians, Table)
    assert medians.columns == ["cat", "dog"]
    assert texts(medians)["standard network"][0] == f"{np.median(SIZES[0][:, 0]):.4g}"
    assert isinstance(correlations, Table)
    assert texts(correlations)["g cat"][0] == "1.00"
    assert len(details.items) == 6


def test_ways_to_mix_share_the_gradients_of_their_networks() -> None:
    items = shown(answer(), answer(mixing="gradient ratios of all classes"))
    assert (len(curves(items)), len(of(Figure, items)), len(of(Details, items))) == (6, 12, 1)
    assert of(Heading, items)[-1].text == "Gradients of a (best) and digits/robust/seed-0, pgd linf eps=0.1, 4 images"


def test_gradients_at_points_of_other_attacks_and_images_are_shown_apart() -> None:
    other = answer(params='{"steps": 3}', attack="pgd linf eps=0.1 steps=3")
    fewer = replace(answer(), key=replace(answer().key, images="1"))
    items = shown(answer(), other, fewer)
    assert len(of(Details, items)) == 3
    assert [one.text for one in of(Heading, items)].count(
        "Gradients of a (best) and digits/robust/seed-0, pgd linf eps=0.1 steps=3, 4 images"
    ) == 1


def test_a_policy_stands_apart() -> None:
    plan = replace(PLAN, adaptive=True)
    items = shown(answer(plan, robust="", robust_hash=""))
    first, second, _ = curves(items)
    trace = first.spec["data"][0]
    assert trace["y"] == [1.0, 1.0, 1.0, 1.0, None, 1.0]
    assert trace["x"] == [0, 1, 2, 3, None, 4]
    assert len(trace["error_y"]["array"]) == len(trace["text"]) == 6
    assert first.spec["layout"]["xaxis"]["ticktext"][-1] == "policy"
    assert "the policy 25.0\u00a0% and 100.0\u00a0%." in words(items)
    assert "mixture with policy" in lines(second)
    assert of(Heading, items)[0].text.startswith("g of a (best) and its h, probabilities")


def test_the_robust_network_has_the_name_that_the_report_gives_it(tmp_path: Path) -> None:
    assert of(Heading, shown(answer()))[0].text.startswith("a (best) and digits/robust/seed-0")
    named = shown(answer(), networks={SETTINGS["robust_hash"]: "b (best)"})
    assert of(Heading, named)[0].text.startswith("a (best) and b (best)")
    clean = FakeCheck("clean", correct=[True] * 4)
    paths = [make_run(tmp_path / name, [clean], name=f"digits/{name}") for name in "ab"]
    store(paths[0], answer())
    assert "a (best) and digits/robust/seed-0" in write_report(paths, tmp_path / "none.html").read_text()
    facts = json.loads((paths[1] / "run.json").read_text())
    facts["weights"]["best"]["sha256"] = "cd34" + "0" * 60
    (paths[1] / "run.json").write_text(json.dumps(facts))
    assert "a (best) and b (best)" in write_report(paths, tmp_path / "both.html").read_text()


def test_tables_have_the_numbers_of_the_charts(tmp_path: Path) -> None:
    items = shown(answer())
    strengths, aims, radii, overview = of(Table, items)
    assert texts(strengths)["100"][3:] == ["25.0\u00a0%", "25.0\u00a0%"]
    assert texts(aims)["∞"] == ["100.0\u00a0%", "50.0\u00a0%", "50.0\u00a0%"]
    assert texts(radii)["0.2"][0] == "0.0\u00a0%"
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True] * 4)], name="digits/a")
    store(path, answer())
    page = read(write_report([path], tmp_path / "page.html"))
    assert {table.caption for table in (strengths, aims, radii, overview)} <= set(page.tables)


def test_without_rows_nothing_is_shown() -> None:
    assert shown(replace(answer(), rows=pl.DataFrame(schema=COMMON))) == []


@pytest.mark.parametrize(("value", "place"), [(0.5, 0.5), (1.0, 1.0), (10.0, 1.5), (400.0, 2.75)])
def test_places_between_strengths_are_those_of_the_crossing(value: float, place: float) -> None:
    assert place_of(value, STRENGTHS) == pytest.approx(place)
