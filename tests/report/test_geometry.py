"""Thickness and flatness on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.analysis.store import Answer, write_answer
from holdfast.report import read_runs, write_report
from holdfast.report.geometry import class_thickness_table, flatness_charts, flatness_tables, thickness_table
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

THICKNESS = Answer(
    "thickness", "best", "abc", {"alpha": 0.0, "beta": 0.75, "eps": 1.0},
    {"value": [0.1, 0.3, 0.5], "length": [1.0] * 3, "source": [2, 0, 0], "reached": [True, False, True]},
)  # fmt: skip
LEVELS = [
    {"radius": 0.0, "losses": [0.5], "errors": [0.1]},
    {"radius": 2.0, "losses": [1.0, 3.0], "errors": [0.2, 0.4]},
]
FLATNESS = Answer("flatness", "best", "abc", {"by_filter": False, "draws": 2, "examples": 40}, {"levels": LEVELS})


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    for answer in (THICKNESS, FLATNESS):
        write_answer(path, answer)
    return path


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def test_thickness_has_mean_interval_spread_and_how_many_arrive(asked: Path) -> None:
    runs = read_runs([asked])
    table = thickness_table(runs)
    ((name, cells),) = table.rows
    assert name == "a (best)"
    assert [cell.text for cell in cells] == ["0.3000", "0.2000", "66.7\u00a0%", "3", "(0, 0.75)", "1"]
    assert cells[0].note == "± 0.2263"  # 1.96 * 0.2 / root of 3


def test_classes_are_those_that_were_predicted(asked: Path) -> None:
    runs = read_runs([asked])
    table = class_thickness_table(runs)
    assert table.columns == [runs[0].class_name(0), runs[0].class_name(2)]
    assert texts(table) == {"a (best)": ["0.400", "0.100"]}
    assert [cell.heat for cell in table.rows[0][1]] == [1.0, 0.0]


def test_flatness_is_a_curve_of_means_with_intervals_and_a_table(asked: Path) -> None:
    runs = read_runs([asked])
    (chart,) = flatness_charts(runs)
    (curve,) = chart.curves
    assert (curve.x, curve.y) == ((0.0, 2.0), (0.5, 2.0))
    assert curve.high[1] - curve.y[1] == pytest.approx(1.959964)
    (table,) = flatness_tables(runs)
    assert table.columns == ["a (best)"]
    assert texts(table) == {"0": ["0.5000"], "2": ["2.0000"]}
    assert table.rows[1][1][0].note == "± 1.9600; 70.0\u00a0% right"


def test_ways_of_measuring_distance_have_charts_of_their_own(asked: Path) -> None:
    write_answer(asked, replace(FLATNESS, settings={**FLATNESS.settings, "by_filter": True}))
    assert [chart.x_title for chart in flatness_charts(read_runs([asked]))] == [
        "distance in all parameters together", "distance, as a share of each filter",
    ]  # fmt: skip


def test_the_page_has_the_section_only_where_somebody_asked(asked: Path, tmp_path: Path) -> None:
    page = read(write_report([asked], tmp_path / "asked.html"))
    assert "Boundary thickness" in page.tables
    other = make_run(tmp_path / "b", [FakeCheck("clean", correct=[True, False])], name="b")
    text = write_report([other], tmp_path / "other.html").read_text()
    assert "Boundary and flatness" not in text


def test_an_answer_that_was_cut_short_before_its_first_batch_is_not_shown(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    write_answer(path, replace(THICKNESS, result={"value": [], "length": [], "source": [], "reached": []}))
    assert thickness_table(read_runs([path])) is None
    assert class_thickness_table(read_runs([path])) is None
