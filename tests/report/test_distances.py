from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.attacks import ATTACKS
from holdfast.earlier import traits_of_name
from holdfast.report import read_runs, write_report
from holdfast.report.distances import STEPS, distances_of
from holdfast.results.recorded_checks import Budget, Check
from tests.report.factory import FakeCheck, composed, make_run, nearest, pgd
from tests.report.reading import Read, read

T, F = True, False
CLEAN = FakeCheck("clean", correct=[T] * 7 + [F])
# Of eight examples one is wrong before, five break at 0.1, 0.1, 0.15, 0.2 and 0.4, two stand up to 0.4.
FMN = nearest("fmn", 0.4, [0.1, 0.2, 0.1, 0.15, 0.4, None, None, 0.0])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


def report(tmp_path: Path, *runs: Path) -> Read:
    return read(write_report(runs, tmp_path / "report.html"))


def traces(page: Read, number: int = 0) -> dict[str, Any]:
    return {trace["name"]: trace for trace in page.specs[f"distances-{number}"]["data"]}


def test_attacks_that_search_for_the_nearest_point_state_that_they_minimise_a_distance() -> None:
    searching = {name for name, kind in ATTACKS.items() if hasattr(sys.modules[kind.__module__], "within_eps")}
    assert {name for name in ATTACKS if hasattr(ATTACKS[name], "minimises")} == searching


@pytest.mark.parametrize(
    ("method", "params", "found"),
    [
        ("fab", {"threat": {"l2": {"eps": 2.0}}, "targets": 9, "until_lost": False}, Budget("l2", 2.0)),
        ("fab", {"threat": {"l2": {"eps": 2.0}}, "until_lost": True}, None),
        ("pgd", {"threat": {"l2": {"eps": 2.0}}}, None),
        ("targeted", {"attack": {"cw": {"threat": {"l2": {"eps": 1.0}}}}, "at": "next"}, Budget("l2", 1.0)),
        ("eight_bit", {"attack": {"eot": {"attack": {"ddn": {"threat": {"l2": {"eps": 1.0}}}}}}}, Budget("l2", 1.0)),
        ("eight_bit", {"attack": {"pgd": {"threat": {"l2": {"eps": 1.0}}}}}, None),
        ("eight_bit", {"attack": "fab"}, None),
        ("fab", {}, None),
    ],
)
def test_minimum_norm_attacks_are_known_by_name_also_inside_others(
    method: str, params: dict[str, Any], found: Budget | None
) -> None:
    assert Check("c", method, params, traits_of_name(method, params, certificate=False)).nearest == found


def test_the_curve_steps_down_where_examples_break(tmp_path: Path) -> None:
    curve = traces(report(tmp_path, make_run(tmp_path / "run", [CLEAN, FMN])))["fmn"]
    assert curve["x"] == [0, 0.1, 0.15, 0.2, 0.4]
    assert curve["y"] == [7 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8]
    assert (curve["line"]["shape"], curve["mode"]) == ("hv", "lines")


def test_at_its_eps_the_curve_is_the_accuracy_whatever_rounding_says(tmp_path: Path) -> None:
    check = nearest("fmn", 0.1, [0.1 + 1e-9, 0.1, None, float("nan")])
    curve = traces(report(tmp_path, make_run(tmp_path / "run", [check])))["fmn"]
    assert (curve["x"], curve["y"]) == ([0, 0.1], [0.75, 0.25])  # a distance that is none counts as 0


def test_wrong_before_is_broken_at_0_whatever_a_targeted_attack_did_to_it(tmp_path: Path) -> None:
    inner = {"attack": {"fmn": {"threat": {"linf": {"eps": 0.3}}}}, "at": "next"}
    moved = FakeCheck("targeted", "targeted", inner, [F, F, T], distance=[0.2, 0.1, 0.0])
    run = make_run(tmp_path / "run", [FakeCheck("clean", correct=[F, T, T]), moved])
    (found,) = distances_of(read_runs([run]))
    assert found.broken.tolist() == [0, 0.1]
    assert (found.right(0.0), found.right(0.09), found.right(0.1)) == (2, 2, 1)


def test_attacks_at_one_budget_are_points_beside_the_curve(tmp_path: Path) -> None:
    uniform = FakeCheck("uniform", "uniform_noise", {"eps": 0.1}, [T] * 8)
    fixed = [pgd(0.1, [T] * 4 + [F] * 4), pgd(0.2, [T] * 2 + [F] * 6), pgd(0.5, [F] * 8, norm="l2")]
    checks = [CLEAN, FMN, *fixed, uniform, composed("ssswaaac", eps=0.15)]
    page = report(tmp_path, make_run(tmp_path / "run", checks))
    found = traces(page)
    assert list(found) == ["fmn", "autoattack", "pgd"]
    assert (found["pgd"]["x"], found["pgd"]["y"], found["pgd"]["mode"]) == ([0.1, 0.2], [0.5, 0.25], "markers")
    # Wilson's interval of 4 of 8 is 0.2152 to 0.7848.
    assert found["pgd"]["error_y"]["array"][0] == pytest.approx(0.2848, abs=1e-4)
    assert found["autoattack"]["marker"]["symbol"] == ["circle-open"]
    assert "A hollow point is an upper bound" in page.words
    # The nearest success says more than one accuracy, so it has no line in the other charts.
    assert [trace["name"] for trace in page.specs["robustness-0"]["data"]] == ["autoattack", "pgd", "uniform noise"]


