"""Spectra of stored perturbations: closed forms, the order of frequencies, and what several runs show."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from holdfast.frequency import bands, dct, dct_matrix, radial_rank
from holdfast.report import read_runs, write_report
from holdfast.report import spectra as unit
from holdfast.report.spectra import CURVES, FEW, POSITIONS, Changed, PerturbationSpectra, picture, table_of
from holdfast.show.chart import Chart
from holdfast.show.items import Choice
from holdfast.show.pictures import Photos
from holdfast.show.table import Table
from tests.report.factory import FakeCheck, make_run, pgd
from tests.report.reading import read
from tests.zoo import images

SHAPE = (2, 6, 9)


def keep(run: Path, changes: Mapping[str, Any], weights: str = "best") -> Path:
    """Write galleries whose images change by this, on grey."""
    (run / "gallery").mkdir(exist_ok=True)
    for number, (check, change) in enumerate(changes.items()):
        x = np.full(change.shape, 0.5, dtype=np.float32)
        index = np.arange(len(x))
        np.savez(
            run / "gallery" / f"{weights}-{number}.npz", check=check, weights=weights, norm="l2", x=x,
            z=(x + change).astype(np.float32), example=index, label=0 * index, before=0 * index, after=0 * index,
            distance=0.1 * index,
        )  # fmt: skip
    return run


def changes(count: int = 5, shape: tuple[int, ...] = SHAPE, seed: int = 0) -> np.ndarray:
    """Changes that float32 holds exactly, beside grey too."""
    return np.round(images(count, shape, seed=seed).numpy() * 64 - 32) / 256


def spectra(*paths: Path) -> list[Any]:
    return list(PerturbationSpectra().present(read_runs(paths)))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "run", [FakeCheck("clean", correct=[True] * 2), pgd(0.1, [True] * 2)], name="a")


def test_the_magnitude_is_that_of_the_cosine_transform() -> None:
    change = changes()
    one = Changed(0, "a", "pgd", change, 5)
    expected = dct(torch.as_tensor(change)).abs().mean((0, 1))
    np.testing.assert_allclose(one.magnitude, expected.numpy(), atol=1e-14)


@pytest.mark.parametrize("size", [(8, 8), (6, 9), (1, 7), (32, 32)])
def test_the_order_of_frequencies_is_that_of_the_library(size: tuple[int, int]) -> None:
    rank = unit.radial_rank(*size)
    assert rank.tolist() == radial_rank(*size).tolist()
    if size != (1, 7):
        assert (rank * 3 // rank.size).tolist() == bands(*size, 3).tolist()


@pytest.mark.parametrize(("frequency", "third"), [((0, 0), 0), ((3, 4), 1), ((5, 8), 2)])
def test_a_change_of_one_frequency_has_its_energy_there(frequency: tuple[int, int], third: int) -> None:
    rows, columns = (dct_matrix(size, torch.zeros(0, dtype=torch.float64)).numpy() for size in SHAPE[1:])
    wave = np.outer(rows[frequency[0]], columns[frequency[1]])
    one = Changed(0, "a", "pgd", np.stack([np.stack([2 * wave, -wave])]), 1)
    expected = np.zeros(SHAPE[1:])
    expected[frequency] = 1.5
    np.testing.assert_allclose(one.magnitude, expected, atol=1e-12)
    assert one.energy == pytest.approx([float(number == third) for number in range(3)], abs=1e-12)
    (_, cells), *_ = table_of([one]).rows
    assert cells[1].value == pytest.approx(np.sqrt(5))


def test_one_run_has_all_checks_in_charts_of_a_few(run: Path) -> None:
    keep(run, {f"check {n}": changes(seed=n) for n in range(CURVES + 1)})
    items = spectra(run)
    charts = [item for item in items if isinstance(item, Chart)]
    assert [len(chart.curves) for chart in charts] == [CURVES, 1]
    assert [curve.kind for curve in charts[0].curves] == [f"check {n}" for n in range(CURVES)]
    magnitude = Changed(0, "", "", changes(), 5).magnitude
    assert charts[0].curves[0].x == tuple(map(float, range(9)))
    assert charts[0].curves[0].y == pytest.approx([magnitude[step * 6 // 9, step] for step in range(9)])
    (maps,) = (item for item in items if isinstance(item, Photos))
    assert [photo.caption for photo in maps.photos] == [f"check {n}" for n in range(CURVES + 1)]
    assert "mean over 5 images" in charts[0].title


def test_images_that_were_not_changed_are_left_out_and_named(run: Path) -> None:
    change = changes()
    change[:2] = 0
    keep(run, {"pgd": change, "none": 0 * change})
    (table,) = (item for item in spectra(run) if isinstance(item, Table))
    ((name, cells),) = table.rows
    assert (name, cells[0].text, cells[0].note) == ("pgd", "3", "of 5, others unchanged")
    assert [cell.value for cell in cells[2:]] == list(Changed(0, "a", "pgd", change[2:], 5).energy)


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_several_runs_stand_together_for_each_check(tmp_path: Path, count: int) -> None:
    checks = {f"check {n}": changes(seed=n) for n in range(count)}
    paths = [keep(make_run(tmp_path / n, [pgd(0.1, [True])], name=n), checks) for n in "ab"]
    _, *items = spectra(*paths)
    if count > FEW:
        choice, table = items
        assert isinstance(choice, Choice)
        assert [name for name, _ in choice.options] == list(checks)
        items = [*choice.options[0][1], table]
    chart, maps, *_, table = items
    assert [curve.run for curve in chart.curves] == [0, 1]
    assert [photo.caption for photo in maps.photos] == ["a", "b"]
    assert [name for name, _ in table.rows][:: len(checks)] == ["a: check 0", "b: check 0"]


def test_only_the_weights_that_matter_are_shown(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", [pgd(0.1, [True])], name="a", weights=("best", "last"))
    keep(path, {"pgd": changes()}, weights="last")
    assert spectra(path) == []
    keep(path, {"pgd": changes()})
    assert len(spectra(path)[-1].rows) == 1


def test_without_galleries_there_is_nothing(run: Path) -> None:
    assert spectra(run) == []


def test_sound_has_a_curve_of_means_and_no_map(run: Path) -> None:
    change = changes(shape=(1, 1, 1000))
    keep(run, {"pgd": change})
    items = spectra(run)
    (chart,) = (item for item in items if isinstance(item, Chart))
    magnitude = Changed(0, "", "", change, 5).magnitude[0]
    assert len(chart.curves[0].x) == POSITIONS
    assert chart.curves[0].y[0] == pytest.approx(magnitude[:4].mean())
    assert chart.curves[0].x[0] == 1.5
    assert not any(isinstance(item, Photos) for item in items)


def test_curves_end_at_a_millionth_of_the_largest(run: Path) -> None:
    keep(run, {"shift": np.full((2, *SHAPE), 0.25)})
    (chart,) = (item for item in spectra(run) if isinstance(item, Chart))
    largest, *others = chart.curves[0].y
    assert largest == pytest.approx(0.25 * np.sqrt(54))
    assert others == pytest.approx([1e-6 * largest] * 8)


def test_a_picture_is_white_for_the_largest_and_black_two_decades_below() -> None:
    uri = picture(np.array([[1.0, 0.1], [0.01, 0.0]]))
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))
    assert pixels[::48, ::48].tolist() == [[255, 128], [0, 0]]
    assert picture(np.array([[1.0, 0.1]]), decades=4) != picture(np.array([[1.0, 0.1]]))
    assert picture(np.zeros((2, 2)))  # of black


def test_the_page_shows_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")
    keep(run, {"pgd linf eps=0.1 steps=20": changes()})
    page = read(write_report([run], run / "report.html"))
    assert page.table("Energy of the perturbations")["pgd linf eps=0.1 steps=20"][0] == "5"
