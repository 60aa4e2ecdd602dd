from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import LedgerError
from holdfast.report import read_run, write_report
from holdfast.report.summary import card
from tests.report.factory import FakeCheck, make_run, nearest, noise, pgd
from tests.report.reading import Read, read

T, F = True, False
CHECKS = [
    FakeCheck("clean", correct=[T, T, T, F]),
    noise(0.1, [T, T, F, F]),
    pgd(0.1, [F, T, F, F]),
]
# Wilson's 95 % intervals of 1, 2 and 3 of 4, by hand: (p + z²/8 ± z sqrt(p(1-p)/4 + z²/64)) / (1 + z²/4), z = 1.959964.
ONE, TWO, THREE = "25.0 % [4.6, 69.9]", "50.0 % [15.0, 85.0]", "75.0 % [30.1, 95.4]"


def report(tmp_path: Path, *runs: Path) -> Read:
    return read(write_report(runs, tmp_path / "report.html"))


def test_headline_says_what_was_counted(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", CHECKS, weights=("best", "last")))
    table = page.table("Accuracy in each check")
    assert table["clean"] == ["4", THREE, THREE]
    assert table["gaussian_noise sigma=0.1"] == ["4", TWO, TWO]
    assert table["pgd linf eps=0.1 steps=20"] == ["4", ONE, ONE]
    assert table["worst case, linf eps=0.1"] == ["4", ONE, ONE]
    assert page.table("cost")["pgd linf eps=0.1 steps=20"] == ["20.0", "1.0", "20.0", "1.0"]


def test_worst_case_is_over_examples_not_the_lowest_accuracy(tmp_path: Path) -> None:
    checks = [FakeCheck("clean", correct=[T] * 4), pgd(0.05, [T, T, F, F]), pgd(0.1, [F, T, T, T])]
    page = report(tmp_path, make_run(tmp_path / "run", checks))
    assert page.table("Accuracy in each check")["worst case, linf eps=0.1"] == ["4", ONE]
    assert "100.0 % [51.0, 100.0] clean. Worst case in linf: 50.0 % at eps=0.05, 25.0 % at eps=0.1." in page.words


def test_every_threat_has_its_own_worst_case_and_noise_is_in_none(tmp_path: Path) -> None:
    checks = [
        FakeCheck("clean", correct=[T] * 4), noise(0.5, [F] * 4), pgd(0.1, [T, T, T, F]),
        pgd(0.5, [T, T, F, F], norm="l2"), nearest("fmn", 2.0, [0.3, 0.9, 1.0, 2.0], norm="l2"),
        nearest("fmn", 90.0, [20.0] * 4, norm="l1"),
    ]  # fmt: skip
    run = make_run(tmp_path / "run", checks)
    page = report(tmp_path, run)
    table = page.table("Accuracy in each check")
    assert [name for name, _, _ in card(read_run(run)).figures] == [
        "clean",
        "worst case, linf eps=0.1",
        "worst case, l2 eps=0.5",  # not 2 and not 90 in l1: that is how far fmn searched
    ]
    assert table["worst case, linf eps=0.1"] == ["4", THREE]
    assert table["worst case, l2 eps=0.5"] == ["4", ONE]  # pgd breaks two, fmn one more within 0.5
    assert table["worst case, l2 eps=2"][1].startswith("0.0 %")
    assert list(table)[-4:] == [name for name in table if name.startswith("worst case")]
    assert "Worst case in linf: 75.0 % at eps=0.1; in l2: 25.0 % at eps=0.5, 0.0 % at eps=2; in l1: 0.0" in page.words
    assert "Hardest noise: gaussian_noise sigma=0.5, 0.0 %." in page.words
    assert "Hardest attack: pgd l2 eps=0.5 steps=20, 50.0 %." in page.words  # not fmn, which may go as far as 2
    assert "in 1 of 3 checks: gaussian_noise sigma=0.5." in page.words


def test_a_run_without_an_attack_in_a_threat_has_no_worst_case_in_it(tmp_path: Path) -> None:
    clean = FakeCheck("clean", correct=[T] * 4)
    runs = [
        make_run(tmp_path / "a", [clean, pgd(0.1, [T] * 4)], name="a"),
        make_run(tmp_path / "b", [clean, pgd(0.05, [T] * 4)], name="b"),
    ]
    table = report(tmp_path, *runs).table("Accuracy in each check")
    assert [table[f"worst case, linf eps={eps}"][1:] for eps in ("0.05", "0.1")] == [
        ["not run", "100.0 % [51.0, 100.0]"],
        ["100.0 % [51.0, 100.0]", "not run"],
    ]


def test_worst_case_uses_the_examples_of_all_checks(tmp_path: Path) -> None:
    checks = [FakeCheck("clean", correct=[T] * 8), pgd(0.1, [F, T, T, T])]
    table = report(tmp_path, make_run(tmp_path / "run", checks)).table("Accuracy in each check")
    assert table["worst case, linf eps=0.1"] == ["4", f"{THREE}, 4 of 8 examples"]
    assert table["clean"][0] == "8"


def test_summary_says_where_a_run_is_near_clean_and_where_fewer_than_half_are_right(
    tmp_path: Path,
) -> None:
    checks = [FakeCheck("clean", correct=[T] * 20), noise(0.1, [T] * 19 + [F]), pgd(0.1, [T] * 9 + [F] * 11)]
    words = report(tmp_path, make_run(tmp_path / "run", checks)).words
    assert "At most 5 points below clean in 1 of 2 checks: gaussian_noise sigma=0.1." in words
    assert "Below 50 % accuracy in 1 of 2 checks: pgd linf eps=0.1 steps=20." in words
    assert (
        "Hardest attack: pgd linf eps=0.1 steps=20, 45.0 %. Hardest noise: gaussian_noise sigma=0.1, 95.0 %." in words
    )


def test_runs_are_compared_on_the_same_examples(tmp_path: Path) -> None:
    first = [FakeCheck("clean", correct=[T] * 10), pgd(0.1, [F] * 8 + [T] * 2)]
    second = [FakeCheck("clean", correct=[T] * 9 + [F]), pgd(0.1, [T] * 9 + [F])]
    page = report(
        tmp_path,
        make_run(tmp_path / "a", first, name="digits/standard/seed-0"),
        make_run(tmp_path / "b", second, name="digits/noisy/seed-0"),
    )
    table = page.table("noisy against standard")
    # Clean: 1 against 0, p = 1. PGD: 1 against 8, p = 2 (1 + 9) / 2**9 = 0.039; times 2 for Holm.
    assert table["clean"] == ["10", "▼ −10.0", "1", "0", "1.000", "1.000", "no clear difference"]
    assert table["pgd linf eps=0.1 steps=20"] == ["10", "▲ +70.0", "1", "8", "0.039", "0.078", "no clear difference"]
    assert not [name for name in table if name.startswith("worst case")]  # a single attack has its own row
    assert "Holm-corrected over these 2 tests" in page.text


def test_worst_cases_are_compared_threat_by_threat(tmp_path: Path) -> None:
    clean, weak = FakeCheck("clean", correct=[T] * 10), pgd(0.05, [T] * 10)
    first = [clean, weak, pgd(0.1, [F] * 8 + [T] * 2), nearest("fmn", 2.0, [1.0] * 10, norm="l2")]
    second = [clean, weak, pgd(0.1, [T] * 10), nearest("fmn", 2.0, [1.0] * 10, norm="l2")]
    runs = [make_run(tmp_path / name, checks, name=name) for name, checks in (("a", first), ("b", second))]
    table = report(tmp_path, *runs).table("b against a")
    assert [name for name in table if name.startswith("worst case")] == ["worst case, linf eps=0.1"]
    assert table["worst case, linf eps=0.1"][:4] == ["10", "▲ +80.0", "0", "8"]


def test_runs_on_other_data_are_not_compared(tmp_path: Path) -> None:
    a, b = make_run(tmp_path / "a", CHECKS, name="a"), make_run(tmp_path / "b", CHECKS, name="b")
    facts = json.loads((b / "run.json").read_text())
    facts["data"]["fingerprint"] = "e" * 64
    (b / "run.json").write_text(json.dumps(facts))
    page = report(tmp_path, a, b)
    assert "different data" in page.text
    assert not [caption for caption in page.tables if "McNemar" in caption]


def test_runs_with_other_labels_are_not_compared(tmp_path: Path) -> None:
    facts = {"name": "b"}
    a = make_run(tmp_path / "a", CHECKS, name="a")
    b = make_run(tmp_path / "b", CHECKS, facts=facts, classes=("cat", "dog", "fox"))
    assert "disagree on the true class" in report(tmp_path, a, b).text


def test_per_class_and_confusion_are_counted(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", CHECKS))
    classes = page.table("percent correct in each class")
    assert classes["Check"] == ["cat", "dog"]
    assert classes["clean"] == ["100", "50"]  # cats are examples 0 and 2
    assert classes["pgd linf eps=0.1 steps=20"] == ["0", "50"]
    assert page.table("best weights: clean. Rows")["dog"] == ["1", "1"]
    assert page.table("pgd linf eps=0.1 steps=20. Rows")["cat"] == ["0", "2"]
    assert "cat predicted as dog (2×)" in page.text


def test_curves_start_at_the_clean_accuracy_and_variance_becomes_sigma(tmp_path: Path) -> None:
    variance = FakeCheck("noise var", "gaussian_noise", {"sigma": None, "variance": 0.04}, [T, F, F, F])
    uniform = FakeCheck("uniform", "uniform_noise", {"eps": 0.1}, [T, T, F, F])
    run = make_run(tmp_path / "run", [*CHECKS, variance, uniform, pgd(0.5, [F] * 4, norm="l2")])
    specs = report(tmp_path, run).specs
    sigma, linf, l2 = (specs[f"robustness-{number}"]["data"] for number in range(3))
    assert (sigma[0]["x"], sigma[0]["y"]) == ([0, 0.1, 0.2], [0.75, 0.5, 0.25])
    assert {trace["name"]: trace["y"] for trace in linf} == {"pgd": [0.75, 0.25], "uniform noise": [0.75, 0.5]}
    assert (l2[0]["x"], l2[0]["y"]) == ([0, 0.5], [0.75, 0])
    assert sigma[0]["error_y"]["array"][0] == pytest.approx(0.9544 - 0.75, abs=1e-4)


def test_variants_of_a_method_are_lines_of_their_own(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [pgd(0.1, [T] * 4, steps=5), pgd(0.1, [F] * 4, steps=50)])
    assert [trace["name"] for trace in report(tmp_path, run).specs["robustness-0"]["data"]] == [
        "pgd steps=5",
        "pgd steps=50",
    ]


WORST = ["worst case, linf eps=2", "worst case, linf eps=10"]


def test_checks_are_ordered_by_strength_not_by_spelling(tmp_path: Path) -> None:
    checks = [
        pgd(10, [F] * 4),
        pgd(2, [T] * 4),
        FakeCheck("clean", correct=[T] * 4),
        FakeCheck("x", "a new one", {}, [T] * 4),
    ]
    rows = list(report(tmp_path, make_run(tmp_path / "run", checks)).table("Accuracy in each check"))[2:]
    assert rows == ["clean", "x", "pgd linf eps=2 steps=20", "pgd linf eps=10 steps=20", *WORST]


def test_training_curves_skip_epochs_without_validation(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", CHECKS, epochs=4))
    loss, accuracy, rate = (page.specs[f"training-{number}"]["data"] for number in range(3))
    assert [trace["name"] for trace in accuracy] == ["training", "validation", "validation, attacked"]
    assert loss[1]["x"] == [2, 4]
    assert rate[0]["x"] == [1, 2, 3, 4]
    assert page.table("epoch by epoch")["1"][-2] == "not measured"


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", CHECKS, weights=("last", "best"), epochs=3, gallery=CHECKS[2].name)
    first = write_report([run], tmp_path / "first.html").read_bytes()
    assert write_report([run], tmp_path / "second.html").read_bytes() == first


def test_nothing_is_fetched_from_elsewhere(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", CHECKS, epochs=3, gallery=CHECKS[2].name))
    addresses = [
        attributes[key] or "" for _, attributes in page.elements for key in ("src", "href") if key in attributes
    ]
    assert addresses
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in addresses)
    assert not [tag for tag, _ in page.elements if tag in ("link", "iframe", "object", "base")]


def test_every_link_of_the_page_leads_somewhere(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", CHECKS, epochs=3))
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(identifiers)) == len(identifiers)
    assert all((a["href"] or "")[1:] in identifiers for tag, a in page.elements if tag == "a")


def test_the_title_names_few_runs_and_counts_many(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / str(n), CHECKS, name=f"digits/v{n}/seed-0") for n in range(5)]
    few = write_report(runs[:2], tmp_path / "few.html").read_text(encoding="utf-8")
    many = write_report(runs, tmp_path / "many.html").read_text(encoding="utf-8")
    assert "<title>Report on v0, v1</title>" in few
    assert "<title>Report on 5 runs of digits</title>" in many


def test_title_can_be_given(tmp_path: Path) -> None:
    out = write_report([make_run(tmp_path / "run", CHECKS)], tmp_path / "deep" / "r.html", title="Two & more")
    assert "<title>Two &amp; more</title>" in out.read_text(encoding="utf-8")


def test_the_report_and_everything_below_it_load_no_torch() -> None:
    code = """
import importlib, pkgutil, sys
import holdfast.report, holdfast.show
for package in (holdfast.report, holdfast.show):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_directory_is_no_file_to_write(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="got a directory"):
        write_report([make_run(tmp_path / "run", CHECKS)], tmp_path)
