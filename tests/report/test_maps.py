"""Heat maps of runs on a grid, and areas."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.report import read_runs, write_report
from holdfast.report.maps import areas, grid_maps, heat_map
from holdfast.show.numbers import percent, short
from holdfast.statistics import noise_area
from tests.report.factory import FakeCheck, make_run, noise, pgd, proved
from tests.report.reading import read

RECIPE = """name: grid/{name}
seed: {seed}
model: {{mlp: {{hidden: [8], width: 1.0}}}}
train: {{objective: {{{kind}: {{sigma: {sigma}, d: {d}}}}}, epochs: 3}}
checks: [clean]
"""


def run(tmp_path: Path, number: int, sigma: float, d: float, right: int, *, kind: str = "mscr", seed: int = 0) -> Path:
    checks = [FakeCheck("clean", correct=[i < right for i in range(4)]), proved([d] * 4)]
    recipe = RECIPE.format(name=number, seed=seed, kind=kind, sigma=sigma, d=d)
    return make_run(tmp_path / str(number), checks, name=f"grid/{number}", recipe=recipe)


def texts(table):
    return {name: [cell.text for cell in cells] for name, cells in table.rows}


def test_runs_that_differ_in_two_numbers_make_a_grid_of_every_quantity(tmp_path: Path) -> None:
    paths = [
        run(tmp_path, 0, 0.1, 0.5, 4),
        run(tmp_path, 1, 0.1, 1.0, 3),
        run(tmp_path, 2, 0.3, 0.5, 2),
        run(tmp_path, 3, 0.3, 0.5, 1, seed=1),
        run(tmp_path, 4, 0.3, 0.5, 4, kind="zhen"),
    ]
    clean, radius = grid_maps(read_runs(paths))
    assert clean.caption == "objective.mscr: clean accuracy by sigma and d, means over 2 seeds"
    assert clean.columns == ["0.5", "1"]
    assert texts(clean) == {"0.1": ["100.0\u00a0%", "75.0\u00a0%"], "0.3": ["37.5\u00a0%", ""]}
    assert radius.caption == "objective.mscr: average radius, margin norm=l2 by sigma and d, means over 2 seeds"
    assert texts(radius) == {"0.1": ["0.5", "1"], "0.3": ["0.5", ""]}


def test_a_grid_over_settings_of_different_methods_is_named_by_both(tmp_path: Path) -> None:
    paths = [run(tmp_path, number, sigma, 1.0, 4) for number, sigma in enumerate((0.1, 0.1, 0.3))]
    for path, epochs in zip(paths, (3, 4, 3), strict=True):
        file = path / "recipe.yaml"
        file.write_text(file.read_text().replace("epochs: 3", f"epochs: {epochs}"))
    clean, *_ = grid_maps(read_runs(paths))
    assert clean.caption == "Clean accuracy by sigma and epochs"


def test_runs_that_differ_in_one_number_or_three_make_none(tmp_path: Path) -> None:
    paths = [run(tmp_path, 0, 0.1, 0.5, 4), run(tmp_path, 1, 0.1, 1.0, 3)]
    assert grid_maps(read_runs(paths)) == []
    third = run(tmp_path, 2, 0.3, 0.5, 3)
    (third / "recipe.yaml").write_text((third / "recipe.yaml").read_text().replace("epochs: 3", "epochs: 4"))
    assert grid_maps(read_runs([*paths, third])) == []


def test_colours_run_from_the_lowest_to_the_highest() -> None:
    table = heat_map("c", "a", "b", {(1.0, 1.0): 0.2, (1.0, 2.0): 0.4, (2.0, 1.0): 0.3}, short)
    assert [[cell.heat for cell in cells] for _, cells in table.rows] == [[0.0, 1.0], [pytest.approx(0.5), None]]
    assert table.corner == "a \\ b"
    flat = heat_map("c", "a", "b", {(1.0, 1.0): 0.2}, percent)
    assert flat.rows[0][1][0].heat == 0.0


def test_one_number_for_each_curve(tmp_path: Path) -> None:
    clean = FakeCheck("clean", correct=[True] * 4)
    noises = [noise(0.1, [True] * 3 + [False]), noise(0.2, [True] + [False] * 3)]
    paths = [
        make_run(tmp_path / "a", [clean, proved([0.1, 0.2, 0.3, 0.4])], name="a"),
        make_run(tmp_path / "b", [clean, *noises, pgd(0.1, [True, False] * 2)], name="b"),
    ]
    table = areas(read_runs(paths))
    assert table is not None
    assert table.columns == ["average radius, margin norm=l2", "noise area"]
    assert texts(table)["a"] == ["0.25", "not run"]
    assert texts(table)["b"][1] == f"{noise_area([1.0, 0.75, 0.25], [0.0, 0.1, 0.2]):.4g}"
    assert areas(read_runs([make_run(tmp_path / "c", [clean], name="c")])) is None


def test_fading_images_have_a_chart_with_the_point_of_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")
    fading = [
        FakeCheck(f"linear ratio={ratio}", "linear", {"ratio": ratio, "std": 0.02}, [i < n for i in range(4)])
        for ratio, n in ((0.75, 3), (0.25, 1))
    ]
    path = make_run(tmp_path / "run", [FakeCheck("clean", correct=[True] * 4), *fading], name="net")
    spec = read(write_report([path], tmp_path / "report.html")).specs["robustness-0"]
    (trace,) = spec["data"]
    assert (trace["x"], trace["y"]) == ([0.0, 0.25, 0.75], [1.0, 0.75, 0.25])
    assert [shape["x0"] for shape in spec["layout"]["shapes"]] == [0.75, 0]
    assert [shape["y0"] for shape in spec["layout"]["shapes"]] == [0, 0.5]
