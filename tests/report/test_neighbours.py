"""Nearest neighbours on the page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.analysis.measures import Measures
from holdfast.analysis.mixing_plan import Plan
from holdfast.analysis.store import Answer, write_answer
from holdfast.report import read_runs, write_report
from holdfast.report.neighbours import NeighbourMixtures
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

PLAN = Plan(strengths=(0.0, 0.1, math.inf), eps=0.1)


def ask(path: Path, k: int, share: float, **changed: Any) -> None:
    """The neighbours keep a share of ten images under attack, the mixture two more, the network none."""
    settings = {"weights_of": "uniform", "images": 500, "attack": "pgd linf eps=0.1", "params": "{}", "seed": 0}
    said = Answer("neighbours", "best", "ab12", {**PLAN.settings(), **settings, "k": k, **changed}, {})
    right = np.ones((10, len(PLAN.tries), 3), dtype=bool)
    right[:, 1:, 0] = False
    right[round(10 * share) + 2 :, 1:, 1] = False
    right[round(10 * share) :, 1:, 2] = False
    write_answer(path, said)
    columns = {"example": list(range(10)), "label": [0, 1] * 5, "right": right.tolist()}
    Measures(path, said).append(0, "a", columns)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = make_run(tmp_path / "a", [FakeCheck("clean", correct=[True, False])], name="a")
    ask(path, 10, 0.5)
    ask(path, 1, 0.3)
    return path


def section(path: Path) -> NeighbourMixtures:
    runs = read_runs([path])
    return NeighbourMixtures.of(runs, ["a"])


def test_numbers_of_neighbours_stand_together_from_few_to_many(asked: Path) -> None:
    by_strength, by_count = section(asked).curves
    lines = {trace["name"]: trace["y"] for trace in by_strength.figure.spec["data"]}
    assert lines == {
        "k = 1, clean images": (1.0, 1.0, 1.0), "k = 1, worst of all attacks": (0.0, 0.5, 0.3),
        "k = 10, clean images": (1.0, 1.0, 1.0), "k = 10, worst of all attacks": (0.0, 0.7, 0.5),
    }  # fmt: skip
    assert "best with k = 10 at strength 0.1: 70.0\u00a0%, and 100.0\u00a0% of the clean images" in by_strength.words
    assert "the network alone has 0.0\u00a0%" in by_strength.words
    alone = {trace["name"]: trace["y"] for trace in by_count.figure.spec["data"]}
    assert alone["attack on the neighbours"] == (0.3, 0.5)
    assert by_count.figure.spec["layout"]["xaxis"]["ticktext"] == ["1", "10"]


def test_other_questions_are_kept_apart(asked: Path, tmp_path: Path) -> None:
    ask(asked, 1, 0.4, weights_of="distance")
    found = section(asked)
    assert len(found.curves) == 4
    assert len({one.identifier for one in found.figures}) == 4
    captions = [table.caption for table in found.numbers]
    assert any("distance neighbours among 500 images" in caption for caption in captions)
    page = read(write_report([asked], tmp_path / "page.html"))
    assert set(captions) <= set(page.tables)


def test_tables_have_a_row_for_each_mixture(asked: Path) -> None:
    (table,) = section(asked).numbers
    cells = {name: [cell.text for cell in cells] for name, cells in table.rows}
    assert cells["k = 10, strength ∞"] == ["100.0\u00a0%", "50.0\u00a0%", "50.0\u00a0%", "50.0\u00a0%"]
    assert len(cells) == 6
