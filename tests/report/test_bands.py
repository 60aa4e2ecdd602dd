"""Noise in bands of frequencies on the page: the numbers are those of the paired query."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.report import read_runs, write_report
from holdfast.report.bands import NoiseInBands
from holdfast.results.band_drops import band_drops
from holdfast.show.chart import Chart
from holdfast.show.items import Note
from holdfast.show.plain import to_plain
from holdfast.show.table import Table
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read

CLEAN = FakeCheck("clean", correct=[True, True, True, False])


def noisy(band: int, correct: list[bool], *, draw: int = 0, variance: float = 0.01) -> FakeCheck:
    params = {"band": band, "bands": 2, "variance": variance, "rule": "rank", "clip": False, "draw": draw}
    return FakeCheck(f"band_noise band={band} variance={variance} draw={draw}", "band_noise", params, correct)


RUN = [
    CLEAN,
    noisy(0, [False, False, True, False]),
    noisy(0, [True, False, True, True], draw=1),
    noisy(1, [True, True, True, False]),
    noisy(1, [True, True, True, False], draw=1),
]


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    other = [CLEAN, noisy(0, [True] * 4), noisy(1, [False] * 4), noisy(1, [True] * 4, variance=0.5)]
    return [
        make_run(tmp_path / "a", RUN, name="a", weights=("best", "last")),
        make_run(tmp_path / "b", other, name="b"),
        make_run(tmp_path / "c", [CLEAN], name="c"),
    ]


def test_drops_of_several_runs_stand_together_for_each_noise(paths: list[Path]) -> None:
    runs = read_runs(paths)
    guide, *items = NoiseInBands().present(runs)
    assert isinstance(guide, Note)
    first, second = (item for item in items if isinstance(item, Chart))
    assert [(curve.run, curve.y) for curve in first.curves] == [(0, (0.25, 0)), (1, (-0.25, 0.75))]
    assert [(curve.run, curve.y) for curve in second.curves] == [(1, (-0.25,))]
    drops, basis, *_ = (item for item in items if isinstance(item, Table))
    assert list(drops.columns) == ["a", "b"]
    assert [[cell.value for cell in cells] for _, cells in drops.rows] == [[0.25, -0.25], [0, 0.75]]
    expected = band_drops(runs[0].main_rows).row(0, named=True)
    assert drops.rows[0][1][0].note == f"[{100 * expected['low']:.1f},\u00a0{100 * expected['high']:.1f}]"
    assert [[cell.value for cell in cells] for _, cells in basis.rows] == [[0.75, 4, 2], [0.75, 4, 1]]


def test_noise_of_other_sizes_comes_from_the_weakest_on(tmp_path: Path) -> None:
    variances = [0.5, 0.01, 0.3, 0.2, 0.04, 0.1]
    checks = [CLEAN, *(noisy(0, [True] * 4, variance=variance) for variance in variances)]
    items = NoiseInBands().present(read_runs([make_run(tmp_path / "a", checks)]))
    ends = [float(item.title.rpartition(" ")[2]) for item in items if isinstance(item, Chart)]
    assert ends == sorted(variances)


def test_runs_without_such_noise_say_nothing(paths: list[Path]) -> None:
    assert list(NoiseInBands().present(read_runs(paths[2:]))) == []


def test_the_page_and_machines_have_the_same(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")
    page = read(write_report(paths, paths[0].parent / "report.html"))
    caption = "Accuracy that noise in each band takes, in percentage points; 2 bands, variance 0.01"
    assert page.table(caption)["0"] == ["25.0 [-38.3, 88.3]", "-25.0 [-74.0, 24.0]"]
    plain = [item for item in to_plain(NoiseInBands().present(read_runs(paths))) if item.get("caption") == caption]
    assert plain[0]["rows"][0] == {"name": "0", "cells": [0.25, -0.25]}
