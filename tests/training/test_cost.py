"""Training says what its steps cost, and does not notice that somebody measures."""

import json
from types import SimpleNamespace

import pytest

from holdfast.objectives import Passes, Standard
from holdfast.objectives.hooks import Hooks
from holdfast.optim import SGD
from holdfast.runs import Run
from holdfast.testing.untouched import same_module, same_tensors
from holdfast.training import Cost, Epoch, loop
from holdfast.training.cost import standard_step
from tests.training.tiny import outcome, recipe, train
from tests.zoo import images, labels, normed


def epochs(records):
    return [record for record in records if isinstance(record, Epoch)]


def test_a_standard_step_leaves_network_and_batch_alone():
    model, x, y = normed(dropout=0.5).train(), images(8), labels(8, 3)
    with same_module(model), same_tensors(x, y):
        assert standard_step(model, SGD(), x, y) > 0


@pytest.mark.parametrize("settings", [["train.optimizer=adam"], ["train.fabric.precision=64-true"]])
def test_measuring_changes_nothing_that_training_does(tmp_path, monkeypatch, settings):
    of = recipe("model={python: 'tests.training.tiny:network'}", *settings)
    train(of, tmp_path / "measured")
    monkeypatch.setattr(loop, "standard_step", lambda *_: 1.0)
    train(of, tmp_path / "not")
    assert outcome(tmp_path / "measured") == outcome(tmp_path / "not")


def test_every_epoch_says_what_a_step_was_to_cost_and_did(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "standard_step", lambda *_: 0.5)
    of = recipe("train.objective.adversarial={pgd: {threat: {linf: 0.1}, steps: 7}}")
    for epoch in epochs(train(of, tmp_path)):
        assert (epoch.cost.forward, epoch.cost.backward, epoch.cost.standard_seconds) == (9, 8, 0.5)
        assert epoch.cost.expected == pytest.approx((9 + 16) / 3)
        assert epoch.cost.step_seconds > 0
    lines = [json.loads(line) for line in Run(tmp_path).metrics.read_text(encoding="utf-8").splitlines()]
    assert [line["cost"]["expected"] for line in lines] == [pytest.approx(25 / 3)] * 2


def test_all_replays_of_a_batch_are_one_step(tmp_path):
    (first, _) = epochs(train(recipe("train.objective.free={threat: {linf: 0.1}, replays: 3}"), tmp_path))
    assert (first.cost.forward, first.cost.expected, first.step) == (3, 3, 3)


def test_preparing_counts_as_a_part_of_the_epoch_and_of_its_steps(tmp_path, monkeypatch):
    minutes = []

    def prepare(index, like):
        for piece in (1, 2):
            minutes.append(piece)
            yield piece, 2

    monkeypatch.setattr(Standard, "hooks", Hooks(prepare=prepare), raising=False)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: 60.0 * len(minutes)))
    monkeypatch.setattr(loop, "now", lambda _: 0.0)
    for epoch in epochs(train(recipe(), tmp_path)):
        assert epoch.seconds == 120
        assert epoch.cost.step_seconds * 3 == 120  # three steps


def test_an_objective_that_states_no_passes_is_measured_all_the_same():
    assert Cost.of(2.0, 1.0, None) == Cost(2.0, 1.0, None, None, None)
    assert Cost.of(2.0, 1.0, Passes(3, 4)) == Cost(2.0, 1.0, 3, 4, pytest.approx(11 / 3))
