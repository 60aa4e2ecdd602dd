from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.attacks import AutoAttack
from holdfast.report import read_run, read_runs
from holdfast.report.robustbench import PUBLISHED, headlines, write_headlines
from tests.report.factory import FakeCheck, composed, make_run, nearest, noise, pgd

T, F = True, False
CLEAN = FakeCheck("clean", correct=[T] * 9 + [F])
EPS = 8 / 255
AUTO = "autoattack linf eps=8/255"
# As in RobustBench/robustbench, model_info/cifar10/Linf/Bai2024MixedNUTS.json.
THEIRS = {
    "link", "name", "authors", "additional_data", "number_forward_passes", "dataset", "venue", "architecture", "eps",
    "clean_acc", "reported", "autoattack_acc",
}  # fmt: skip


def records(path: Path, checks: list[FakeCheck], **facts: Any) -> list[dict[str, Any]]:
    run = make_run(path, checks, weights=("last", "best"))
    said = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**said, **facts}))
    return headlines(read_run(run))


def test_published_fields_are_the_defaults_of_autoattack() -> None:
    defaults = {field.name: field.default for field in dataclasses.fields(AutoAttack)}
    assert {**defaults, **PUBLISHED} == defaults
    assert set(defaults) - set(PUBLISHED) == {"threat"}


def test_a_finished_autoattack_has_a_number(tmp_path: Path) -> None:
    weak = pgd(EPS, [T] * 8 + [F] * 2)
    (card,) = records(tmp_path / "run", [CLEAN, composed("aabssssssc", eps=EPS), weak])
    assert set(card) >= THEIRS
    assert (card["norm"], card["eps"], card["dataset"], card["architecture"]) == ("Linf", "8/255", "digits", "cnn")
    assert (card["clean_acc"], card["autoattack_acc"], card["worst_case_acc"]) == ("90.00", "60.00", "50.00")
    assert card["unfinished"] == []
    assert [(one["method"], one["acc"], one["at_most"]) for one in card["attacks"]] == [
        ("autoattack", "60.00", None),
        ("pgd", "80.00", None),
    ]
    assert card["attacks"][1]["interval"] == ["49.02", "94.33"]  # Wilson, 8 of 10
    assert (card["examples"], card["seeds"], card["weights"]) == (10, [0], "best")
    assert card["weights_sha256"] == "ab12" + "0" * 60
    assert card["versions"]["torch"] == "2.13.0"


def test_an_unfinished_autoattack_has_none(tmp_path: Path) -> None:
    (card,) = records(tmp_path / "run", [CLEAN, composed("aabsswwwwc", eps=EPS)])
    assert card["autoattack_acc"] is card["worst_case_acc"] is card["attacks"][0]["acc"] is None
    assert card["attacks"][0]["at_most"] == "60.00"
    assert card["unfinished"] == [{"what": "autoattack linf eps=0.0313725: b", "examples": 4}]
    assert card["clean_acc"] == "90.00"


def test_a_check_that_left_no_rows_leaves_no_worst_case(tmp_path: Path) -> None:
    (card,) = records(tmp_path / "run", [CLEAN, pgd(EPS, [T] * 10)], not_run={"best": {AUTO: 10}})
    assert card["worst_case_acc"] is card["autoattack_acc"] is None
    assert card["attacks"][0]["acc"] == "100.00"
    assert card["unfinished"] == [{"what": AUTO, "examples": 10}]


OTHER_THREATS = [
    "autoattack linf eps=16/255",
    "pgd l2 eps=0.01",
    "common kind=fog severity=5",
    "uniform_noise eps=0.01",
]


@pytest.mark.parametrize("name", OTHER_THREATS)
def test_a_check_of_another_threat_that_left_no_rows_does_not_matter(tmp_path: Path, name: str) -> None:
    (card,) = records(tmp_path / "run", [CLEAN, pgd(EPS, [T] * 10)], not_run={"best": {name: 10}})
    assert (card["worst_case_acc"], card["unfinished"]) == ("90.00", [])


