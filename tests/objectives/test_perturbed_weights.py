"""What AWP and SAM share; the rest is in their own tests."""

import pytest
import torch

from holdfast.objectives import AWP, SAM, TRADES, Free, Passes, Standard
from holdfast.objectives.perturbed_weights import (
    Perturbed,
    require_single_steps,
    started,
    weight_gradients,
)
from holdfast.objectives.two_steps import TwoSteps
from holdfast.threat import Linf
from tests.zoo import images, labels, linear


def test_gradients_are_zero_where_there_is_none_and_constants():
    used, unused = torch.tensor([2.0], requires_grad=True), torch.ones(2, 2, requires_grad=True)
    first, second = weight_gradients(used.square().sum(), [used, unused])
    assert first.tolist() == [4]
    assert torch.equal(second, torch.zeros(2, 2))
    assert not first.requires_grad
    assert weight_gradients(used.sum(), []) == []


@pytest.mark.parametrize("kind", [AWP, SAM])
def test_passes_count_the_loss_twice_and_are_not_stated_where_the_objective_does_not(kind):
    trades = TRADES(threat=Linf(0.1))
    assert kind(objective=trades).passes == trades.passes + Passes(2, 2)
    assert kind(objective=lambda model, x, y, *, rng=None: None).passes is None


def test_objectives_with_replays_are_refused():
    require_single_steps(Standard())
    with pytest.raises(ValueError, match="expected one that takes one step for each batch"):
        require_single_steps(Free(threat=Linf(0.1)))


@pytest.mark.parametrize("kind", [AWP, SAM])
def test_the_objective_inside_is_started_and_follows_new_settings(kind):
    settings = kind(objective=TRADES(threat=Linf(0.1)))
    work = started(settings, linear(3), 3, torch.arange(4))
    assert isinstance(work, Perturbed)
    assert isinstance(work.inner, TwoSteps)
    smaller = kind(objective=TRADES(threat=Linf(0.05)))
    work.objective = smaller
    assert work.inner.objective == smaller.objective
    plain = started(kind(objective=Standard()), linear(3), 3, torch.arange(4))
    plain.objective = kind(objective=Standard(label_smoothing=0.1))
    assert plain.inner == Standard(label_smoothing=0.1)


@pytest.mark.parametrize("kind", [AWP, SAM])
def test_counts_its_steps(kind):
    model, work = linear(3), started(kind(objective=Standard()), linear(3), 3, torch.arange(4))
    for _ in range(2):
        work(model, images(4), labels(4, 3))
    assert work.state_dict()["step"] == 2
