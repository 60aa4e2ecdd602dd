"""Confidence in few numbers, and what is shown of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from holdfast.questions.answers import COMMON, Answer, Answers
from holdfast.questions.confidences import CAPTION, Confidences
from holdfast.report import write_report
from holdfast.show.table import Table
from holdfast.statistics import wilson
from tests.questions.test_presentations import key, of, store
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

COLUMNS = {
    "clean_likeliest": [0.9, 0.7], "clean_true": [0.9, 0.2], "clean_right": [True, False],
    "random_likeliest": [[0.8, 0.6], [0.8, 0.6]], "random_true": [[0.8, 0.3], [0.1, 0.3]],
    "random_right": [[True, False], [False, False]],
    "pgd1_likeliest": [[0.5, 0.4], [0.7, 0.4]], "pgd1_true": [[0.5, 0.0], [0.1, 0.0]],
    "pgd1_right": [[True, True], [True, False]],
}  # fmt: skip
ROWS = pl.DataFrame(
    {"run": ["a"] * 2, "weights": ["best"] * 2, "weights_hash": ["abc"] * 2, "seed": [0] * 2, "example": [0, 1],
     "label": [0, 1], **COLUMNS},
    schema_overrides=COMMON,
)  # fmt: skip
ANSWER = Answer(key("confidences", {"norm": "linf", "eps": 0.2}, 2), (), ROWS, "a")


def table(*answers: Answer) -> Table:
    (shown,) = of(Table, Confidences.present(Answers(answers, tuple(answer.run for answer in answers))))
    return shown


def test_every_cell_is_a_mean_over_the_images() -> None:
    rows = dict(table(ANSWER).rows)
    assert [*rows] == [
        "a (best), clean images", "a (best), random points, ℓ∞ 0.1", "a (best), random points, ℓ∞ 0.2",
        "a (best), one step of PGD, ℓ∞ 0.1", "a (best), one step of PGD, ℓ∞ 0.2",
    ]  # fmt: skip
    likeliest, true, right, images = rows["a (best), clean images"]
    assert (likeliest.value, true.value, right.value, images.text) == (
        pytest.approx(0.8), pytest.approx(0.55), 0.5, "2",
    )  # fmt: skip
    assert [cell.text for cell in (likeliest, true, right)] == ["80.0\u00a0%", "55.0\u00a0%", "50.0\u00a0%"]
    bounds = wilson(1, 2)
    assert right.note == f"[{100 * bounds.low:.1f},\u00a0{100 * bounds.high:.1f}]"
    assert likeliest.note == "± 19.6\u00a0%"  # 1.959964 * 0.1
    values = {place: [cell.value for cell in cells] for place, cells in enumerate(rows.values())}
    assert (values[1][1], values[2][1]) == pytest.approx((0.45, 0.3))
    assert [row[2] for row in values.values()] == [0.5, 0.5, 0.0, 1.0, 0.5]
    assert [row[0] for row in values.values()] == pytest.approx([0.8, 0.8, 0.6, 0.6, 0.4])


def test_each_network_has_a_row_for_each_kind_of_points(tmp_path: Path) -> None:
    paths = [make_run(tmp_path / name, [FakeCheck("clean", correct=[True, False])], name=name) for name in "ab"]
    assert CAPTION not in read(write_report(paths, tmp_path / "none.html")).tables
    for path in paths:
        store(path, ANSWER)
    assert CAPTION in read(write_report(paths, tmp_path / "both.html")).tables
    rows = dict(table(ANSWER, replace(ANSWER, run="b")).rows)
    assert rows["b (best), one step of PGD, ℓ∞ 0.2"][0].text == "40.0\u00a0%"
    assert len(rows) == 10


def test_answers_within_two_budgets_are_told_apart() -> None:
    other = replace(ANSWER, key=key("confidences", {"norm": "l2", "eps": 1.0}, 2))
    assert {"a (best), norm=linf, eps=0.2, clean images", "a (best), norm=l2, eps=1, one step of PGD, ℓ2 0.5"} <= {
        *dict(table(ANSWER, other).rows)
    }


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"norm": "l2"}, "norm: expected eps beside norm l2"),
        ({"eps": 0.0}, "eps: expected a positive number, such as 8/255; got 0"),
    ],
)
def test_bad_budgets_get_one_line(fields: dict[str, object], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        Confidences(**fields)
