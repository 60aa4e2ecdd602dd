"""What the question of curvature presents, from rows that a reader can sum up."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.curvature import Curvature
from holdfast.show.chart import Chart
from holdfast.show.html import figures_of, parts_of
from holdfast.show.items import Details
from holdfast.show.table import Table

SETTINGS = {
    "draws": 20, "step": 0.01, "exact": False, "normalised": False, "lanczos": 10, "noise": "gaussian",
    "strength": 0.06, "copies": 10,
}  # fmt: skip
ROWS = pl.DataFrame({
    "example": list(range(10)), "label": [0, 1] * 5, "loss": [0.5] * 10, "gradient_norm": [2.0] * 10,
    "curvature": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1000.0], "curvature_error": [0.5] * 9 + [0.1],
    "trace": [1.0] * 10, "trace_error": [0.1] * 10, "eigenvalue": [-3.0] * 10, "residual": [0.3] * 10,
    "right": [10] * 5 + [9] * 4 + [0],
})  # fmt: skip


def answer(settings=SETTINGS, rows=ROWS, run="a", place=0):
    key = AnswerKey(
        question="curvature", settings=settings, weights="best", weights_hash="abc", seed=0, examples=10, images="0",
        block=16,
    )  # fmt: skip
    return Answer(key, (), rows, run, place)


def presented(*answers, labels=("a", "b")):
    return list(Curvature.present(Answers(answers, labels[: len({one.place for one in answers})])))


def of(kind, items):
    return [item for item in items if isinstance(item, kind)]


def folded(items):
    """The tables that a page folds away and a terminal prints."""
    (details,) = of(Details, items)
    assert details.open
    return of(Table, details.items)


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def test_the_summary_has_median_mean_error_gradient_eigenvalue_and_accuracy():
    items = presented(answer())
    (summary,) = of(Table, items)
    ((name, cells),) = summary.rows
    assert name == "a (best)"
    assert [cell.text for cell in cells] == ["5.5", "104.5", "9.2\u00a0%", "2", "-3", "86.0\u00a0%", "10"]
    assert cells[4].note == "residual 10.0\u00a0%"
    _, measured = of(str, items)
    assert "measured with 20 differences at 0.01 in pixels" in measured
    assert "right answers are counted over 10 copies with Gaussian noise of 0.06" in measured


def test_boxes_are_of_the_lowest_ninety_percent():
    items = presented(answer())
    boxes, *_ = of(Chart, items)
    (box,) = boxes.boxes
    assert (box.lower, box.median, box.upper) == (3.0, 5.0, 7.0)
    assert boxes.log_y
    quantiles, _, _ = folded(items)
    assert texts(quantiles) == {"a (best)": ["1.4", "3", "5", "7", "8.6", "9"]}


def test_lowest_curvature_and_groups_are_drawn_and_tabulated():
    items = presented(answer())
    _, lowest, groups = of(Chart, items)
    assert lowest.curves[0].y[:5] == (1.0,) * 5
    assert lowest.curves[0].y[-1] == pytest.approx(0.86)
    assert (groups.curves[0].x, groups.curves[0].y) == ((0.0, 9.0, 10.0), (1000.0, 7.5, 3.0))
    _, kept, table = folded(items)
    assert (texts(kept)["10.0\u00a0%"], texts(kept)["100.0\u00a0%"]) == (["100.0\u00a0%"], ["86.0\u00a0%"])
    assert kept.rows[-1][1][0].note == "[59.6,\u00a098.2]"  # Wilson's, of 9 in 10
    assert texts(table) == {
        "0": ["1000"], "9": ["7.5"], "10": ["3"], "Correlation, groups": ["-1.00"], "Correlation, images": ["-0.99"],
    }  # fmt: skip
    assert table.rows[2][1][0].note == "± 1.386, 5 images"
    assert table.rows[4][1][0].note == "[-1.00, -0.95], over 10"
    assert table.totals == 2


def test_no_curvature_is_drawn_at_the_bottom_of_a_logarithmic_axis():
    flat = answer(rows=ROWS.with_columns(curvature=pl.lit(0.0), eigenvalue=pl.lit(0.0)))
    items = presented(flat)
    boxes, _, groups = of(Chart, items)
    assert boxes.boxes[0].low == boxes.boxes[0].upper == 1e-12
    assert groups.curves[0].y == ()
    (summary,), (_, _, table) = of(Table, items), folded(items)
    assert texts(summary)["a (best)"][2] == ""
    assert texts(table)["Correlation, images"] == ["unknown"]
    assert len(figures_of(parts_of(items, ["a"], "curvature"))) == 3


def test_ways_of_measuring_have_charts_of_their_own_and_names_that_differ():
    settings = {**SETTINGS, "normalised": True, "exact": True, "lanczos": 0}
    other = answer(settings, ROWS.with_columns(eigenvalue=pl.lit(float("nan")), residual=pl.lit(float("nan"))))
    items = presented(answer(), other)
    assert len(of(Chart, items)) == 6
    assert [chart.title.rpartition(", ")[2] for chart in of(Chart, items)[::3]] == [
        "20 differences at 0.01 in pixels", "20 exact products in normalised inputs",
    ]  # fmt: skip
    (summary,) = of(Table, items)
    assert len(dict(summary.rows)) == 2
    assert [cells[4].text for _, cells in summary.rows] == ["-3", "not measured"]


def test_another_noise_shares_the_charts_of_curvature():
    items = presented(answer(), answer({**SETTINGS, "noise": "uniform"}))
    assert [len(chart.curves) for chart in of(Chart, items)] == [0, 2, 2]
    assert {curve.kind for curve in of(Chart, items)[1].curves} == {"Gaussian noise of 0.06", "uniform noise of 0.06"}


def test_runs_stand_beside_each_other():
    items = presented(answer(), replace(answer(), run="b", place=1))
    boxes, *_ = of(Chart, items)
    assert [(box.run, box.name) for box in boxes.boxes] == [(0, "a (best)"), (1, "b (best)")]
    drawn, *_ = figures_of(parts_of(items, ["a", "b"], "curvature"))
    assert [trace["line"]["color"] for trace in drawn.spec["data"]] == ["var(--series-0)", "var(--series-1)"]
    assert [table.columns for table in folded(items)][1:] == [["a (best)", "b (best)"]] * 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"draws": 1}, "draws: expected at least 2"),
        ({"step": 0.0}, "step: expected a positive number"),
        ({"lanczos": -1}, "lanczos: expected at least 0"),
        ({"strength": -1.0}, "strength: expected a number from 0 on"),
        ({"copies": 0}, "copies: expected at least 1"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Curvature(**fields)
