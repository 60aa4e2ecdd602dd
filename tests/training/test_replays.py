"""Several steps of the optimizer on each batch, and alarms in the record of an epoch."""

import json
import math

import torch
from torch import nn

from holdfast.losses import cross_entropy
from holdfast.models import read_state
from holdfast.objectives.fast import Watched
from holdfast.rng import permutation
from holdfast.runs import Run, new_model
from holdfast.threat import Linf
from holdfast.training import Epoch
from tests.training.tiny import recipe, splits, train


def test_free_training_does_what_its_algorithm_says(tmp_path):
    of = recipe("train.objective.free={threat: {linf: 0.1}, replays: 3}")
    train(of, tmp_path)
    model, data, ball, delta = new_model(of, splits(of)).train(), splits(of).train, Linf(0.1), torch.zeros(8, 1, 8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, nesterov=True, weight_decay=5e-4)
    for step in range(6):
        epoch, batch = divmod(step, 3)
        x, y = data.batch(permutation(len(data), 0, f"order of epoch {epoch}")[8 * batch : 8 * batch + 8])
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * (1 + math.cos(math.pi * step / 6)) / 2
        for _ in range(3):
            z = ball.project(x + delta, x).requires_grad_()
            optimizer.zero_grad()
            cross_entropy(model(z), y).mean().backward()
            optimizer.step()
            delta = ball.project(z.detach() + 0.1 * z.grad.sign(), x) - x
    found = read_state(Run(tmp_path).weights("last"))
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5)


def test_dropout_is_another_in_every_replay(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        nn.Dropout, "forward", lambda self, x: drawn.append(float(torch.rand(()))) or x if self.training else x
    )
    of = recipe(
        "train.objective.free={threat: {linf: 0.1}, replays: 2}", "model={python: 'tests.training.tiny:network'}"
    )
    train(of, tmp_path, 2)
    assert len(set(drawn)) == len(drawn) >= 4


def test_an_alarm_is_in_the_record_of_the_epoch(tmp_path, monkeypatch):
    monkeypatch.setattr(Watched, "alarm", lambda self: "all is lost" if int(self.step) > 3 else None)
    records = train(recipe("train.objective.fast={threat: {linf: 0.1}}"), tmp_path)
    assert [record.alarm for record in records if isinstance(record, Epoch)] == [None, "all is lost"]
    lines = Run(tmp_path).metrics.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["alarm"] for line in lines] == [None, "all is lost"]
    assert {"fast_accuracy", "pgd_accuracy"} <= json.loads(lines[0])["train"].keys()
