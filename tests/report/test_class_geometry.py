from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.analysis.class_verdicts import verdicts
from holdfast.analysis.store import Answer, write_answer
from holdfast.report import write_report
from holdfast.report.class_geometry import ClassGeometry
from holdfast.report.runs import read_runs
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

NOTHING = [{"name": name, "premise": False, "conclusion": False} for name in ("5.1", "5.2.1", "5.2.2")]
EVERYTHING = [{"name": name, "premise": True, "conclusion": True} for name in ("5.1", "5.2.1", "5.2.2")]
SETTINGS = {"delta_v": 0.5, "delta_d": 5.0, "seed": 0, "examples": 8, "fingerprint": "f"}
RESULT = {
    "names": ["cat", "dog"], "classes": [0, 1], "count": [3, 5], "dispersion": [4.0, 12.0], "margin": [-1.5, 2.0],
    "mean_margin": [1.0, 5.0], "radius": [2.0, 7.0], "within": [3, 1], "centroid_margin": [1.0, 2.5],
    "centroid_norm": [3.0, 4.0], "centroid_distance": [[0.0, 6.5], [6.5, 0.0]], "nearest_other": [0.5, 0.5],
    "largest_norm": 10.0, "propositions": NOTHING,
    "measured": {"delta_v": 7.0, "delta_d": 1.0, "propositions": [EVERYTHING[0], *NOTHING[1:]]},
    "mapping": [40.0, 31.0], "mapping_least": 1.5, "tau": 0.2, "tau_low": 0.01, "apart": True, "divergence": 0.0,
    "divergence_low": 0.0,
}  # fmt: skip
ANSWER = Answer("classes", "best", "ab12", SETTINGS, RESULT)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    write_answer(path, ANSWER)
    return path


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def test_tables_say_what_was_measured(asked: Path) -> None:
    section = ClassGeometry.of(read_runs([asked]), ["a"])
    assert texts(section.overview) == {
        "a (best)": ["12", "−1.5", "3.5", "0.438", "50.0\u00a0%", "6.5", "0.5", "5", "8"]
    }
    wide, mean, least = section.by_class
    assert texts(wide) == {"a (best)": ["4.0", "12.0"]}
    assert wide.columns == ["cat", "dog"]
    assert texts(mean) == {"a (best)": ["1.00", "5.00"]}
    assert texts(least) == {"a (best)": ["−1.50", "2.00"]}
    assert texts(section.centroids) == {"cat": ["", "6.50"], "dog": ["6.50", ""]}


def test_several_networks_share_tables_and_the_pairs_are_left_out(asked: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "b", [FakeCheck("clean", correct=[True, False])], name="b")
    one_class = {**RESULT, "classes": [1], "dispersion": [3.0], "margin": [None], "mean_margin": [None], "count": [5]}
    write_answer(other, replace(ANSWER, result={**one_class, "centroid_distance": [[0.0]], "within": [1]}))
    section = ClassGeometry.of(read_runs([asked, other]), ["a", "b"])
    assert texts(section.by_class[0]) == {"a (best)": ["4.0", "12.0"], "b (best)": ["", "3.0"]}
    assert texts(section.by_class[1])["b (best)"] == ["", "none"]
    assert texts(section.overview)["b (best)"][1:4] == ["none", "none", "none"]
    assert section.centroids is None


def test_the_page_has_the_section_only_where_somebody_asked(asked: Path, tmp_path: Path) -> None:
    page = read(write_report([asked], tmp_path / "asked.html"))
    assert "Classes in feature space" in page.tables
    other = make_run(tmp_path / "b", [FakeCheck("clean", correct=[True, False])], name="b")
    assert "Classes in feature space" not in write_report([other], tmp_path / "other.html").read_text()


def said(**changed):
    return "\n".join(verdicts(SETTINGS, {**RESULT, **changed}))


def test_verdicts_in_words():
    text = said()
    assert "delta_v 0.5 and delta_d 5, no proposition applies: an example is 7 from its centroid" in text
    assert "measured distances, delta_v 7 and delta_d 1, proposition 5.1 applies and holds" in text
    assert "Theorem 6.2 is vacuous: its bound for a ball of radius 2 delta_v = 1 is 31 in the best class" in text
    assert "above 1.5 for any radius and any number of images" in text
    assert "Theorem 6.3 says nothing: in the worst class 20.0 %" in text


def test_verdicts_of_better_features():
    text = said(
        propositions=EVERYTHING, mapping=[0.4], mapping_least=0.1, tau=0.9, tau_low=0.8, divergence=0.32,
        divergence_low=0.18,
    )  # fmt: skip
    assert text.count("applies and holds") == 4
    assert "bounds the share outside a ball of radius 2 delta_v = 1 by 0.4" in text
    assert (
        "at least 0.32 nats (Jensen-Shannon) in every layer; with 95 % confidence in that share (80.0 %) by 0.18"
        in text
    )


def test_a_contradiction_and_other_reasons_are_told():
    broken = [{"name": "5.1", "premise": True, "conclusion": False}]
    assert "FAILS, which contradicts its proof" in said(propositions=broken)
    assert "around two centroids meet" in said(apart=False, tau=0.9)
    near = said(radius=[0.1, 0.2])
    assert "no proposition applies: a centroid is too near to a hyperplane" in near
    assert "More images, or larger balls, could change that" in said(mapping_least=0.5)
    none = {"delta_v": 0.2, "delta_d": None, "propositions": NOTHING}
    assert "delta_d none, no proposition applies: there is no hyperplane" in said(measured=none, radius=[0.1, 0.2])
