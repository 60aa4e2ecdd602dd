"""Certificates on the page: exact curves, proof beside attack, and errors that nobody can overlook."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.report import read_runs, write_report
from holdfast.report.certificates import ATTACKED, BETWEEN, CERTIFIED, brackets_of
from holdfast.report.proofs import LIMIT, proofs_of
from holdfast.statistics import wilson
from tests.report.factory import FakeCheck, make_run, nearest, pgd, proved
from tests.report.reading import Read, read

T, F = True, False
# Of six examples 4 is wrong and 5 has no answer.
RADII = [0.1, 0.3, 0.2, 0.3, 0.5, None]
MARGIN = proved(RADII, wrong=[4])
SMOOTHED = proved(RADII, method="smoothing", wrong=[4], sigma=0.25)
CLEAN = FakeCheck("clean", correct=[T, T, T, T, F, T], distance=[0.0] * 6, norm="l2")
FMN = nearest("fmn", 1.0, [0.2, 0.4, None, 0.35, 0.0, 0.1], norm="l2")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


def report(tmp_path: Path, *runs: Path) -> Read:
    return read(write_report(runs, tmp_path / "report.html"))


def one(tmp_path: Path, *checks: FakeCheck, **more: Any) -> Read:
    return report(tmp_path, make_run(tmp_path / "run", checks, name="net", **more))


def lines(page: Read, name: str) -> dict[str, Any]:
    return {trace["name"]: trace for trace in page.specs[name]["data"] if trace.get("fill") is None}


def height(trace: dict[str, Any], at: float) -> float:
    """What a line of steps shows at a position that is no corner."""
    x, y = trace["x"], trace["y"]
    place = int(np.searchsorted(x, at))
    return float(y[min(place, len(y) - 1)] if trace["line"]["shape"] == "vh" else y[place - 1])


def test_the_curve_is_exact_at_every_radius(tmp_path: Path) -> None:
    page = one(tmp_path, MARGIN)
    curve = lines(page, "certificates-0")[MARGIN.name]
    assert curve["x"] == [0, 0.1, 0.2, 0.3, 0.3]
    assert curve["y"] == [4 / 6, 4 / 6, 3 / 6, 2 / 6, 0]  # at a radius itself it still counts
    assert curve["line"]["shape"] == "vh"
    assert curve["text"][0] == "[30.0,\u00a090.3]"
    for radius in (0.05, 0.15, 0.25, 0.299):
        assert height(curve, radius) == sum(r is not None and r >= radius for r in RADII[:4]) / 6


def test_intervals_are_a_band_of_steps_behind_the_curve(tmp_path: Path) -> None:
    (band, curve) = one(tmp_path, proved([0.1, None])).specs["certificates-0"]["data"]
    low, high, none = wilson(1, 2).low, wilson(1, 2).high, wilson(0, 2)
    assert (band["fill"], band["hoverinfo"], band["line"]["width"]) == ("toself", "skip", 0)
    corners = list(zip(band["x"], band["y"], strict=True))
    above = [(0, high), (0, high), (0.1, high), (0.1, none.high), (0.1, none.high)]
    assert corners == [*above, *reversed([(x, {high: low, none.high: none.low}[y]) for x, y in above])]
    assert "error_y" not in curve


def test_very_many_radii_are_drawn_on_a_grid_where_they_are_exact(tmp_path: Path) -> None:
    radii = np.random.default_rng(0).random(3 * LIMIT).tolist()
    curve = lines(one(tmp_path, proved(radii)), "certificates-0")["margin norm=l2"]
    assert len(curve["x"]) == LIMIT + 1
    for x, y in list(zip(curve["x"], curve["y"], strict=True))[:LIMIT:100]:
        assert y == np.mean(np.array(radii) >= x)


def test_networks_and_smoothed_networks_have_charts_of_their_own_in_each_norm(tmp_path: Path) -> None:
    page = one(tmp_path, MARGIN, proved(RADII, norm="linf"), SMOOTHED, proved([0.1] * 6, method="smoothing", sigma=0.5))
    assert [sorted(lines(page, f"certificates-{n}")) for n in range(3)] == [
        ["margin norm=linf"],
        ["margin norm=l2"],
        ["smoothing norm=l2 sigma=0.25", "smoothing norm=l2 sigma=0.5"],
    ]
    assert "certificates-3" not in page.specs


def test_the_table_tells_accuracy_abstentions_average_area_and_samples(tmp_path: Path) -> None:
    page = one(tmp_path, MARGIN, weights=("best", "last"))
    row = page.table("What was certified")["net, best weights: margin norm=l2"]
    # (0.1 + 0.3 + 0.2 + 0.3) / 6 = 0.15, deviation 0.1378 of 0.1, 0.3, 0.2, 0.3, 0, 0.
    half = 1.959964 * np.std([0.1, 0.3, 0.2, 0.3, 0, 0], ddof=1) / np.sqrt(6)
    assert row[:3] == ["6", "66.7 % [30.0, 90.3]", "1"]
    assert row[3] == f"0.15 in ℓ2 [{0.15 - half:.4g}, {0.15 + half:.4g}]"
    assert row[4].endswith("step 0.0025")
    assert abs(float(row[4].split()[0]) - 0.15) <= 0.00125
    assert row[5] == "1"
    at = page.table("Certified accuracy: share")
    assert at["net, last weights: margin norm=l2"][0].startswith("66.7 %")


def test_areas_of_one_norm_have_one_step_that_is_narrow_for_the_smallest(tmp_path: Path) -> None:
    page = one(tmp_path, proved([0.02, 0.01]), proved([3.0, 5.0], method="smoothing", sigma=1.0))
    areas = [row[4] for name, row in page.table("What was certified").items() if name.startswith("net")]
    assert [area.split()[-1] for area in areas] == ["0.0002", "0.0002"]
    assert [float(area.split()[0]) for area in areas] == pytest.approx([0.015, 4.0], abs=1.01e-4)


def test_several_runs_are_lines_of_one_chart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, [MARGIN, FMN, CLEAN], name=f"digits/{name}") for name in ("a", "b")]
    page = report(tmp_path, *runs)
    assert sorted(lines(page, "certificates-0")) == ["a", "b"]
    assert [sorted(lines(page, f"certificates-{n}")) for n in (1, 2)] == [sorted([CERTIFIED, ATTACKED])] * 2
    assert list(page.table("What was certified"))[1:] == ["a: margin norm=l2", "b: margin norm=l2"]


def test_one_plot_has_proof_attack_and_what_lies_between(tmp_path: Path) -> None:
    fixed = replace(pgd(0.25, [F, T, T, T, F, F], norm="l2"), norm="l2", distance=[0.1] * 6)
    page = one(tmp_path, MARGIN, CLEAN, FMN, fixed)
    found = lines(page, "certificates-1")
    # Nearest breaks at 0.1, 0.4, nowhere, 0.35, 0.0 and 0.1.
    attacked, certified = found[ATTACKED], found[CERTIFIED]
    assert (attacked["x"], attacked["line"]["shape"]) == ([0, 0.1, 0.35, 0.4], "hv")
    assert attacked["y"] == [5 / 6, 3 / 6, 2 / 6, 1 / 6]
    assert certified["x"][-1] == attacked["x"][-1] == 0.4
    bands = [trace for trace in page.specs["certificates-1"]["data"] if trace.get("fill")]
    assert bands[0]["name"] == BETWEEN
    assert BETWEEN in page.words
    assert "certified ≤ true ≤ attacked" in page.words
    assert "No attack in" not in page.words


def test_the_certified_curve_is_never_above_the_attacked_one_where_nothing_is_refuted(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    radii = rng.random(50)
    far = [None if number % 7 == 0 else float(r + rng.random()) for number, r in enumerate(radii)]
    page = one(tmp_path, proved(radii.tolist()), nearest("fmn", 3.0, far, norm="l2"))
    found = lines(page, "certificates-1")
    for radius in rng.random(200) * 2:
        assert height(found[CERTIFIED], radius) <= height(found[ATTACKED], radius) + 1e-12
    assert "refuted" not in page.words


def test_both_curves_are_about_the_same_examples(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", [MARGIN, nearest("fmn", 1.0, [0.2, None, None], norm="l2")], name="net")
    (bracket,) = brackets_of(runs := read_runs([path]), proofs_of(runs))
    assert (bracket.proof.examples, bracket.proof.certified_at(0.0), bracket.unbroken(0.0)) == (3, 3, 3)
    assert bracket.attacks == ("fmn l2 eps=1",)


def test_smoothed_networks_have_no_attack_line_and_the_page_says_why(tmp_path: Path) -> None:
    page = one(tmp_path, SMOOTHED, FMN, CLEAN)
    assert "certificates-1" not in page.specs
    assert "have no attack line. They are about the network averaged over noise" in page.words
    assert "refuted" not in page.words  # fmn is inside its radii, which is no error


def test_without_an_attack_in_its_norm_a_network_is_bounded_from_below_only(tmp_path: Path) -> None:
    page = one(tmp_path, MARGIN, CLEAN, nearest("fmn", 1.0, [0.2] * 6, norm="linf"))
    assert "certificates-1" not in page.specs
    assert "No attack in ℓ2 was run on net beside margin norm=l2" in page.words
    assert "have no attack line" not in page.words


def test_a_refuted_certificate_is_an_error_at_the_top(tmp_path: Path) -> None:
    attack = nearest("fmn", 1.0, [0.05, 0.31, 0.1, None, 0.0, None], norm="l2")
    page = one(tmp_path, MARGIN, attack, weights=("best", "last"))
    assert "4 certified examples of net are refuted" in page.words
    boxes = [attributes for _, attributes in page.elements if attributes.get("role") == "alert"]
    assert [box["class"] for box in boxes] == ["error"]
    order = [attributes.get("id") for _, attributes in page.elements]
    assert order.index("refuted") < order.index("summary")
    assert "margin norm=l2: refuted" in page.words
    assert BETWEEN not in page.words  # nothing lies between the two
    table = page.table("Certificates against what was found")
    # The last row of each heading is left: those of example 0, since 2 is the most glaring.
    assert table["net, best weights: margin norm=l2"] == ["0", "0.1 l2", "0.05", "fmn l2 eps=1"]
    assert table["net, last weights: margin norm=l2"] == ["0", "0.1 l2", "0.05", "fmn l2 eps=1"]


def test_without_certificates_the_section_says_so(tmp_path: Path) -> None:
    page = one(tmp_path, CLEAN, FMN)
    assert "Nothing was certified" in page.words
    assert "corruptions, certificates and other norms" not in page.words


def test_certificates_are_no_attacks_in_summary_confusion_and_worst_case(tmp_path: Path) -> None:
    weak = proved([None] * 6)
    page = one(tmp_path, CLEAN, weak, pgd(0.1, [T, T, T, F, F, T]))
    accuracy = page.table("Accuracy in each check")
    assert accuracy["margin norm=l2"][1] == "0.0 % [0.0, 39.0], 6 examples without an answer"
    assert accuracy["worst case, linf eps=0.1"][1].startswith("66.7 %")
    assert "Noise, corruptions, certificates and other norms have their own numbers." in page.words
    assert "Hardest attack: pgd linf eps=0.1 steps=20, 66.7" in page.words
    assert "Below 50 % accuracy in none of the checks" in page.words
    assert "Certified by margin norm=l2: average radius 0 in ℓ2." in page.words
    assert any("pgd linf eps=0.1" in caption and "Rows are the true class" in caption for caption in page.tables)


def test_with_certificates_alone_something_is_known(tmp_path: Path) -> None:
    page = one(tmp_path, CLEAN, SMOOTHED)
    assert "Only clean images were checked: what is known about robustness is the certificates." in page.words
    assert "average radius 0.15 in ℓ2, of the smoothed network." in page.words


def test_comparisons_leave_certificates_out_of_the_worst_case(tmp_path: Path) -> None:
    pair = [
        make_run(
            tmp_path / name, [CLEAN, pgd(0.1, [T] * 6), pgd(0.05, [T] * 6), proved([value] * 6)], name=f"digits/{name}"
        )
        for name, value in (("a", 0.1), ("b", None))
    ]
    table = report(tmp_path, *pair).table("b against a")
    assert table["margin norm=l2"][2] == "6"  # only a right
    assert table["worst case, linf eps=0.1"][2:4] == ["0", "0"]


def test_nothing_certified_at_all_is_no_accident(tmp_path: Path) -> None:
    page = one(tmp_path, proved([None, None]), nearest("fmn", 1.0, [None, None], norm="l2"))
    assert lines(page, "certificates-0")["margin norm=l2"]["y"] == [0, 0]
    assert page.table("What was certified")["net: margin norm=l2"][3].startswith("0 in ℓ2")
