"""Interrupted anywhere and resumed, training ends with the same bits."""

import dataclasses
import os
import shutil

import pytest

from holdfast.objectives import OBJECTIVES
from holdfast.runs import Run
from holdfast.training import Epoch, Step, checkpoint, loop
from tests.contracts import cheap
from tests.tampering import put
from tests.training.tiny import RECORDS, outcome, recipe, train

SETTINGS = {
    "plain": [],
    "augmentations": ["data.augment=[{random_crop: 1}, horizontal_flip]"],
    "dropout and batch norm": ["model={python: 'tests.training.tiny:network'}"],
    "running mean": ["train.ema=0.9", "model={python: 'tests.training.tiny:network'}"],
    "clipping": ["train.clip=0.1"],
    "adam": ["train.optimizer=adam"],
    "adamw": ["train.optimizer=adamw"],
    "rmsprop": ["train.optimizer.rmsprop.momentum=0.5"],
    "signsgd": ["train.optimizer.signsgd.momentum=0.5"],
    "schedule with warm-up": ["train.schedule=one_cycle", "train.warmup=1"],
    "noisy": ["train.objective=noisy"],
    "clean and noisy": ["train.objective=clean_and_noisy"],
    "stability": ["train.objective=stability"],
    "centroids with momentum": ["train.objective.discriminative.momentum=0.5"],
    "centres": ["train.objective.center.weight=0.1"],
    "steps of an objective": ["train.objective.large_margin.annealing={base: 2, gamma: 0.5, power: 1}"],
    "adversarial": ["train.objective.adversarial={pgd: {threat: {linf: 0.1}, steps: 2, until_lost: false}}"],
    "targeted": ["train.objective.adversarial={attack: {pgd: {threat: {linf: 0.1}, steps: 1}}, target: random}"],
    "statistics of clean and adversarial images": [
        "train.objective.trades={threat: {linf: 0.1}, steps: 2, batch_stats: split}",
        "model={python: 'tests.training.tiny:network'}",
    ],
    "mart": ["train.objective.mart={threat: {l2: 0.5}, steps: 2}"],
    "budgets of examples": ["train.objective.mma={threat: {linf: 0.2}, steps: 2, least: 0.05}"],
    "an alarm": ["train.objective.fast={threat: {linf: 0.1}, alarm: {every: 2, examples: 4, steps: 2}}"],
    "replays": [
        "train.objective.free={threat: {linf: 0.1}, replays: 3}",
        "data.subset=37",
        "model={python: 'tests.training.tiny:network'}",
    ],
    "perturbed weights": [
        "train.objective.awp={objective: {mma: {threat: {linf: 0.2}, steps: 1, least: 0.05}}, gamma: 0.1, warmup: 2}",
        "model={python: 'tests.training.tiny:network'}",
    ],
    "robust selection": [
        "train.selection={metric: robust_accuracy, attack: {pgd: {threat: {linf: 0.1}, steps: 2}}, every: 2}"
    ],
    "no validation": ["data.validation=0", "data.subset=24"],
    "double precision": ["train.fabric.precision=64-true"],
    "a last batch of one is dropped": ["data.subset=42"],
    "a short last batch": ["data.subset=37"],
}


@pytest.mark.parametrize("overrides", SETTINGS.values(), ids=SETTINGS)
def test_stopped_after_any_record_it_ends_with_the_same_bits(tmp_path, overrides):
    of = recipe(*overrides)
    whole = train(of, tmp_path / "whole")
    assert len(whole) == RECORDS
    expected = outcome(tmp_path / "whole")
    for stop in range(RECORDS + 1):
        path = tmp_path / str(stop)
        before = train(of, path, stop)
        after = train(of, path)
        assert outcome(path) == expected, f"stopped after {stop} records"
        assert [type(r) for r in before + after] == [type(r) for r in whole]
        assert [r.loss for r in before + after if isinstance(r, Step)] == [r.loss for r in whole if isinstance(r, Step)]


