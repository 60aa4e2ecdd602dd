"""The training section: what a step cost, alarms, and where a run started from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.report import write_report
from holdfast.report.provenance import facts_table
from holdfast.report.runs import read_run
from holdfast.report.training import alarm, training_cost
from tests.report.factory import FakeCheck, make_run

CLEAN = [FakeCheck("clean", correct=[True] * 4)]


def run_of(path: Path, lines: list[dict[str, Any]]) -> Path:
    """A run whose record has these fields in each epoch."""
    made = make_run(path, CLEAN, epochs=len(lines))
    metrics = made / "metrics.jsonl"
    epochs = [json.loads(line) for line in metrics.read_text().splitlines()]
    text = "".join(json.dumps({**epoch, **more}) + "\n" for epoch, more in zip(epochs, lines, strict=True))
    metrics.write_text(text)
    return made


def cost(step: float, **more: Any) -> dict[str, Any]:
    stated = {"forward": 12, "backward": 11, "expected": 34 / 3}
    return {"cost": {"step_seconds": step, "standard_seconds": 0.01, **stated, **more}}


def test_the_table_sets_the_median_measured_cost_beside_the_expected_one(tmp_path: Path) -> None:
    run = read_run(run_of(tmp_path / "run", [cost(0.5), cost(0.09), cost(0.08)]))
    found = training_cost([run])
    assert found is not None
    ((_, cells),) = found.rows
    assert [cell.text for cell in cells] == ["12", "11", "11.33", "9.00", "90.0", "10.0"]


def test_passes_that_nobody_stated_are_said_to_be_so(tmp_path: Path) -> None:
    run = read_run(run_of(tmp_path / "run", [cost(0.02, forward=None, backward=None, expected=None)]))
    found = training_cost([run])
    assert found is not None
    assert [cell.text for cell in found.rows[0][1]][:4] == ["not stated"] * 3 + ["2.00"]


def test_records_without_a_cost_have_no_table(tmp_path: Path) -> None:
    for number, lines in enumerate(([{}], [{"cost": None}], [{"cost": {"step_seconds": 1.0, "standard_seconds": 0}}])):
        assert training_cost([read_run(run_of(tmp_path / str(number), lines))]) is None


def test_an_alarm_is_told_with_its_first_epoch(tmp_path: Path) -> None:
    run = read_run(run_of(tmp_path / "run", [{"alarm": None}, {"alarm": "all is lost"}, {"alarm": "worse"}]))
    assert alarm(run) == f"{run.label}, after epoch 2: all is lost. In all, 2 epochs ended with an alarm."
    assert alarm(read_run(run_of(tmp_path / "quiet", [{}]))) == ""


def test_the_page_shows_them_and_escapes_what_it_is_told(tmp_path: Path) -> None:
    made = run_of(tmp_path / "run", [{**cost(0.09), "alarm": "<b>lost</b>"}])
    text = write_report([made], tmp_path / "report.html").read_text(encoding="utf-8")
    training = text[text.index('id="training"') :]
    assert "after epoch 1: &lt;b&gt;lost&lt;/b&gt;" in training
    assert "What a training step costs" in training
    assert "11.33" in training
    other = write_report([make_run(tmp_path / "none", CLEAN)], tmp_path / "other.html").read_text(encoding="utf-8")
    assert "What a training step costs" not in other


def test_what_a_run_started_from_is_among_its_facts(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run", CLEAN)
    file = made / "run.json"
    said = {"path": "runs/x", "name": "digits/standard/seed-0", "weights": "best", "epoch": 7, "sha256": "c" * 64}
    file.write_text(json.dumps({**json.loads(file.read_text()), "init_from": said}))
    rows = dict(facts_table([read_run(made)]).rows)
    assert rows["Started from"][0].text == f"digits/standard/seed-0, best: {'c' * 64}, epoch 7"
    assert dict(facts_table([read_run(make_run(tmp_path / "fresh", CLEAN))]).rows)["Started from"][0].text


def test_a_composite_says_what_it_is_made_of(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", CLEAN)
    file = run / "run.json"
    standard = {"path": "runs/a", "name": "a/seed-0", "weights": "best", "epoch": 3, "sha256": "d" * 64}
    said = {"standard": standard, "robust": {"neighbours": 500}}
    file.write_text(json.dumps({**json.loads(file.read_text()), "bases": said}))
    made = dict(facts_table([read_run(run)]).rows)["Made of"][0].text
    assert made == f"standard: a/seed-0, best: {'d' * 64}, epoch 3\nrobust: 500 training images"
    assert "Fitted" not in dict(facts_table([read_run(run)]).rows)
    fitted = {"scale": 0.61, "power": 3.5, "shift": -2.25, "strength": 70.5, "kept": 0.99, "overruling": 0.4}
    file.write_text(json.dumps({**json.loads(file.read_text()), "fitted": {**fitted, "attack": "pgd linf"}}))
    told = dict(facts_table([read_run(run)]).rows)["Fitted"][0].text
    assert told.splitlines()[0] == "scale 0.61, power 3.5, shift -2.25, strength 70.5"
    assert told.endswith("wrong on clean images and kept: 0.4\npgd linf")
    assert "Made of" not in dict(facts_table([read_run(make_run(tmp_path / "plain", CLEAN))]).rows)
