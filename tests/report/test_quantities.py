"""Quantities of runs, and the best run within a band of clean accuracy."""

import json
from pathlib import Path

import polars as pl
import pytest

from holdfast.earlier import with_traits
from holdfast.errors import RecipeError
from holdfast.report import read_runs
from holdfast.report.maps import areas
from holdfast.report.quantities import Measured, measured, quantity, select
from holdfast.report.selection import Selection
from holdfast.report.summary import Summary
from holdfast.results import SCHEMA
from holdfast.show.table import Table
from holdfast.statistics import noise_area
from tests.report.factory import FakeCheck, make_run, pgd, proved


def rows(run, check, method, correct, *, params=None, radius=None, weights="last"):
    return [
        {
            "run": run, "weights": weights, "weights_hash": "0", "check": check, "method": method,
            "params": json.dumps(params or {}), "example": i, "label": 0, "prediction": 0 if right else 1,
            "correct": right, "loss": 0.0, "distance": 0.0, "norm": "l2",
            "radius": None if radius is None else radius[i], "queries": 1, "seconds": 0.0, "seed": 0, "by": None,
            "steps": None,
        }
        for i, right in enumerate(correct)
    ]  # fmt: skip


def ledger(*parts):
    return with_traits(pl.DataFrame([row for part in parts for row in part], schema=SCHEMA))


def noise(run, sigma, correct, **options):
    return rows(run, f"gaussian_noise sigma={sigma}", "gaussian_noise", correct, params={"sigma": sigma, **options})


def test_every_quantity_is_measured():
    frame = ledger(
        rows("a", "clean", "clean", [True, True, True, False]),
        noise("a", 0.2, [True, True, False, False]),
        rows("a", "pgd", "pgd", [True, True, False, False], params={"threat": {"linf": {"eps": 8 / 255}}}),
        rows("a", "gaussian_noise variance=0.16", "gaussian_noise", [True] + [False] * 3, params={"variance": 0.16}),
        rows("a", "margin", "margin", [True, True, True, False], radius=[1.0, 0.5, 0.3, 9.0]),
    )
    (found,) = measured(frame)
    assert (found.run, found.weights) == ("a", "last")
    assert found.values["clean accuracy"] == 0.75
    assert found.values["worst case, linf eps=8/255"] == 0.5  # noise is no part of it
    assert found.checks == {"worst case, linf eps=8/255": ("clean", "pgd")}
    assert found.values["average radius, margin"] == pytest.approx(1.8 / 4)
    assert found.values["noise area"] == pytest.approx(noise_area([0.75, 0.5, 0.25], [0.0, 0.2, 0.4]))


def test_unclipped_noise_is_a_quantity_of_its_own_and_one_strength_is_no_curve():
    frame = ledger(
        rows("a", "clean", "clean", [True, True]),
        noise("a", 0.1, [True, False]),
        noise("a", 0.2, [True, False], clip=False),
        noise("a", 0.3, [False, False], clip=False),
    )
    (found,) = measured(frame)
    assert "noise area" not in found.values
    assert found.values["noise area, unclipped"] == pytest.approx(noise_area([1.0, 0.5, 0.0], [0.0, 0.2, 0.3]))


def test_a_worst_case_of_which_only_an_upper_bound_is_known_is_no_quantity():
    step = {"step": "fab", "broke": None, "queries": None, "seconds": None}
    waiting = rows("a", "autoattack", "autoattack", [True], params={"threat": {"linf": {"eps": 0.1}}})
    frame = ledger(rows("a", "clean", "clean", [True]), [{**row, "steps": [step]} for row in waiting])
    assert measured(frame)[0].values == {"clean accuracy": 1.0}


RUNS = [
    Measured("a", "last", {"clean accuracy": 0.985, "average radius, margin": 0.5, "average radius, smoothing": 0.2}),
    Measured("b", "last", {"clean accuracy": 0.982, "average radius, margin": 0.7, "average radius, smoothing": 0.1}),
    Measured("c", "last", {"clean accuracy": 0.95, "average radius, margin": 0.9}),
    Measured("d", "last", {"clean accuracy": 0.985}),
]


def test_the_best_within_the_band_comes_first():
    found = select(RUNS, by="margin", accuracy=0.985, within=0.003)
    assert [run.run for run in found] == ["b", "a"]
    assert [run.run for run in select(RUNS, by="smoothing", accuracy=0.985, within=0.003)] == ["a", "b"]
    assert select(RUNS, by="margin", accuracy=0.9, within=0.01) == ()


def test_quantities_are_found_by_a_part_of_their_name():
    assert quantity(RUNS, "clean") == "clean accuracy"
    both = [Measured("a", "last", {"average radius, margin": 0.5, "average radius, smoothed_margin sigma=0.1": 0.2})]
    assert quantity(both, "margin") == "average radius, margin"
    with pytest.raises(RecipeError, match="'radius' matches several quantities: average radius, margin; average"):
        quantity(RUNS, "radius")
    with pytest.raises(RecipeError, match="unknown name 'noises'"):
        quantity(RUNS, "noises")
    with pytest.raises(RecipeError, match="expected an accuracy in"):
        select(RUNS, by="margin", accuracy=98.5, within=0.3)


def test_a_network_at_chance_level_comes_last_however_well_it_does():
    def run(name, clean, attacked):
        both = (
            rows(name, "clean", "clean", clean),
            rows(name, "pgd", "pgd", attacked, params={"threat": {"linf": {"eps": 0.1}}}),
        )
        return [{**row, "label": row["example"] % 2, "prediction": (row["example"] + 1 - row["correct"]) % 2}
                for part in both for row in part]  # fmt: skip

    same = [True, False] * 30
    found = measured(ledger(run("dead", same, same), run("alive", [True] * 55 + [False] * 5, [False] * 60)))
    assert {one.run: one.at_chance for one in found} == {"dead": True, "alive": False}
    assert {one.run: one.values["worst case, linf eps=0.1"] for one in found} == {"dead": 0.5, "alive": 0.0}
    chosen = select(found, by="worst case", accuracy=0.5, within=0.5)
    assert [one.run for one in chosen] == ["alive", "dead"]


def test_quantities_are_written_the_same_way_wherever_they_are_shown(tmp_path: Path) -> None:
    checks = [FakeCheck("clean", correct=[True] * 4), pgd(0.1, [True] * 3 + [False]), proved([0.03811, 0.0, 0.0, 0.0])]
    runs = read_runs([make_run(tmp_path / "a", checks)])
    for by, text in (("worst case, linf eps=0.1", "75.0\u00a0%"), ("average radius", "0.009527")):
        table, *_ = Selection(by=by, accuracy=1.0).present(runs)
        assert isinstance(table, Table)
        assert table.rows[0][1][-1].text == text
    everywhere = areas(runs)
    assert everywhere is not None
    assert everywhere.rows[0][1][0].text == "0.009527"
    assert "average radius 0.009527" in str(list(Summary().present(runs)))
