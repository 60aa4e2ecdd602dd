"""Curvature and stability on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.analysis.measures import Measures
from holdfast.analysis.store import Answer, write_answer
from holdfast.report import read_runs, write_report
from holdfast.report.curvature import Curvatures
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

BENT = Answer(
    "curvature", "best", "abc",
    {"seed": 0, "draws": 20, "step": 0.01, "normalised": False, "lanczos": 10, "noise": "gaussian", "strength": 0.06,
     "copies": 10}, {},
)  # fmt: skip
CURVATURES = {
    "example": list(range(10)), "label": [0, 1] * 5, "loss": [0.5] * 10, "gradient_norm": [2.0] * 10,
    "curvature": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1000.0], "curvature_error": [0.5] * 9 + [0.1],
    "trace": [1.0] * 10, "trace_error": [0.1] * 10, "eigenvalue": [-3.0] * 10, "residual": [0.3] * 10,
    "right": [10] * 5 + [9] * 4 + [0],
}  # fmt: skip
STABLE = Answer(
    "stability", "best", "abc", {"seed": 0, "sigma": 0.1, "deltas": [0.5, 2.0], "copies": 10, "draws": 20, "step": 0.1},
    {"longest_row": 2.0},
)  # fmt: skip
MOVED = {
    "example": [0, 1], "label": [0, 1], "loss": [0.5, 0.5], "gradient_norm": [1.0, 1.0], "curvature": [4.0, 8.0],
    "curvature_error": [1.0, 1.0], "trace": [2.0, 2.0], "trace_error": [0.0, 0.0], "change": [0.02, 0.02],
    "change_error": [0.0, 0.0], "largest_logit": [3.0, 5.0], "inside": [[0, 10], [5, 10]],
    "loss_outside": [[0.5, float("nan")], [0.9, float("nan")]],
}  # fmt: skip


def ask(path: Path, answer: Answer, columns: dict[str, list[object]]) -> None:
    write_answer(path, answer)
    Measures(path, answer).append(0, "a", columns)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    ask(path, BENT, CURVATURES)
    ask(path, STABLE, MOVED)
    return path


def section(*paths: Path) -> Curvatures:
    runs = read_runs(paths)
    return Curvatures.of(runs, [run.label for run in runs])


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def test_the_summary_has_median_mean_error_gradient_eigenvalue_and_accuracy(asked: Path) -> None:
    ((name, cells),) = section(asked).summary.rows
    assert name == "a (best)"
    assert [cell.text for cell in cells] == [
        "5.5", "104.5", "9.2\u00a0%", "2", "-3", "86.0\u00a0%", "10", "20 differences at 0.01, pixels",
    ]  # fmt: skip
    assert cells[4].note == "residual 10.0\u00a0%"


def test_boxes_are_of_the_lowest_ninety_percent(asked: Path) -> None:
    found = section(asked)
    (trace,) = found.drawn[0].spec["data"]
    assert (trace["q1"], trace["median"], trace["q3"]) == ([3.0], [5.0], [7.0])
    assert found.drawn[0].spec["layout"]["yaxis"]["type"] == "log"
    assert texts(found.numbers[0]) == {"a (best)": ["1.4", "3", "5", "7", "8.6", "9"]}


def test_lowest_curvature_and_groups_are_drawn_and_told(asked: Path) -> None:
    found = section(asked)
    kept, groups = (figure.spec["data"][0] for figure in found.drawn[1:])
    assert kept["y"][:5] == (1.0,) * 5
    assert kept["y"][-1] == pytest.approx(0.86)
    assert (groups["x"], groups["y"]) == ((0.0, 9.0, 10.0), (1000.0, 7.5, 3.0))
    table = found.numbers[2]
    assert table.columns == ["0 right", "9 right", "10 right", "Correlation, groups", "Correlation, images"]
    assert texts(table)["a (best)"] == ["1000", "7.5", "3", "-1.00", "-0.99"]
    assert table.rows[0][1][2].note == "± 1.386, 5"
    assert table.rows[0][1][4].note == "[-1.00, -0.95]"


def test_no_curvature_is_drawn_at_the_bottom_of_a_logarithmic_axis(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    ask(path, BENT, {**CURVATURES, "curvature": [0.0] * 10, "eigenvalue": [0.0] * 10})
    found = section(path)
    (trace,) = found.drawn[0].spec["data"]
    assert trace["lowerfence"] == trace["q3"] == [1e-12]
    assert found.drawn[2].spec["data"] == [] or found.drawn[2].spec["data"][0]["y"] == ()
    assert texts(found.summary)["a (best)"][2] == ""
    assert texts(found.numbers[2])["a (best)"][-1] == "unknown"
    write_report([path], tmp_path / "page.html")


def test_stability_has_curves_a_table_and_what_the_bounds_rest_on(asked: Path) -> None:
    found = section(asked)
    features, losses = (figure.spec["data"][0] for figure in found.stable)
    assert (features["x"], features["y"]) == ((0.5, 2.0), (0.25, 1.0))
    assert (losses["x"], losses["y"]) == ((0.5,), (pytest.approx(0.2),))
    rows = texts(found.stability)
    assert rows["a (best), δ = 0.5"][:4] == ["25.0\u00a0%", "0.2", "2", "100.0\u00a0%"]
    assert rows["a (best), δ = 2"][1:3] == ["", "0"]
    # 0.01 + 0.0001 / 4 * (2 * 4 + 4) and (2 * 8 + 4): 0.0103 and 0.0105
    assert texts(found.bounds) == {"a (best)": ["0.1", "10", "2", "5", "2", "1.923"]}


def test_the_theorem_is_told_in_words(asked: Path) -> None:
    (sentence,) = section(asked).verdicts
    assert "below the upper bound for 100.0\u00a0% of the images" in sentence
    assert "for 50.0\u00a0% to 100.0\u00a0% it is negative and says nothing" in sentence
    assert "is not what the theorem takes it for, a quadratic" in sentence


def test_a_lower_bound_that_says_nothing_is_said_plainly(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    ask(path, STABLE, {**MOVED, "gradient_norm": [100.0, 100.0], "change": [1.0, 1.0]})
    found = section(path)
    assert (
        "The lower bound is negative for every image at every distance, so that it says nothing." in found.verdicts[0]
    )
    assert "1 times that of its quadratic part" in found.verdicts[0]
    assert found.summary is None
    assert found.drawn == []


def test_ways_of_asking_are_kept_apart(asked: Path) -> None:
    other = replace(BENT, settings={**BENT.settings, "normalised": True, "step": None, "lanczos": 0})
    ask(asked, other, {name: values for name, values in CURVATURES.items() if name not in ("eigenvalue", "residual")})
    found = section(asked)
    assert len(found.drawn) == 6
    names = [name for name, _ in found.summary.rows]
    assert len(set(names)) == 2
    assert any("20 exact products, normalised inputs" in name for name in names)
    assert "not asked" in {cells[4].text for _, cells in found.summary.rows}
    assert {trace["name"] for number in (0, 3) for trace in found.drawn[number].spec["data"]} == {"a (best)"}


def test_the_page_shows_runs_beside_each_other_and_nothing_where_nobody_asked(asked: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "b", [FakeCheck("clean", correct=[True, False])], name="b")
    text = write_report([other], tmp_path / "other.html").read_text()
    assert "Curvature and stability" not in text
    ask(other, BENT, CURVATURES)
    page = read(write_report([asked, other], tmp_path / "both.html"))
    assert "Curvature of the loss at the images" in page.tables
    assert "Stability, and the bounds of theorem 6.1, at each distance" in page.tables
    assert len(section(asked, other).drawn[0].spec["data"]) == 2


def test_a_question_that_was_cut_short_before_its_first_block_is_not_shown(tmp_path: Path) -> None:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    write_answer(path, BENT)
    write_answer(path, STABLE)
    assert read_runs([path])[0].measures == ()
    assert not section(path).there
