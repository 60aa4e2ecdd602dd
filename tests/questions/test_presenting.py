"""What presentations of all questions share: how many images answers rest on, and what curves are called."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.classes import Classes
from holdfast.questions.features import Features
from holdfast.questions.flatness import Flatness
from holdfast.questions.gradient_norm import GradientNorm
from holdfast.questions.head_spectrum import HeadSpectrum
from holdfast.questions.presenting import presented
from holdfast.show.chart import Chart
from tests.questions.test_classes import ANSWER as CLASSES
from tests.questions.test_features import ANSWER as FEATURES
from tests.questions.test_head_spectrum import RECORD
from tests.questions.test_presentations import FLATNESS, ROWS, key, of

HEAD = Answer(key("head_spectrum", {}), (RECORD,), run="a")


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ([FLATNESS], "Measured on 40 images."),
        ([FLATNESS, replace(FLATNESS, key=key("flatness", FLATNESS.settings, 500))], "Measured on 40 and 500 images."),
        ([replace(FLATNESS, key=key("flatness", FLATNESS.settings, n)) for n in (9, 1, 5)],
         "Measured on 1, 5 and 9 images."),
        ([replace(FLATNESS, key=key("flatness", FLATNESS.settings, 1))], "Measured on 1 image."),
    ],
)  # fmt: skip
def test_answers_begin_with_the_number_of_images_that_they_rest_on(answers, sentence):
    assert presented(Flatness, Answers(tuple(answers), ("a",)))[0] == sentence


def test_images_that_a_question_leaves_out_do_not_count():
    (sentence, *_) = presented(Features, Answers((FEATURES,), ("a",)))
    assert sentence == f"Measured on {FEATURES.settings['images']} images."


def test_nothing_is_measured_where_there_is_no_answer():
    assert presented(Flatness, Answers()) == []


def test_answers_of_one_network_on_different_images_have_curves_of_different_names():
    whole = replace(FLATNESS, key=key("flatness", FLATNESS.settings, 500))
    (chart,) = of(Chart, Flatness.present(Answers((whole, FLATNESS), ("a",))))
    assert [curve.kind for curve in chart.curves] == ["best weights, 500 images", "best weights, 40 images"]
    rows = ROWS.with_columns(gradient_norm=pl.Series([1.0, 2.0, 3.0]))
    norms = [Answer(key("gradient_norm", {"norm": norm}), (), rows, "a") for norm in ("l1", "l2")]
    (chart,) = of(Chart, GradientNorm.present(Answers(tuple(norms), ("a",))))
    assert [curve.kind for curve in chart.curves] == ["best weights, norm=l1", "best weights, norm=l2"]


@pytest.mark.parametrize(("question", "answer"), [(HeadSpectrum, HEAD), (Classes, CLASSES), (Features, FEATURES)])
def test_no_two_curves_of_a_chart_look_alike(question, answer):
    other = replace(
        answer, key=replace(answer.key, examples=2 * answer.key.examples, weights_hash="f00", weights="last")
    )
    twin = replace(other, key=replace(answer.key, examples=3 * answer.key.examples))
    charts = of(Chart, question.present(Answers((answer, twin, other), ("a",))))
    for chart in charts:
        looks = [(curve.run, curve.kind) for curve in chart.curves]
        assert len(set(looks)) == len(looks)
