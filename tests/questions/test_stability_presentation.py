"""What the question of stability presents, from rows that a reader can sum up."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.stability import NoiseStability
from holdfast.show.chart import Chart
from holdfast.show.html import figures_of, parts_of
from holdfast.show.items import Details
from holdfast.show.table import Table

SETTINGS = {"sigma": 0.1, "deltas": [2.0, 0.5], "copies": 10, "draws": 20, "step": None, "exact": False}
ROWS = pl.DataFrame({
    "example": [0, 1], "label": [0, 1], "loss": [0.5, 0.5], "gradient_norm": [1.0, 1.0], "curvature": [4.0, 8.0],
    "curvature_error": [1.0, 1.0], "trace": [2.0, 2.0], "trace_error": [0.0, 0.0], "change": [0.02, 0.02],
    "change_error": [0.0, 0.0], "largest_logit": [3.0, 5.0], "inside": [[0, 10], [5, 10]],
    "loss_outside": [[0.5, float("nan")], [0.9, float("nan")]], "longest_row": [2.0, 2.0],
})  # fmt: skip


def answer(rows=ROWS, **settings):
    key = AnswerKey(
        question="stability", settings={**SETTINGS, **settings}, weights="best", weights_hash="abc", seed=0, examples=2,
        images="0", block=16,
    )  # fmt: skip
    return Answer(key, (), rows, "a")


def presented(*answers):
    return list(NoiseStability.present(Answers(answers, ("a",))))


def of(kind, items):
    """The items of a kind, also those that a page folds away and a terminal prints."""
    shown = [each for item in items for each in (item.items if isinstance(item, Details) and item.open else [item])]
    return [item for item in shown if isinstance(item, kind)]


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def verdict(items):
    (sentence,) = [text for text in of(str, items) if text.startswith("a (best):")]
    return sentence


def test_stability_has_curves_a_table_and_what_the_bounds_rest_on():
    items = presented(answer())
    features, losses = of(Chart, items)
    assert (features.curves[0].x, features.curves[0].y) == ((0.5, 2.0), (0.25, 1.0))
    assert (losses.curves[0].x, losses.curves[0].y) == ((0.5,), (pytest.approx(0.2),))
    table, bounds = of(Table, items)
    rows = texts(table)
    assert rows["a (best), δ = 0.5"][:4] == ["25.0\u00a0%", "0.2", "2", "100.0\u00a0%"]
    assert rows["a (best), δ = 2"][1:3] == ["", "0"]
    # 0.01 + 0.0001 / 4 * (2 * 4 + 4) and (2 * 8 + 4): 0.0103 and 0.0105
    assert texts(bounds) == {"a (best)": ["0.1", "10", "2", "5", "2", "1.923", "20 differences at 0.1"]}


def test_the_axis_of_distances_is_logarithmic_with_the_distances_as_ticks():
    drawn, _ = figures_of(parts_of(presented(answer()), ["a"], "stability"))
    axis = drawn.spec["layout"]["xaxis"]
    assert (axis["type"], axis["tickvals"], axis["ticktext"]) == ("log", [0.5, 2.0], ["0.5", "2"])


def test_no_distance_is_not_drawn_and_stays_in_the_table():
    items = presented(answer(deltas=[0.0, 2.0]))
    assert [chart.curves[0].x for chart in of(Chart, items)] == [(2.0,)]
    assert list(texts(of(Table, items)[0])) == ["a (best), δ = 0", "a (best), δ = 2"]


def test_the_theorem_is_put_in_words():
    sentence = verdict(presented(answer()))
    assert "below the upper bound for 100.0\u00a0% of the images; at its tightest" in sentence
    assert "vacuous (not positive) for 50.0\u00a0% to 100.0\u00a0%" in sentence
    assert "is far from the quadratic that the theorem assumes" in sentence


def test_a_lower_bound_that_is_vacuous_everywhere_is_said_to_be():
    steep = ROWS.with_columns(gradient_norm=pl.lit(100.0), change=pl.lit(100.0))
    sentence = verdict(presented(answer(steep)))
    assert "The lower bound is vacuous: it is not positive for any image at any distance." in sentence
    assert "is close to the quadratic that the theorem assumes: its mean squared change is 1 times" in sentence


def test_a_flat_loss_has_no_ratio():
    flat = ROWS.with_columns(gradient_norm=pl.lit(0.0), curvature=pl.lit(0.0), trace=pl.lit(0.0), change=pl.lit(0.0))
    items = presented(answer(flat))
    assert "The loss is flat." in verdict(items)
    assert texts(of(Table, items)[1])["a (best)"][5] == ""


def test_answers_with_different_noise_have_names_that_differ():
    items = presented(answer(), answer(sigma=0.2, exact=True))
    _, bounds = of(Table, items)
    assert list(texts(bounds)) == ["a (best), sigma=0.1, exact=False", "a (best), sigma=0.2, exact=True"]
    assert [cells[6] for cells in texts(bounds).values()] == ["20 differences at 0.1", "20 exact products"]
    assert [curve.kind for curve in of(Chart, items)[0].curves] == ["noise of 0.1", "noise of 0.2"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sigma": 0.0}, "sigma: expected a positive number"),
        ({"step": 0.0}, "step: expected a positive number"),
        ({"deltas": (-1.0,)}, "deltas: expected numbers from 0 on"),
        ({"copies": 1}, "copies: expected at least 2"),
        ({"draws": 1}, "draws: expected at least 2"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        NoiseStability(**fields)


def test_an_unfinished_answer_without_rows_presents_nothing():
    assert presented(replace(answer(), rows=ROWS.clear())) == []
