"""Nearest neighbours: what is presented of them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from holdfast.questions.answers import COMMON, Answer, Answers
from holdfast.questions.mixing.summary import Plan
from holdfast.questions.neighbours import Neighbours
from holdfast.report import write_report
from holdfast.show.figures import Figure
from holdfast.show.items import Heading
from holdfast.show.table import Table
from tests.questions.test_presentations import key, of, store, texts
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

PLAN = Plan(strengths=(0.0, 0.1, math.inf), eps=0.1)
SETTINGS = {"weights_of": "uniform", "images": 500, "attack": "pgd linf eps=0.1", "params": "{}", "norm": "linf"}


def right_answers(share: float) -> list[Any]:
    """The neighbours keep a share of ten images under attack, the mixture two more, the network none."""
    right = np.ones((10, len(PLAN.tries), 3), dtype=bool)
    right[:, 1:, 0] = False
    right[round(10 * share) + 2 :, 1:, 1] = False
    right[round(10 * share) :, 1:, 2] = False
    return right.tolist()


def answer(shares: dict[int, float], **changed: Any) -> Answer:
    tables = [right_answers(share) for share in shares.values()]
    columns = {
        "run": ["a"] * 10, "weights": ["best"] * 10, "weights_hash": ["abc"] * 10, "seed": [0] * 10,
        "example": range(10), "label": [0, 1] * 5, "right": [list(each) for each in zip(*tables, strict=True)],
    }  # fmt: skip
    settings = {**PLAN.settings(), **SETTINGS, "k": [*shares], **changed}
    return Answer(key("neighbours", settings, 10), (), pl.DataFrame(columns, schema_overrides=COMMON), "a")


BOTH = answer({1: 0.3, 10: 0.5})


def shown(*answers: Answer) -> list[Any]:
    return list(Neighbours.present(Answers(answers, ("a",))))


def test_numbers_of_neighbours_stand_together_from_few_to_many() -> None:
    items = shown(BOTH)
    by_strength, by_count = of(Figure, items)
    lines = {trace["name"]: trace["y"] for trace in by_strength.spec["data"]}
    assert lines == {
        "k = 1, clean images": (1.0, 1.0, 1.0), "k = 1, worst of all attacks": (0.0, 0.5, 0.3),
        "k = 10, clean images": (1.0, 1.0, 1.0), "k = 10, worst of all attacks": (0.0, 0.7, 0.5),
    }  # fmt: skip
    _, sentence = of(str, items)
    assert "best with k = 10 at strength 0.1: 70.0\u00a0%, and 100.0\u00a0% of the clean images" in sentence
    assert "the network alone has 0.0\u00a0%" in sentence
    assert "right with k = 1: 100.0\u00a0%; attacks on the network leave 30.0\u00a0%" in sentence
    alone = {trace["name"]: trace["y"] for trace in by_count.spec["data"]}
    assert alone["attack on the neighbours"] == (0.3, 0.5)
    assert by_count.spec["layout"]["xaxis"]["ticktext"] == ["1", "10"]


def test_numbers_that_were_asked_apart_stand_together_too() -> None:
    apart = shown(answer({10: 0.5}), answer({1: 0.3}))
    assert of(Table, apart) == of(Table, shown(BOTH))
    assert of(Figure, apart) == of(Figure, shown(BOTH))


def test_other_questions_are_kept_apart(tmp_path: Path) -> None:
    other = answer({1: 0.4}, weights_of="distance")
    items = shown(BOTH, other)
    assert len(of(Figure, items)) == 4
    assert of(Heading, items)[1].text == "a (best), distance neighbours among 500 images, pgd linf eps=0.1"
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    store(path, BOTH)
    store(path, other)
    page = write_report([path], tmp_path / "page.html")
    assert {heading.text for heading in of(Heading, items)} <= {*_headings(page.read_text())}
    assert {table.caption for table in of(Table, items)} <= set(read(page).tables)


def _headings(text: str) -> list[str]:
    return [part.split("</h3>")[0] for part in text.split("<h3>")[1:]]


def test_tables_have_a_row_for_each_mixture() -> None:
    (table,) = of(Table, shown(BOTH))
    assert texts(table)["k = 10, strength ∞"] == ["100.0\u00a0%", "50.0\u00a0%", "50.0\u00a0%", "50.0\u00a0%"]
    assert len(table.rows) == 6


def test_without_rows_nothing_is_shown() -> None:
    assert shown(replace(BOTH, rows=pl.DataFrame(schema=COMMON))) == []
