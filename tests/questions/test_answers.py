"""Answers in memory."""

from __future__ import annotations

from holdfast.questions.answers import Answers
from tests.questions.test_classes import ANSWER


def test_answers_in_a_notebook_are_what_the_question_presents() -> None:
    text = Answers((ANSWER,), ("a",))._repr_html_()
    assert text.startswith("<iframe")
    assert Answers()._repr_html_() == ""