MOMENTS = {"mscr", "zhen", "smoothed_cross_entropy"}
"""Objectives that propagate moments, which only some networks do."""


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_goes_on_to_the_same_bits(tmp_path, name):
    if name == "align":
        pytest.skip("its witnesses must be of the same images: tests/training/test_aligned_training.py")
    objective = cheap.bound(cheap.cheap(cheap.OBJECTIVES, name, "OBJECTIVES"), 10)
    model = "{lipschitz-mlp: {hidden: [8]}}" if name in MOMENTS else "{python: 'tests.training.tiny:network'}"
    if isinstance(objective, cheap.OfPolicy):
        objective, model = objective.objective, "{python: 'tests.training.tiny:adaptive'}"
    of = recipe(f"model={model}", "train.optimizer.sgd.lr=0.001")
    of = dataclasses.replace(of, train=dataclasses.replace(of.train, objective=objective))
    train(of, tmp_path / "whole")
    train(of, tmp_path / "stopped", 2)
    train(of, tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


def test_stopped_after_every_record_it_ends_with_the_same_bits(tmp_path):
    of = recipe(*SETTINGS["augmentations"], *SETTINGS["running mean"])
    train(of, tmp_path / "whole")
    for _ in range(RECORDS):
        assert len(train(of, tmp_path / "pieces", 1)) == 1
    assert outcome(tmp_path / "pieces") == outcome(tmp_path / "whole")


def test_early_stopping_stops_at_the_same_epoch_when_resumed(tmp_path):
    of = recipe("train.epochs=9", "train.optimizer.sgd.lr=1e-9", "train.selection.patience=2")
    whole = train(of, tmp_path / "whole")
    assert [r.best for r in whole if isinstance(r, Epoch)] == [True, True, True]
    expected = outcome(tmp_path / "whole")
    for stop in range(len(whole) + 1):
        train(of, tmp_path / str(stop), stop)
        train(of, tmp_path / str(stop))
        assert outcome(tmp_path / str(stop)) == expected


def test_a_finished_run_has_nothing_left_to_do(tmp_path):
    of = recipe()
    train(of, tmp_path)
    before = outcome(tmp_path)
    assert train(of, tmp_path) == []
    assert outcome(tmp_path) == before


def test_killed_between_any_two_writes_it_ends_with_the_same_bits(tmp_path, monkeypatch):
    """A kill leaves newer metrics and weights beside an older state; the directory is copied after every write."""
    of, copies, replace = recipe("train.ema=0.5"), [], os.replace

    def copying(source, target):
        replace(source, target)
        copies.append(tmp_path / f"after write {len(copies)}")
        shutil.copytree(tmp_path / "whole", copies[-1])

    monkeypatch.setattr(os, "replace", copying)
    monkeypatch.setattr(loop, "SAVE_SECONDS", -1.0)  # a state after every step
    monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 0.0)  # and files after every epoch
    train(of, tmp_path / "whole")
    monkeypatch.undo()
    expected = outcome(tmp_path / "whole")
    assert len(copies) >= 6 + 2 * 3 + 1  # states after steps; line, last and state after epochs; best at least once
    for copy in list(copies):
        lines = Run(copy).metrics
        if lines.exists():  # killed in the middle of a line
            copies.append(copy.with_name(f"{copy.name}, half a line"))
            shutil.copytree(copy, copies[-1])
            put(Run(copies[-1]).metrics, lines.read_text(encoding="utf-8") + '{"epoch": 2, "st')
    for copy in copies:
        train(of, copy)
        assert outcome(copy) == expected, copy.name


def test_epochs_that_end_within_a_second_are_written_together(tmp_path, monkeypatch):
    flushes, flush = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (flushes.append(handle), flush(handle)))
    monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 3600.0)
    train(recipe("train.epochs=20"), tmp_path / "together")
    assert len(flushes) < 20
    together = outcome(tmp_path / "together")
    monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 0.0)
    train(recipe("train.epochs=20"), tmp_path / "each")
    assert len(flushes) > 100
    assert outcome(tmp_path / "each") == together


def test_an_error_in_training_loses_no_epoch_that_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "FLUSH_SECONDS", 3600.0)
    advance = loop._Loop.advance

    def failing(self):
        if self.finished == 3:
            raise KeyboardInterrupt
        return advance(self)

    with monkeypatch.context() as patched:
        patched.setattr(loop._Loop, "advance", failing)
        with pytest.raises(KeyboardInterrupt):
            train(recipe("train.epochs=5"), tmp_path / "run")
    assert len(Run(tmp_path / "run").metrics.read_bytes().splitlines()) == 3
    train(recipe("train.epochs=5"), tmp_path / "run")
    monkeypatch.undo()
    train(recipe("train.epochs=5"), tmp_path / "whole")
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")
