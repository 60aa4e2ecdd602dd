"""Confidence on the page."""

from __future__ import annotations

from pathlib import Path

from holdfast.analysis.measures import Measures
from holdfast.analysis.store import Answer, write_answer
from holdfast.report import read_runs, write_report
from holdfast.report.confidences import ConfidenceTable
from tests.analysis.test_confidence_summary import ROWS
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

ASKED = Answer("confidences", "best", "abc", {"seed": 0, "norm": "linf", "radii": [0.1, 0.2]}, {})
CAPTION = "Mean probability of the likeliest and of the true class, and right answers"


def test_each_network_has_a_row_for_each_kind_of_points(tmp_path: Path) -> None:
    paths = [make_run(tmp_path / name, [FakeCheck("clean", correct=[True, False])], name=name) for name in "ab"]
    assert CAPTION not in read(write_report(paths, tmp_path / "none.html")).tables
    for path in paths:
        write_answer(path, ASKED)
        Measures(path, ASKED).append(
            0, path.name, {"example": [0, 1], "label": [0, 1], **ROWS.to_dict(as_series=False)}
        )
    runs = read_runs(paths)
    found = ConfidenceTable.of(runs, [run.label for run in runs])
    cells = dict(found.table.rows)
    assert [cell.text for cell in cells["a (best), clean images"]] == ["80.0\u00a0%", "55.0\u00a0%", "50.0\u00a0%"]
    assert cells["b (best), one step of PGD, ℓ∞ 0.2"][0].text == "40.0\u00a0%"
    assert cells["a (best), clean images"][0].note == "± 19.6"
    assert len(cells) == 10
    assert CAPTION in read(write_report(paths, tmp_path / "both.html")).tables
