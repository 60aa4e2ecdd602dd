"""Expansions on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.analysis.measures import Measures
from holdfast.analysis.store import Answer, write_answer
from holdfast.report import read_runs, write_report
from holdfast.report.segment import Segments
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

ASKED = Answer(
    "segment", "best", "abc",
    {"seed": 0, "attack": "pgd linf eps=0.1", "params": "{}", "points": 3, "around": 0.0, "tolerance": 0.1,
     "fingerprint": "f"}, {},
)  # fmt: skip
ROWS = {
    "example": [7, 3], "label": [0, 1], "loss": [[0.0, 1.0, 4.0], [1.0, 1.0, 1.0]], "start": [0.0, 1.0],
    "slope": [1.0, 0.0], "bend": [2.0, 0.0], "first_end": [-3.0, 0.0], "second_end": [-2.0, 0.0],
    "first_reach": [0.0, 1.0], "second_reach": [0.5, 1.0], "right": [True, False], "held": [False, False],
}  # fmt: skip


def ask(path: Path, answer: Answer = ASKED, rows: dict[str, list[object]] = ROWS) -> None:
    write_answer(path, answer)
    Measures(path, answer).append(0, "a", rows)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    ask(path)
    return path


def section(*paths: Path) -> Segments:
    runs = read_runs(paths)
    return Segments.of(runs, [run.label for run in runs])


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def test_loss_and_both_orders_are_drawn_with_ribbons_and_told(asked: Path) -> None:
    found = section(asked)
    mean, reach, *single = found.figures
    ribbons, curves = mean.spec["data"][:3], mean.spec["data"][3:]
    assert [curve["name"] for curve in curves] == ["loss", "first order", "second order"]
    assert [curve["y"] for curve in curves] == [(0.5, 1.0, 2.5), (0.5, 0.75, 1.0), (0.5, 0.875, 1.5)]
    half = 1.959964 * 1.5 / 2**0.5 * 2**0.5  # deviation of 4 and 1 over the root of 2
    assert ribbons[0]["y"][2:4] == [pytest.approx(2.5 + half), pytest.approx(2.5 - half)]
    assert [trace["y"] for trace in reach.spec["data"]] == [(1.0, 0.5, 0.5), (1.0, 1.0, 0.5)]
    assert [figure.title for figure in single] == [
        "Image 3, of small error", "Image 3, of middling error", "Image 7, of large error",
    ]  # fmt: skip
    assert single[2].spec["data"][2]["y"] == (0.0, 0.75, 2.0)


def test_words_say_where_each_order_fails(asked: Path) -> None:
    (words,) = section(asked).words
    assert words.startswith(
        "a (best), pgd linf eps=0.1, expanded at the image: the loss goes from 0.5 to 2.5 on average"
    )
    assert "within 0.1 of it up to 50.0\u00a0% of the way for half of the images, and to the end for 50.0" in words
    assert "the second up to 75.0" in words
    assert "first order has 1, which is far too little, and the second 1.5, which is far too little" in words
    ask(asked, rows={**ROWS, "bend": [6.5, 0.0]})
    assert "the second 2.625, which is about right" in section(asked).words[0]
    ask(asked, rows={**ROWS, "bend": [60.0, 0.0], "first_reach": [1.0, 1.0]})
    (words,) = section(asked).words
    assert "which is far too much" in words
    assert "within 0.1 of it all the way for half" in words


def test_tables_have_the_numbers_of_the_charts(asked: Path) -> None:
    found = section(asked)
    assert texts(found.foreseen) == {
        "a (best), all images": ["2", "2", "25.0\u00a0%", "50.0\u00a0%"],
        "a (best), sure by 99 % or more": ["1", "4", "25.0\u00a0%", "50.0\u00a0%"],
        "a (best), the others": ["1", "0", "", ""],
    }
    reach, single, curve = found.numbers
    assert texts(reach)["a (best), first order"] == ["25.0\u00a0%", "50.0\u00a0%", "75.0\u00a0%", "50.0\u00a0%", "-1.5"]
    assert texts(single)["a (best), image 7"] == ["0", "4", "1", "2"]
    assert texts(curve)["100.0\u00a0%"] == ["2.5", "1", "1.5", "1.5", "1", "50.0\u00a0%", "50.0\u00a0%"]
    assert "50.0\u00a0% right at the images, 0.0\u00a0% at the other ends" in curve.caption


def test_runs_stand_beside_each_other_and_share_their_images(asked: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "b", [FakeCheck("clean", correct=[True, False])], name="b")
    assert not section(other).there
    ask(other, rows={**ROWS, "second_end": [0.0, -2.0]})
    found = section(asked, other)
    assert [figure.title for figure in found.figures[:2]] == ["Mean loss of a (best)", "Mean loss of b (best)"]
    assert len(found.figures[2].spec["data"]) == 4
    assert len(found.figures[3].spec["data"]) == 6
    assert len(found.words) == 2
    page = read(write_report([asked, other], tmp_path / "both.html"))
    assert "Single images at both ends of their segments" in page.tables


def test_an_image_of_other_data_is_not_drawn_beside_it(asked: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "b", [FakeCheck("clean", correct=[True, False])], name="b")
    ask(other, replace(ASKED, settings={**ASKED.settings, "fingerprint": "g"}))
    assert len(section(asked, other).figures[3].spec["data"]) == 3


def test_ways_of_asking_are_kept_apart(asked: Path) -> None:
    ask(asked, replace(ASKED, settings={**ASKED.settings, "around": 0.5}))
    found = section(asked)
    assert len(found.figures) == 2 + 2 * 4
    assert any("expanded at 0.5, 3 points, tolerance 0.1: the loss goes" in words for words in found.words)
    assert all(words.count("expanded at") == 1 for words in found.words)
    assert len({figure.identifier for figure in found.figures}) == len(found.figures)


def test_one_image_has_no_interval(asked: Path) -> None:
    ask(asked, rows={name: values[:1] for name, values in ROWS.items()})
    found = section(asked)
    assert found.foreseen.rows[0][1][1].note == "± ?"
    assert found.figures[0].spec["data"][0]["y"][2:4] == [4.0, 4.0]