def test_an_attack_counts_in_every_record_of_a_larger_budget_and_by_its_distances_below(tmp_path: Path) -> None:
    far = [0.0, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1.5, None]
    checks = [FakeCheck("clean", correct=[F] + [T] * 9), pgd(0.5, [F] * 2 + [T] * 8, norm="l2")]
    small, large = records(tmp_path / "run", [*checks, nearest("fmn", 2.0, far, norm="l2")])
    assert (small["eps"], small["worst_case_acc"]) == ("0.5", "60.00")  # 0, 0.2, 0.3 and 0.4 are broken
    assert (large["eps"], large["worst_case_acc"]) == ("2", "10.00")
    assert [(one["method"], one["acc"]) for one in small["attacks"]] == [("fmn", "60.00"), ("pgd", "80.00")]
    assert [(one["method"], one["acc"]) for one in large["attacks"]] == [("fmn", "10.00"), ("pgd", "80.00")]


def test_autoattack_of_a_smaller_budget_is_not_the_number_of_a_larger_one(tmp_path: Path) -> None:
    checks = [CLEAN, composed("ssssssssss", eps=EPS), pgd(16 / 255, [T] * 10)]
    assert [card["autoattack_acc"] for card in records(tmp_path / "run", checks)] == ["100.00", None]


def test_noise_and_corruptions_stand_beside_the_worst_case(tmp_path: Path) -> None:
    fog = FakeCheck("common fog", "common", {"kind": "fog", "severity": 1}, [F] * 10)
    (card,) = records(tmp_path / "run", [CLEAN, pgd(EPS, [T] * 10), noise(0.1, [F] * 10), fog])
    assert card["worst_case_acc"] == "90.00"
    assert [(one["check"], one["acc"]) for one in card["noise"]] == [("gaussian_noise sigma=0.1", "0.00")]
    assert card["corruptions"] == [{"family": "common corruptions", "mean_error": None, "examples": 10}]


def test_a_part_of_the_examples_is_no_number(tmp_path: Path) -> None:
    (card,) = records(tmp_path / "run", [CLEAN, composed("ssss", eps=EPS)])
    assert card["autoattack_acc"] is card["worst_case_acc"] is None
    assert card["unfinished"][0]["examples"] == 6


@pytest.mark.parametrize("change", [{"steps": 10}, {"version": "rand"}, {"queries": 100}, {"targets": 3}])
def test_another_autoattack_is_only_another_attack(tmp_path: Path, change: dict[str, Any]) -> None:
    (card,) = records(tmp_path / "run", [CLEAN, composed("ssssssssss", eps=EPS, **change)])
    assert card["autoattack_acc"] is None
    assert card["attacks"][0]["acc"] == "100.00"


def test_every_threat_has_a_record_and_a_run_without_attacks_one(tmp_path: Path) -> None:
    checks = [CLEAN, pgd(EPS, [T] * 10), pgd(0.5, [F] * 10, norm="l2"), nearest("fmn", 0.5, [0.1] * 10, norm="l2")]
    cards = records(tmp_path / "run", checks)
    assert [(card["norm"], card["eps"], len(card["attacks"])) for card in cards] == [
        ("Linf", "8/255", 1),
        ("L2", "0.5", 2),
    ]
    assert [card["worst_case_acc"] for card in cards] == ["90.00", "0.00"]
    (bare,) = records(tmp_path / "bare", [CLEAN])
    assert (bare["norm"], bare["eps"], bare["clean_acc"], bare["worst_case_acc"]) == (None, None, "90.00", None)


def test_without_clean_images_there_is_no_clean_accuracy(tmp_path: Path) -> None:
    assert records(tmp_path / "run", [pgd(EPS, [T])])[0]["clean_acc"] is None


def test_the_file_is_a_list_of_all_runs(tmp_path: Path) -> None:
    runs = read_runs([make_run(tmp_path / name, [CLEAN], name=f"digits/{name}") for name in "ab"])
    written = json.loads(write_headlines(runs, tmp_path / "deep" / "h.json").read_text())
    assert [card["name"] for card in written] == ["digits/a", "digits/b"]
