"""What the question of expansions presents, from rows that a reader can sum up."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from holdfast.attacks import APGD, PGD
from holdfast.checks import Check
from holdfast.questions.answers import Answer, AnswerKey, Answers
from holdfast.questions.question import Context
from holdfast.questions.segment import Segments
from holdfast.recipe.plain import describe
from holdfast.show.chart import Chart
from holdfast.show.figures import Figure
from holdfast.show.html import figures_of, parts_of
from holdfast.show.items import Details
from holdfast.show.table import Table
from holdfast.threat import L2, Linf

SETTINGS = {
    "norm": "linf", "eps": 0.1, "attack": "pgd linf eps=0.1", "params": "{}", "points": 3, "around": 0.0,
    "tolerance": 0.1,
}  # fmt: skip
ROWS = pl.DataFrame({
    "example": [7, 3], "label": [0, 1], "image": [70, 30], "loss": [[0.0, 1.0, 4.0], [1.0, 1.0, 1.0]],
    "start": [0.0, 1.0], "slope": [1.0, 0.0], "bend": [2.0, 0.0], "first_end": [-3.0, 0.0], "second_end": [-2.0, 0.0],
    "first_reach": [0.0, 1.0], "second_reach": [0.5, 1.0], "right": [True, False], "right_at_end": [False, False],
})  # fmt: skip


def answer(rows=ROWS, run="a", place=0, **settings):
    key = AnswerKey(
        question="segment", settings={**SETTINGS, **settings}, weights="best", weights_hash="abc", seed=0, examples=2,
        images="0", block=16,
    )  # fmt: skip
    return Answer(key, (), rows, run, place)


def other(rows=ROWS, **settings):
    return answer(rows, "b", 1, **settings)


def presented(*answers):
    labels = tuple(dict.fromkeys(one.run for one in answers))
    return list(Segments.present(Answers(answers, labels)))


def of(kind, items):
    """The items of a kind, folded ones last."""
    folded = [each for item in items if isinstance(item, Details) for each in item.items]
    return [item for item in (*items, *folded) if isinstance(item, kind)]


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def verdicts(items):
    return [text for text in of(str, items) if "the loss goes from" in text]


def test_loss_and_both_orders_are_drawn_with_ribbons():
    items = presented(answer())
    (mean,), (reach, *single) = of(Figure, items), of(Chart, items)
    ribbons, curves = mean.spec["data"][:3], mean.spec["data"][3:]
    assert [curve["name"] for curve in curves] == ["loss", "first order", "second order"]
    assert [curve["y"] for curve in curves] == [(0.5, 1.0, 2.5), (0.5, 0.75, 1.0), (0.5, 0.875, 1.5)]
    half = 1.959964 * 1.5 / 2**0.5 * 2**0.5  # deviation of 4 and 1 over the root of 2
    assert ribbons[0]["y"][2:4] == [pytest.approx(2.5 + half), pytest.approx(2.5 - half)]
    assert len({curve["line"]["color"] for curve in curves}) == 3
    assert [curve.y for curve in reach.curves] == [(1.0, 0.5, 0.5), (1.0, 1.0, 0.5)]
    assert [chart.title for chart in single] == [
        "Image 3, of small error", "Image 3, of middling error", "Image 7, of large error",
    ]  # fmt: skip
    assert single[2].curves[2].y == (0.0, 0.75, 2.0)


def test_words_say_where_each_order_fails():
    (words,) = verdicts(presented(answer()))
    assert words.startswith(
        "a (best), pgd linf eps=0.1, expanded at the image: the loss goes from 0.5 to 2.5 on average"
    )
    assert "within 0.1 of it up to 50.0\u00a0% of the way for half of the images, and to the end for 50.0" in words
    assert "the second up to 75.0" in words
    assert "first order has 1, which is far too little, and the second 1.5, which is far too little" in words
    near = ROWS.with_columns(bend=pl.Series([6.5, 0.0]))
    assert "the second 2.625, which is about right" in verdicts(presented(answer(near)))[0]
    (words,) = verdicts(presented(answer(ROWS.with_columns(bend=pl.Series([60.0, 0.0]), first_reach=pl.lit(1.0)))))
    assert "which is far too much" in words
    assert "within 0.1 of it all the way for half" in words


def test_tables_have_the_numbers_of_the_charts():
    items = presented(answer())
    foreseen, reach, curve, single = of(Table, items)
    assert texts(foreseen) == {
        "a (best), all images": ["2", "2", "25.0\u00a0%", "50.0\u00a0%"],
        "a (best), sure by 99 % or more": ["1", "4", "25.0\u00a0%", "50.0\u00a0%"],
        "a (best), the others": ["1", "0", "", ""],
    }
    assert texts(reach)["a (best), first order"] == [
        "25.0\u00a0%", "50.0\u00a0%", "75.0\u00a0%", "50.0\u00a0%", "-1.5",
    ]  # fmt: skip
    assert texts(single)["a (best), image 7"] == ["0", "4", "1", "2"]
    assert texts(curve)["100.0\u00a0%"] == ["2.5", "1", "1.5", "1.5", "1", "50.0\u00a0%", "50.0\u00a0%"]
    assert "50.0\u00a0% correct at the images, 0.0\u00a0% at the other ends" in curve.caption


def test_a_terminal_prints_the_curves_and_only_names_the_single_images():
    curves, images = (item for item in presented(answer()) if isinstance(item, Details))
    assert (curves.open, images.open) == (True, False)


def test_runs_stand_beside_each_other_and_share_their_images():
    items = presented(answer(), other(ROWS.with_columns(second_end=pl.Series([0.0, -2.0]))))
    assert [drawn.title for drawn in of(Figure, items)] == [
        "Mean loss of a (best), with 95 % intervals", "Mean loss of b (best), with 95 % intervals",
    ]  # fmt: skip
    assert [len(chart.curves) for chart in of(Chart, items)] == [4, 6, 6, 6]
    assert [chart.title for chart in of(Chart, items)[1:]] == [
        "Image 3, of small error", "Image 3, of middling error", "Image 7, of large error",
    ]  # fmt: skip
    assert len(verdicts(items)) == 2


def test_an_image_of_other_data_is_not_drawn_beside_it():
    items = presented(answer(), other(ROWS.with_columns(image=pl.Series([71, 31]))))
    assert [len(chart.curves) for chart in of(Chart, items)] == [4, 3, 3, 3]
    assert all(name.startswith("a ") for name in texts(of(Table, items)[-1]))


def test_ways_of_measuring_are_kept_apart():
    items = presented(answer(), answer(around=0.5))
    assert len(of(Figure, items)) + len(of(Chart, items)) == 2 + 2 * 4
    assert "expanded at 0.5: the loss goes" in verdicts(items)[1]
    identifiers = [drawn.identifier for drawn in figures_of(parts_of(items, ["a"], "segment"))]
    assert len(set(identifiers)) == len(identifiers) == 10


def test_attacks_are_named_by_their_label_alone():
    far = other(attack="pgd linf eps=0.3", eps=0.3, params='{"eps": 0.3}')
    foreseen, *_ = of(Table, presented(answer(), far))
    names = [name.removesuffix(", all images") for name in texts(foreseen) if name.endswith("all images")]
    assert names == ["a (best), attack=pgd linf eps=0.1", "b (best), attack=pgd linf eps=0.3"]


def test_one_image_has_no_interval():
    items = presented(answer(ROWS.head(1)))
    foreseen, *_ = of(Table, items)
    assert foreseen.rows[0][1][1].note == ""
    (mean,) = of(Figure, items)
    assert mean.spec["data"][0]["y"][2:4] == [4.0, 4.0]


def context(*checks):
    return Context(
        model=None, weights_hash="", recipe={}, checks=checks, test=None, train=None, classes=(), seed=0, load=None,
        describe=lambda check: describe(check, Check),
    )  # fmt: skip


def test_the_attack_is_that_of_the_options_or_of_the_run_and_looks_for_the_highest_loss():
    own = PGD(threat=Linf(0.2), steps=4)
    prepared = Segments().prepared(context(own))
    assert prepared.measurement.attack == replace(own, until_lost=False)
    assert prepared.settings["attack"] == "pgd linf eps=0.2 steps=4"
    assert (prepared.settings["norm"], prepared.settings["eps"]) == ("linf", 0.2)
    prepared = Segments(norm="l2", eps=0.5).prepared(context(own))
    assert prepared.measurement.attack == APGD(threat=L2(0.5), steps=50, until_lost=False)
    assert Segments().prepared(context()).settings["eps"] == 8 / 255


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"points": 1}, "points: expected a number from 2 to 1001; got 1"),
        ({"points": 1002}, "points: expected a number from 2 to 1001; got 1002"),
        ({"around": 2.0}, "around: expected a number from 0 to 1; got 2"),
        ({"tolerance": 0.0}, "tolerance: expected a positive number; got 0"),
        ({"norm": "l2"}, "norm: expected eps beside norm l2"),
        ({"eps": -1.0}, "eps: expected a positive number"),
    ],
)
def test_impossible_fields_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Segments(**fields)