def test_quartiles_are_of_the_examples_right_before(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN, FMN]))
    # Seven: 0.1, 0.1, 0.15, 0.2, 0.4, beyond, beyond. The second, fourth and sixth are the quartiles.
    row = ["8", "1", "0.1", "0.2", "beyond 0.4", "2 (28.6 %)"]
    assert page.table("Smallest distances to an error")["digits/noisy/seed-0: fmn linf eps=0.4"] == row
    histogram = traces(page, 1)["fmn"]
    assert sum(histogram["y"]) == pytest.approx(5 / 7)
    assert histogram["y"][5] == pytest.approx(2 / 7)  # twenty bins of 0.02
    assert histogram["x"][-1] == 0.4


def test_the_curve_has_a_table(tmp_path: Path) -> None:
    less = nearest("deepfool", 0.2, [0.05] * 4 + [None] * 4)
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN, FMN, less]))
    table = page.table("Robust accuracy against the largest change ε in ℓ∞")
    assert table["Attack"] == ["ε = 0", "ε = 0.08", "ε = 0.16", "ε = 0.24", "ε = 0.32", "ε = 0.4"]
    fmn, deepfool = table["digits/noisy/seed-0: fmn linf eps=0.4"], table["digits/noisy/seed-0: deepfool linf eps=0.2"]
    assert [cell.split(" %")[0] for cell in fmn] == ["87.5", "87.5", "50.0", "37.5", "37.5", "25.0"]
    assert fmn[2] == "50.0 % [21.5, 78.5]"
    assert deepfool[3:] == ["beyond its ε"] * 3
    assert all(f"distances-{n}" in page.specs for n in (0, 1))
    charts = [a["href"] for tag, a in page.elements if tag == "a" and (a["href"] or "").startswith("#distances-")]
    assert charts == ["#distances-table-2"] * 2


def test_other_weights_and_norms_have_charts_of_their_own(tmp_path: Path) -> None:
    checks = [CLEAN, FMN, nearest("ddn", 1.0, [0.5] * 8, norm="l2")]
    page = report(tmp_path, make_run(tmp_path / "run", checks, weights=("best", "last")))
    titles = [a["aria-label"].split(": ")[1].split(". The")[0] for _, a in page.elements if a.get("class") == "plot"]
    assert [title for title in titles if title.startswith("Robust")] == [
        "Robust accuracy in ℓ∞",
        "Robust accuracy in ℓ∞, last weights",
        "Robust accuracy in ℓ2",
        "Robust accuracy in ℓ2, last weights",
    ]
    assert len(page.table("Smallest distances to an error")) == 5


def test_two_budgets_of_one_attack_are_told_apart(tmp_path: Path) -> None:
    checks = [nearest("fmn", 0.1, [0.1, None]), nearest("fmn", 0.2, [0.1, 0.2])]
    found = traces(report(tmp_path, make_run(tmp_path / "run", checks)))
    assert list(found) == ["fmn linf eps=0.1", "fmn linf eps=0.2"]


def test_runs_share_a_chart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, [FMN, pgd(0.1, [T] * 8)], name=name) for name in "ab"]
    page = report(tmp_path, *runs)
    assert list(traces(page)) == ["a, fmn", "b, fmn", "a, pgd", "b, pgd"]


def test_many_examples_are_thinned_to_exact_values(tmp_path: Path) -> None:
    far = np.linspace(1e-4, 0.4, 3 * STEPS)
    run = make_run(tmp_path / "run", [nearest("fmn", 0.4, far.tolist())])
    curve = traces(report(tmp_path, run))["fmn"]
    assert len(curve["x"]) == STEPS
    assert curve["x"][-1] == 0.4
    assert curve["y"] == pytest.approx([(far > x).mean() for x in curve["x"]])


def test_without_minimum_norm_attacks_the_page_says_so(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN]))
    assert "so smallest distances are not known" in page.words
    assert not [caption for caption in page.tables if "Smallest" in caption]


def test_a_network_that_is_never_right_has_no_quartiles(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [nearest("fmn", 0.4, [0.0, 0.0])]))
    assert page.table("Smallest distances")["digits/noisy/seed-0: fmn linf eps=0.4"][2:] == [*["none right"] * 3, "0"]
