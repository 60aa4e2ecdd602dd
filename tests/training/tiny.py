"""Tiny runs on the digits: two epochs of three steps, and everything that two runs must have in common."""

import json
from collections import OrderedDict

import torch
from torch import nn

from holdfast.ensembles import AdaptiveCompositeOfRuns, GradientRatio
from holdfast.models import build, read_state
from holdfast.models.cnn import CNN
from holdfast.recipe import parse_recipes
from holdfast.runs import Run, prepare
from holdfast.training import fit
from tests.zoo import Normed

TEXT = """
name: tiny
data: {source: digits, validation: 0.4, subset: 40}
model: {mlp: {hidden: [8]}}
train: {epochs: 2, batch_size: 8, optimizer: {sgd: {lr: 0.1}}}
"""
TIMES = {"seconds", "step_seconds", "cost"}
RECORDS = 8  # three steps and one epoch, twice


def network():
    """BatchNorm and dropout, for recipes that name a factory."""
    return Normed(classes=10, side=8, dropout=0.5)


def frozen():
    """The same with nothing to train."""
    return network().requires_grad_(False)


def layered():
    """Layers that are called as the methods of other networks are, as in VGG networks."""
    return nn.Sequential(OrderedDict(features=nn.Flatten(), head=nn.Linear(64, 10)))


class Kinked(nn.Module):
    """A network whose loss is finite and whose gradient is not."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        logits = self.head(x.flatten(1))
        return logits + 0 * (logits - logits.detach()).abs().sqrt()


def kinked():
    """For recipes that name a factory."""
    return Kinked()


def adaptive():
    """A small adaptive composite of two networks that nobody trained."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        standard, robust = (build(CNN(blocks=((2,),), hidden=()), (1, 8, 8), 10, seed=seed) for seed in (1, 2))
        said = AdaptiveCompositeOfRuns(standard="a", robust="b", mixing=GradientRatio(gradients="largest"), width=0.02)
        return said.of(standard, robust, (1, 8, 8))


def recipe(*overrides):
    (read,) = parse_recipes(TEXT, overrides)
    return read


_PREPARED = {}
"""Images by what recipes state of them, which need not be hashable."""


def splits(of):
    key = repr(of.data), of.seed
    if key not in _PREPARED:
        _PREPARED[key] = prepare(of.data, of.seed)
    return _PREPARED[key]


def train(of, path, records=None):
    """Train in a directory, to the end or until so many records were seen; returns the records."""
    path.mkdir(parents=True, exist_ok=True)
    work, seen = fit(of, splits(of), Run(path), trust=True), []
    while records is None or len(seen) < records:
        record = next(work, None)
        if record is None:
            break
        seen.append(record)
    work.close()
    return seen


def metrics(path):
    """What `metrics.jsonl` says, without the times."""
    lines = Run(path).metrics.read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in TIMES} for line in lines]


def outcome(path):
    """Everything a run leaves behind that must not depend on where it was interrupted."""
    run = Run(path)
    weights = {
        label: _bits(read_state(run.weights(label))) for label in ("best", "last") if run.weights(label).exists()
    }
    state = torch.load(run.state, weights_only=True)
    untimed = {key: value for key, value in state.items() if key not in TIMES}
    return {"weights": weights, "metrics": metrics(path), "state": _bits(untimed)}


def _bits(value):
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), tuple(value.shape), value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    if isinstance(value, dict):
        return {key: _bits(inner) for key, inner in value.items()}
    return [_bits(inner) for inner in value] if isinstance(value, list | tuple) else value
