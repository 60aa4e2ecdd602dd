"""Networks at chance level on the page, in comparisons and in the headline numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.report import read_run, read_runs, render
from holdfast.report.compare import comparison, comparison_table
from holdfast.report.robustbench import headlines
from holdfast.report.trust import Trust
from holdfast.trust import FLAGS, Verdict, stored, write_verdicts
from tests.report.factory import FakeCheck, make_run, noise, pgd

T, F = True, False
SAME = [T, F] * 30  # of two classes in turn: always the first
DEAD = [FakeCheck("clean", correct=SAME), noise(0.1, SAME), pgd(0.1, SAME)]
ALIVE = [FakeCheck("clean", correct=[T] * 57 + [F] * 3), noise(0.1, [T] * 50 + [F] * 10), pgd(0.1, [F] * 60)]


def words(*runs: Path) -> str:
    page = render(read_runs(runs))
    return " ".join(page[page.index('id="summary"') : page.index('id="accuracy"')].split())


def test_a_dead_network_is_marked_and_nothing_else_is_claimed_of_it(tmp_path: Path) -> None:
    said = words(make_run(tmp_path / "run", DEAD))
    assert "At chance level: 30 of 60 clean images are right (50.0 %), guessing gives 50.0 %" in said
    assert "no evidence of robustness" in said
    assert "threat_warmup" in said
    assert "below clean" not in said
    assert "Hardest" not in said


def test_a_healthy_network_is_not_marked(tmp_path: Path) -> None:
    assert "chance level" not in words(make_run(tmp_path / "run", ALIVE))
    assert FLAGS["chance"] in words(tmp_path / "run")


def test_without_clean_images_nothing_is_marked(tmp_path: Path) -> None:
    assert "chance level" not in words(make_run(tmp_path / "run", DEAD[1:]))


def test_a_foreign_network_is_told_of_its_normalisation_first(tmp_path: Path) -> None:
    said = words(make_run(tmp_path / "run", DEAD, weights=("given",)))
    assert "What to do: check the normalisation (--mean and --std" in said


def test_other_weights_at_chance_level_are_doubts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", DEAD, weights=("last",))
    make_run(tmp_path / "other", ALIVE, weights=("best",))
    for part in (tmp_path / "other" / "ledger").iterdir():
        part.rename(run / "ledger" / part.name)
    said = words(run)
    assert "<b>Check this.</b> digits/noisy/seed-0 (last weights) is at chance level" in said
    assert "At chance level" not in said  # the best weights are not


def test_its_other_conditions_are_not_interpreted_whoever_stored_them(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", DEAD)
    masked = Verdict(flag="gradients", level="fail", finding="no gradient", remedy="use BPDA", evidence="model")
    write_verdicts(path, stored("any", "best", "ab12", 0, [masked]))
    _, details = Trust().present([read_run(path)])
    assert details.summary.endswith(f": No: 1 condition failed ({FLAGS['chance']}).")
    assert "BPDA" not in str(details)


@pytest.mark.parametrize("dead_first", [T, F])
def test_a_dead_network_is_never_said_to_be_better_and_a_healthy_one_may_be(tmp_path: Path, dead_first: bool) -> None:
    dead = make_run(tmp_path / "dead", DEAD, name="x/dead")
    alive = make_run(tmp_path / "alive", ALIVE, name="x/alive")
    result = comparison(*read_runs([dead, alive] if dead_first else [alive, dead]))
    verdicts = {name: cells[-1].text for name, cells in comparison_table(result).rows}
    assert result.at_chance == ("dead",)
    assert verdicts["pgd linf eps=0.1 steps=20"] == "dead is at chance level"
    assert verdicts["clean"] == ("better" if dead_first else "worse")


def test_headline_numbers_are_marked(tmp_path: Path) -> None:
    marks = [
        headlines(read_run(make_run(tmp_path / str(n), checks)))[0]["at_chance"]
        for n, checks in enumerate((DEAD, ALIVE, DEAD[1:]))
    ]
    assert json.dumps(marks) == "[true, false, null]"
