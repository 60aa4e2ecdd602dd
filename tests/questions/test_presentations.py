"""What thickness and flatness present, from answers whose numbers are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from holdfast.questions.answers import COMMON, Answer, AnswerKey, Answers, Store
from holdfast.questions.flatness import Flatness
from holdfast.questions.thickness import Thickness
from holdfast.report import write_report
from holdfast.show.chart import Chart
from holdfast.show.table import Table
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read


def key(question, settings, examples=3):
    return AnswerKey(
        question=question, settings=settings, weights="best", weights_hash="abc", seed=0, examples=examples,
        images="0", block=4,
    )  # fmt: skip


COLUMNS = {"value": [0.1, 0.3, 0.5], "length": [1.0] * 3, "source": [2, 0, 0], "target": [0, 1, 2]}
ROWS = pl.DataFrame(
    {"run": ["a"] * 3, "weights": ["best"] * 3, "weights_hash": ["abc"] * 3, "seed": [0] * 3, "example": [0, 1, 2],
     "label": [0, 0, 0], **COLUMNS, "reached": [True, False, True]},
    schema_overrides=COMMON,
)  # fmt: skip
THICKNESS = Answer(
    key("thickness", {"alpha": 0.0, "beta": 0.75, "eps": 1.0}), (), ROWS, "a", classes=("cat", "dog", "ship")
)
LEVELS = (
    {"radius": 0.0, "losses": [0.5], "errors": [0.1]},
    {"radius": 2.0, "losses": [1.0, 3.0], "errors": [0.2, 0.4]},
)
FLATNESS = Answer(key("flatness", {"by_filter": False, "draws": 2}, 40), LEVELS, run="a")


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def of(kind, items):
    return [item for item in items if isinstance(item, kind)]


def test_thickness_has_mean_interval_spread_and_the_share_that_reaches_the_class():
    table, _ = of(Table, Thickness.present(Answers((THICKNESS,), ("a",))))
    ((name, cells),) = table.rows
    assert name == "a (best)"
    assert [cell.text for cell in cells] == ["0.3000", "0.2000", "66.7\u00a0%", "3", "(0, 0.75)", "1"]
    assert cells[0].note == "± 0.2263"  # 1.96 * 0.2 / root of 3


def test_classes_are_those_that_were_predicted():
    _, table = of(Table, Thickness.present(Answers((THICKNESS,), ("a",))))
    assert table.columns == ["cat", "ship"]
    assert texts(table) == {"a (best)": ["0.400", "0.100"]}
    assert [cell.heat for cell in table.rows[0][1]] == [1.0, 0.0]


def test_flatness_is_a_curve_of_means_with_intervals_and_a_table():
    items = list(Flatness.present(Answers((FLATNESS,), ("a",))))
    ((curve,),) = [chart.curves for chart in of(Chart, items)]
    assert (curve.x, curve.y) == ((0.0, 2.0), (0.5, 2.0))
    assert curve.high[1] - curve.y[1] == pytest.approx(1.959964)
    (table,) = of(Table, items)
    assert table.columns == ["a (best)"]
    assert texts(table) == {"0": ["0.5000"], "2": ["2.0000"]}
    assert table.rows[1][1][0].note == "± 1.9600; 70.0\u00a0% correct"


def test_ways_of_measuring_distance_have_charts_of_their_own():
    other = replace(FLATNESS, key=key("flatness", {"by_filter": True, "draws": 2}, 40))
    charts = of(Chart, Flatness.present(Answers((FLATNESS, other), ("a",))))
    assert [chart.x_title for chart in charts] == [
        "distance in all parameters together", "distance, as a share of each filter",
    ]  # fmt: skip


def store(path, answer):
    Store(path).write(answer.key, answer.records)
    if len(answer.rows):
        columns = answer.rows.drop("run", "weights", "weights_hash", "seed").to_dict(as_series=False)
        Store(path).append(answer.key, 0, "a", columns)


def test_the_page_has_a_section_for_each_question_with_an_answer(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    assert "Boundary thickness" not in write_report([path], tmp_path / "none.html").read_text()
    for answer in (THICKNESS, FLATNESS):
        store(path, answer)
    page = read(write_report([path], tmp_path / "both.html"))
    assert "Boundary thickness" in page.tables
    text = (tmp_path / "both.html").read_text()
    assert text.index('id="thickness"') < text.index('id="flatness"')
    assert "Measured on 40 images." in text
    assert "Measured on 3 images." in text


def test_an_answer_without_rows_has_no_section(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    store(path, replace(THICKNESS, rows=pl.DataFrame(schema=COMMON)))
    assert 'id="thickness"' not in write_report([path], tmp_path / "page.html").read_text()


def test_answers_of_an_earlier_version_are_named_until_the_question_is_asked_again(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    (path / "analyses").mkdir()
    (path / "analyses" / "flatness-best-0123456789ab.json").write_text("{}")
    text = write_report([path], tmp_path / "old.html").read_text()
    assert "a: the answer of an earlier version is no longer read; ask again with holdfast analyse flatness." in text
    assert 'id="thickness"' not in text
    store(path, FLATNESS)
    text = write_report([path], tmp_path / "new.html").read_text()
    assert "earlier version" not in text
    assert 'id="flatness"' in text
