"""An objective of one's own with every hook, as the training loop has it."""

import dataclasses

import pytest
import torch
from torch import nn

from holdfast.losses import cross_entropy
from holdfast.objectives.hooks import Hooks, hooks_of
from holdfast.training import Epoch, Preparation
from holdfast.types import Terms
from tests.training.tiny import outcome, recipe, splits, train


class Counter(nn.Module):
    """Remembers how often it was called, and what it was told before."""

    def __init__(self, objective, model, classes, examples):
        super().__init__()
        self.objective, self.classes, self.examples = objective, classes, examples
        self.parameters_met = sum(1 for _ in model.parameters())
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.pieces = 0
        objective.started.append(self)

    @property
    def hooks(self):
        return Hooks(meet=self.meet, prepare=self.prepare, alarm=self.alarm)

    def meet(self, train, validation, *, augmented):
        self.met = (len(train), len(validation), augmented)

    def prepare(self, index, like):
        self.prepared = (len(index), like.dtype)
        while self.pieces < 2:
            self.pieces += 1
            yield self.pieces, 2

    def alarm(self):
        return f"{int(self.calls)} calls"

    def forward(self, model, x, y, *, rng=None):
        self.calls = self.calls + 1
        return Terms(cross_entropy(model(x), y).mean(), {"calls": self.calls.double()})


@dataclasses.dataclass(frozen=True)
class Counting:
    started: list = dataclasses.field(default_factory=list, compare=False)

    @property
    def hooks(self):
        return Hooks(start=lambda *given: Counter(self, *given), replays=2)


def counted():
    of, objective = recipe(), Counting()
    return dataclasses.replace(of, train=dataclasses.replace(of.train, objective=objective)), objective


def test_the_loop_calls_every_hook(tmp_path, monkeypatch):
    of, objective = counted()
    monkeypatch.setattr("holdfast.training.loop.weights_content", lambda *args, **kwargs: b"")
    records = train(of, tmp_path)
    (work,) = objective.started
    images = splits(of)
    assert (work.classes, work.examples.tolist()) == (10, images.train.index.tolist())
    assert work.parameters_met == 4
    assert work.met == (len(images.train), len(images.validation), False)
    assert work.prepared == (len(images.train), torch.float32)
    assert [type(record) for record in records[:2]] == [Preparation, Preparation]
    epochs = [record for record in records if isinstance(record, Epoch)]
    assert [epoch.alarm for epoch in epochs] == ["6 calls", "12 calls"]  # three steps with two replays each


def test_what_is_remembered_goes_on_after_a_stop(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.training.loop.weights_content", lambda *args, **kwargs: b"")
    monkeypatch.setattr("tests.training.tiny.read_state", lambda path: {})
    train(counted()[0], tmp_path / "whole")
    train(counted()[0], tmp_path / "stopped", 4)
    train(counted()[0], tmp_path / "stopped")
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("objective", [object(), nn.Linear(1, 1), lambda model, x, y: None])
def test_an_objective_without_hooks_has_those_that_do_nothing(objective):
    hooks = hooks_of(objective)
    assert hooks == Hooks()
    assert (hooks.start, hooks.replays, hooks.search, hooks.loss) == (None, 1, None, None)
    assert hooks.meet([], None, augmented=False) is None
    assert list(hooks.prepare(torch.arange(3), torch.zeros(0))) == []
    assert hooks.alarm() is None
