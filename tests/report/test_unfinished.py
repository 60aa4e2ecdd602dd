"""A number that looks complete and is not is the worst thing a report can show."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.attacks import FAB, FMN, PGD, Targeted
from holdfast.checks import Check
from holdfast.recipe import describe
from holdfast.report import read_run, read_runs, write_report
from holdfast.report.compare import comparison
from holdfast.report.shares import share_of
from holdfast.report.unfinished import counts_in, gaps
from holdfast.results.recorded_checks import Budget
from holdfast.results.recorded_checks import Check as Known
from holdfast.threat import L2
from holdfast.traits import traits_of
from holdfast.types import Attack
from tests.report.factory import FakeCheck, composed, make_run, nearest, pgd
from tests.report.reading import Read, read

T, F = True, False
CLEAN = FakeCheck("clean", correct=[T] * 9 + [F])
OPEN = composed("aabswwwwxc")  # 3 broken, 1 stands, 4 wait for b, 1 for a and b, 1 wrong before
AUTO = OPEN.name
WORST = "worst case, linf eps=0.1"
# Wilson's 95 % interval of 6 of 10 has the upper end 83.2; of the 1 of 10 sure to stand, the lower end 1.8.
BOUND = "at most 60.0 % [1.8, 83.2], 5 examples waiting"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")  # megabytes that these tests do not look at


def record_facts(run: Path, **facts: Any) -> Path:
    said = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**said, **facts}))
    return run


def report(tmp_path: Path, *runs: Path) -> Read:
    return read(write_report(runs, tmp_path / "report.html"))


def test_every_accuracy_of_an_unfinished_attack_is_an_upper_bound(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN, OPEN]))
    table = page.table("Accuracy in each check")
    assert table[AUTO][1] == BOUND
    assert table[WORST][1] == BOUND
    assert page.words.count("60.0") == page.words.count("at most 60.0")
    assert "Worst case in linf: at most 60.0 % at eps=0.1. “At most” is an upper bound: not everything" in page.words
    assert f"Hardest attack so far: {AUTO}, at most 60.0 %." in page.words
    assert f"Unfinished, so that only an upper bound is known, in the only check: {AUTO}." in page.words


def test_an_unfinished_attack_is_not_said_to_hold(tmp_path: Path) -> None:
    words = report(tmp_path, make_run(tmp_path / "run", [CLEAN, composed("s" * 8 + "xc")])).words
    assert "No check is within 5 points of clean accuracy." in words


def test_a_finished_attack_is_a_number_as_any_other(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN, composed("aabssssssc")]))
    assert page.table("Accuracy in each check")[AUTO][1] == "60.0 % [31.3, 83.2]"
    assert "Unfinished" not in page.words
    assert "at most 60" not in page.words
    assert not [caption for caption in page.tables if "Not run" in caption]


def test_what_was_not_run_is_listed_component_by_component(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [CLEAN, OPEN])
    told = {"best": {f"{AUTO}: a": 9, f"{AUTO}: b": 9, "pgd linf eps=0.5": 10, "clean": 0}}
    table = report(tmp_path, record_facts(run, not_run=told)).table("Not run, and on how many")
    assert table == {
        "Check": ["Run", "Weights", "Examples"],
        f"{AUTO}: a": ["digits/noisy/seed-0", "best", "1"],  # the rows know better than run.json
        f"{AUTO}: b": ["digits/noisy/seed-0", "best", "5"],
        "pgd linf eps=0.5": ["digits/noisy/seed-0", "best", "10"],
    }


def test_a_check_that_left_no_rows_makes_the_worst_case_a_bound(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [CLEAN, pgd(0.1, [T] * 6 + [F] * 4)], weights=("best", "last"))
    page = report(tmp_path, record_facts(run, not_run={"best": {"fmn linf eps=0.5": 10}}))
    table = page.table("Accuracy in each check")
    assert table[WORST][1:] == ["at most 60.0 % [0.0, 83.2], 1 check not run", "60.0 % [31.3, 83.2]"]
    assert table["pgd linf eps=0.1 steps=20"][1] == "60.0 % [31.3, 83.2]"
    assert "Worst case in linf: at most 60.0 % at eps=0.1." in page.words


def test_a_check_of_a_larger_budget_that_left_no_rows_leaves_the_worst_case_alone(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [CLEAN, pgd(0.1, [T] * 6 + [F] * 4)])
    page = report(
        tmp_path, record_facts(run, not_run={"best": {"pgd linf eps=0.5": 10, "gaussian_noise sigma=0.1": 10}})
    )
    assert page.table("Accuracy in each check")[WORST][1] == "60.0 % [31.3, 83.2]"


def test_where_nothing_is_right_nothing_can_be_lower(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [CLEAN, pgd(0.1, [F] * 10)])
    page = report(tmp_path, record_facts(run, not_run={"best": {"fmn linf eps=0.5": 10}}))
    assert page.table("Accuracy in each check")[WORST][1] == "0.0 % [0.0, 27.8]"
    assert page.table("Not run")["fmn linf eps=0.5"][-1] == "10"


def test_a_check_that_saw_a_part_of_the_examples_says_so(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN, pgd(0.1, [T] * 3 + [F])]))
    table = page.table("Accuracy in each check")
    assert table["pgd linf eps=0.1 steps=20"][1] == "75.0 % [30.1, 95.4], 4 of 10 examples"
    assert table[WORST][1] == "75.0 % [30.1, 95.4], 4 of 10 examples"
    assert page.table("Not run")["pgd linf eps=0.1 steps=20"][-1] == "6"
    assert "Only 4 of 10 examples went through all checks of the worst case, linf eps=0.1." in page.words


@pytest.mark.parametrize(("test", "missing"), [(500, [490]), (10, []), (None, [490]), (12, [2])])
def test_run_json_counts_examples_that_no_check_saw_unless_they_were_made_up_for(
    tmp_path: Path, test: int | None, missing: list[int]
) -> None:
    run = record_facts(make_run(tmp_path / "run", [CLEAN]), data={"test": test}, not_run={"best": {"clean": 490}})
    assert [gap.examples for gap in gaps(read_run(run))] == missing


@pytest.mark.parametrize("notes", [None, {}, {"best": None}, {"best": {"x": "many"}}, {"best": [1]}])
def test_strange_notes_of_what_was_not_run_say_nothing(tmp_path: Path, notes: Any) -> None:
    assert gaps(read_run(record_facts(make_run(tmp_path / "run", [CLEAN]), not_run=notes))) == ()


def test_weights_without_any_row_are_named_too(tmp_path: Path) -> None:
    run = record_facts(make_run(tmp_path / "run", [CLEAN]), not_run={"last": {"clean": 10}})
    assert [(gap.weights, gap.what, gap.absent) for gap in gaps(read_run(run))] == [("last", "clean", True)]


def test_points_of_unfinished_attacks_are_hollow(tmp_path: Path) -> None:
    checks = [CLEAN, OPEN, composed("aabssssssc", eps=0.2)]
    page = report(tmp_path, make_run(tmp_path / "run", checks))
    (trace,) = page.specs["robustness-0"]["data"]
    assert trace["x"] == [0, 0.1, 0.2]
    assert trace["marker"]["symbol"] == ["circle", "circle-open", "circle"]
    assert "unfinished" in trace["text"][1]
    assert trace["error_y"]["arrayminus"][1] == pytest.approx(0.6 - 0.0179, abs=1e-4)
    assert "A hollow mark is an upper bound" in page.words


def test_classes_and_confusion_mark_what_waits(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN, OPEN]))
    # Cats are the even examples: 4, 6 and 8 wait. Dogs: 5 and 7.
    assert page.table("percent correct in each class")[AUTO] == ["≤ 60", "≤ 60"]
    assert page.table("percent correct in each class")["clean"] == ["100", "80"]
    assert "Unfinished: 5 examples waiting, counted as right here." in page.words


def test_runs_are_not_compared_where_one_is_unfinished(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", [CLEAN, OPEN, pgd(0.1, [T] * 10)], name="a")
    second = make_run(tmp_path / "b", [CLEAN, composed("aaaaaaaaac"), pgd(0.1, [T] * 10)], name="b")
    page = report(tmp_path, first, second)
    table = page.table("b against a")
    unknown = [*["unknown"] * 6, "unfinished: 5 examples of a waiting"]
    assert table[AUTO] == table[WORST] == unknown
    assert "Holm-corrected over these 2 tests" in page.words
    found = comparison(*read_runs([first, second]))
    assert [check for check, _ in found.pairs] == ["clean", "pgd linf eps=0.1 steps=20"]
    assert [check for check, _ in found.unknown] == [AUTO, WORST]


def test_the_worst_case_is_compared_if_what_waits_is_lost_anyway(tmp_path: Path) -> None:
    checks = [OPEN, pgd(0.1, [F] * 10)]
    page = report(tmp_path, *(make_run(tmp_path / name, checks, name=name) for name in "ab"))
    table = page.table("b against a")
    assert table[WORST][:2] == ["10", "= 0.0"]
    assert list(table)[-1] == WORST
    assert table[AUTO][-1] == "unfinished: 5 examples of a waiting, 5 examples of b waiting"


def test_a_held_image_that_waits_held_so_far(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [CLEAN, composed("wasasa")], gallery=AUTO)
    words = report(tmp_path, run).words
    assert words.count("held so far") == 1
    assert words.count("→ cat held example") == 2


def test_an_interval_of_a_bound_allows_for_every_outcome() -> None:
    row = {"accuracy": 0.6, "low": 0.313, "high": 0.832, "correct": 6, "examples": 10, "unsettled": 0}
    row |= {"not_attacked": 0, "reason": ""}
    assert (share_of(row).low, share_of(row).bound) == (0.313, False)
    assert share_of({**row, "unsettled": 6}).low == 0.0
    assert share_of(row, absent=1).low == 0.0


START = "no starting point"
# Four of ten are broken, three of the six others could not be attacked, one of the ten is wrong before.
WALK = replace(
    nearest("hopskipjump", 2.0, [0.5, 1.0, 1.5, *[None] * 6, 0.0], norm="l2"),
    not_run=[*[None] * 4, START, None, START, None, START, None],
)
# Wilson's 95 % interval of 6 of 10 has the upper end 83.2; of the 3 of 10 that were attacked, the lower end 10.8.
WALKED = f"at most 60.0 % [10.8, 83.2], 3 examples not attacked ({START})"


def test_examples_that_could_not_be_attacked_make_every_number_an_upper_bound(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN, WALK]))
    table = page.table("Accuracy in each check")
    assert table[WALK.name][1] == table["worst case, l2 eps=2"][1] == WALKED
    assert page.words.count("60.0") == page.words.count("at most 60.0")
    assert page.table("Not run, and on how many") == {
        "Check": ["Run", "Weights", "Examples"],
        f"{WALK.name} ({START})": ["digits/noisy/seed-0", "best", "3"],
    }
    assert "the attack could not run on these examples" in page.words
    assert "No check is within 5 points of clean accuracy." in page.words
    assert "Unfinished: 3 examples not attacked, counted as right here." in page.words
    assert page.table("percent correct in each class")[WALK.name] == ["≤ 60", "60"]  # cats 4, 6 and 8


def test_distances_do_not_put_examples_that_were_not_attacked_beyond_eps(tmp_path: Path) -> None:
    page = report(tmp_path, make_run(tmp_path / "run", [CLEAN, WALK]))
    (row,) = (cells for name, cells in page.table("Smallest distances").items() if name != "Attack")
    assert row[-2:] == ["3 (33.3 %)", f"3 {START}"]  # of the nine that are right before
    at = page.table("Robust accuracy against the largest change")
    (row,) = (cells for name, cells in at.items() if name != "Attack")
    assert row[-1] == WALKED
    finished = replace(WALK, not_run=None)
    table = report(tmp_path, make_run(tmp_path / "other", [CLEAN, finished])).table("Smallest distances")
    assert table["Attack"][-1] == "Beyond ε"


def test_runs_are_not_compared_where_one_could_not_be_attacked(tmp_path: Path) -> None:
    first = make_run(tmp_path / "a", [CLEAN, WALK], name="a")
    second = make_run(tmp_path / "b", [CLEAN, replace(WALK, not_run=None)], name="b")
    found = comparison(*read_runs([first, second]))
    assert [check for check, _ in found.pairs] == ["clean"]
    assert dict(found.unknown)[WALK.name] == f"3 examples of a not attacked ({START})"


@pytest.mark.parametrize("eps", [0.5, 2.0, 4.0])
@pytest.mark.parametrize(
    "attack",
    [
        FAB(threat=L2(2.0)),
        FAB(threat=L2(2.0), until_lost=True),
        Targeted(attack=FMN(threat=L2(2.0))),
        PGD(threat=L2(2.0)),
    ],
)
def test_a_check_without_rows_counts_where_its_rows_would(attack: Attack, eps: float) -> None:
    method, label, params = describe(attack, Check)
    minimises = Known(label, method, json.loads(params), traits_of(attack)).nearest is not None
    for recorded in (None, {}, {label: {"norm": "l2", "eps": 2.0, "minimises": minimises}}):
        assert counts_in(label, Budget("l2", eps), recorded) == (minimises or eps >= 2.0)
