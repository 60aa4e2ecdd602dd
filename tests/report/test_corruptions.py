"""Corruptions by kind and severity on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.report import read_runs, write_report
from holdfast.report.corruptions import Corruptions, corrupted_runs, error_maps, severity_charts, strips
from holdfast.report.summary import card
from holdfast.results.corruption_errors import STANDARD
from holdfast.show.table import Table
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read


def graded(kind: str, severity: int, right: int, *, method: str = "common") -> FakeCheck:
    params = {"kind": kind, "severity": severity}
    return FakeCheck(f"{method} kind={kind} severity={severity}", method, params, [i < right for i in range(10)])


def whole(path: Path, name: str, lost: int = 1, **options) -> Path:
    clean = FakeCheck("clean", correct=[True] * 9 + [False])
    checks = [clean, *(graded(kind, s, 9 - lost * s) for kind in STANDARD for s in (1, 2))]
    return make_run(path / name, checks, name=name, **options)


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def means(runs, **fields):
    (table,) = (
        item
        for item in Corruptions(**fields).present(runs)
        if isinstance(item, Table) and item.caption.startswith("Mean corruption error")
    )
    return table


def test_means_are_told_and_compared_with_the_first_run(tmp_path: Path) -> None:
    runs = read_runs([whole(tmp_path, "a"), whole(tmp_path, "b", lost=2)])
    table = means(runs)
    assert table.columns[1] == "Relative to a"
    # errors 0.2 and 0.3; 0.3 and 0.5
    assert texts(table) == {
        "a": ["25.0\u00a0%", "1.000", "15 x 2", "10"],
        "b": ["40.0\u00a0%", "1.600", "15 x 2", "10"],
    }


def test_every_kind_has_its_errors_and_their_mean(tmp_path: Path) -> None:
    runs = read_runs([whole(tmp_path, "a")])
    (table,) = error_maps(runs, corrupted_runs(runs))
    assert [name for name, _ in table.rows] == [kind.replace("_", " ") for kind in STANDARD]
    assert texts(table)["fog"] == ["20.0\u00a0%", "30.0\u00a0%", "25.0\u00a0%"]
    assert table.rows[0][1][1].heat == pytest.approx(0.3)


def test_accuracy_falls_from_the_clean_images_on(tmp_path: Path) -> None:
    runs = read_runs([whole(tmp_path, "a")])
    (chart,) = severity_charts(runs, corrupted_runs(runs))
    (curve,) = chart.curves
    assert curve.x == (0.0, 1.0, 2.0)
    assert curve.y == pytest.approx((0.9, 0.8, 0.7))


def test_they_do_not_count_among_the_other_checks(tmp_path: Path) -> None:
    (run,) = read_runs([whole(tmp_path, "a")])
    assert [check.name for check in run.main_checks] == ["clean"]
    assert set(run.graded["family"]) == {"common corruptions"}
    page = read(write_report([tmp_path / "a"], tmp_path / "page.html"))
    assert any("Mean corruption error" in caption for caption in page.tables)


def test_one_image_is_shown_in_all_its_corruptions(tmp_path: Path) -> None:
    path = whole(tmp_path, "a", gallery="common kind=fog severity=2")
    (run,) = read_runs([path])
    assert run.galleries == ()
    heading, strip = strips([run])
    assert [photo.caption for photo in strip.photos] == ["original", "fog"]
    assert "severity 2" in heading.text
    assert all(source.startswith("data:image/png") for photo in strip.photos for source, _ in photo.images)


def test_a_missing_kind_leaves_no_mean(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [FakeCheck("clean", correct=[True] * 10), graded("fog", 1, 5)], name="a")
    runs = read_runs([tmp_path / "a"])
    table = means(runs)
    assert texts(table)["a"][:2] == ["incomplete", "unknown"]


def test_corruptions_alone_are_shown_as_checks(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [graded("fog", 1, 5)], name="a")
    (run,) = read_runs([path])
    assert [check.name for check in run.main_checks] == ["common kind=fog severity=1"]
    write_report([path], tmp_path / "page.html")


def test_the_card_tells_of_corruptions_where_nothing_else_was_checked(tmp_path: Path) -> None:
    (run,) = read_runs([whole(tmp_path, "a")])
    shown = card(run)
    assert "nothing is known" not in " ".join(shown.details)
    assert any(line.startswith("Mean error under common corruptions: ") for line in shown.details)
    assert "survive every check" not in shown.lead
