import copy

import pytest
import torch
from torch import nn

from holdfast.attacks import PGD
from holdfast.corruptions import GaussianNoise
from holdfast.errors import ModelError
from holdfast.objectives import (
    AWP,
    MMA,
    SOAR,
    TRADES,
    Adversarial,
    Discriminative,
    Fast,
    Free,
    Noisy,
    Passes,
    Standard,
)
from holdfast.objectives.awp import perturbation
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module
from holdfast.threat import Linf
from tests.zoo import Normed, images, labels, linear, normed, smooth

COUNT = 6
X, Y = images(COUNT), labels(COUNT, 5)
BALL = Linf(0.1)


def rng():
    return Streams(2, "awp", COUNT)


def by_hand(objective, model, gamma):
    """Gradients at weights that really were perturbed, in a copy of the network."""
    worse = copy.deepcopy(model)
    grads = torch.autograd.grad(objective(worse).total, list(worse.parameters()))
    with torch.no_grad():
        for weight, grad in zip(worse.parameters(), grads, strict=True):
            if weight.dim() > 1:
                weight += gamma * weight.norm() * grad / grad.norm()
    terms = objective(worse)
    return terms.total, torch.autograd.grad(terms.total, list(worse.parameters()))


@pytest.mark.parametrize("make", [linear, smooth])
def test_training_sees_the_gradient_at_the_perturbed_weights(make):
    model = make(5)
    expected, grads = by_hand(lambda network: Standard()(network, X, Y), model, 0.1)
    terms = AWP(objective=Standard(), gamma=0.1)(model, X, Y)
    torch.testing.assert_close(terms.total, expected)
    torch.testing.assert_close(torch.autograd.grad(terms.total, list(model.parameters())), grads)
    assert float(terms.total.detach()) > float(terms.parts["unperturbed"])
    torch.testing.assert_close(terms.parts["unperturbed"], Standard()(model, X, Y).total.detach())


def test_the_perturbation_is_as_long_as_said_in_each_layer():
    model = smooth(5)
    weights = [weight for weight in model.parameters() if weight.dim() > 1]
    moves = perturbation(Standard()(model, X, Y).total, weights, 0.02)
    for weight, move in zip(weights, moves, strict=True):
        torch.testing.assert_close(move.norm(), 0.02 * weight.detach().norm())
        assert not move.requires_grad


def test_a_weight_without_a_gradient_stays():
    weight = torch.ones(2, 2, requires_grad=True)
    total = (0 * weight).sum()
    assert torch.equal(perturbation(total, [weight], 0.1)[0], torch.zeros(2, 2))


OBJECTIVES = {
    "standard": Standard(),
    "trades": TRADES(threat=BALL, steps=2),
    "mma": MMA(threat=BALL, steps=2, least=0.05),
    "soar": SOAR(threat=BALL, clip=None),
    "discriminative": Discriminative(noise=GaussianNoise(0.2), delta_v=0.1),
}


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_weights_stay_as_they_are_to_the_bit(objective):
    model = Normed(classes=5, dropout=0.0).double().train()
    with same_module(model, buffers=False):
        AWP(objective=objective, gamma=0.1)(model, X, Y, rng=rng())
    for parameter in model.parameters():
        assert parameter.is_leaf


def test_statistics_move_as_without_the_perturbation_and_only_once():
    model = normed(5, dropout=0.0).train()
    twin = copy.deepcopy(model)
    AWP(objective=Standard(), gamma=0.1)(model, X, Y)
    assert int(model.norm.num_batches_tracked) == 1
    Standard()(twin, X, Y)
    assert not torch.equal(model.norm.running_mean, twin.norm.running_mean)  # those of the perturbed network


@pytest.mark.parametrize("objective", [TRADES(threat=BALL, steps=3), MMA(threat=BALL, steps=2, least=0.05)])
def test_an_objective_that_searches_does_so_once_at_the_weights(objective):
    model = smooth(5)
    with torch.no_grad():
        y = model(X).argmax(1)
    plain, awp = (one.hooks.start(model, 5, torch.arange(COUNT)) for one in (objective, AWP(objective=objective)))
    found = plain.search(model, X, y, rng=rng())
    points = getattr(found, "points", found)
    seen = []
    handle = model.register_forward_hook(lambda _, given, __: seen.append(given[0].detach()))
    awp(model, X, y, rng=rng())
    handle.remove()
    last = [z for z in seen if z.shape == points.shape and torch.equal(z, points)]
    assert len(last) >= 2  # once for the perturbation, once at the perturbed weights
    if isinstance(objective, MMA):
        assert torch.equal(awp.inner.budgets, plain.budgets)


def test_others_are_asked_twice_with_the_same_random_numbers():
    model, seen = linear(5), []
    model.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    AWP(objective=Noisy(sigma=0.2))(model, X, Y, rng=rng())
    assert len(seen) == 2
    assert torch.equal(*seen)


def test_what_an_objective_remembers_moves_once():
    model = Normed(classes=5, dropout=0.0).double()
    objective = Discriminative(noise=GaussianNoise(0.2), momentum=0.5)
    started = AWP(objective=objective, gamma=1e-12).hooks.start(model, 5, torch.arange(COUNT))
    plain = objective.hooks.start(model, 5, torch.arange(COUNT))
    for shift in (0.0, 0.1):
        started(model, X + shift, Y, rng=rng())
        plain(model, X + shift, Y, rng=rng())
    torch.testing.assert_close(started.inner.centroids, plain.centroids)


def test_the_first_steps_are_without():
    model = linear(5)
    work = AWP(objective=Standard(), gamma=0.1, warmup=2).hooks.start(linear(5), 5, torch.arange(COUNT))
    plain = Standard()(model, X, Y).total
    totals = [work(model, X, Y).total for _ in range(3)]
    assert torch.equal(totals[0], plain)
    assert torch.equal(totals[1], plain)
    assert float(totals[2].detach()) > float(plain.detach())


def test_states_the_passes_of_the_objective_and_its_loss_once_more():
    pgd = Adversarial(attack=PGD(threat=BALL, steps=3, until_lost=False))
    assert AWP(objective=pgd).passes == pgd.passes + Passes(1, 1)
    assert AWP(objective=TRADES(threat=BALL)).passes == TRADES(threat=BALL).passes + Passes(2, 2)
    assert AWP(objective=Noisy()).passes == Passes(2, 2)
    assert AWP(objective=pgd).soft_labels
    assert not AWP(objective=MMA(threat=BALL)).soft_labels


def test_tells_the_alarm_of_its_objective():
    model = linear(5)
    work = AWP(objective=Fast(threat=BALL)).hooks.start(model, 5, torch.arange(COUNT))
    assert work.hooks.alarm() is None
    work.inner.step, work.inner.accuracies = torch.tensor(1), torch.tensor([1.0, 0.0]).double()
    assert work.hooks.alarm().startswith("catastrophic overfitting")
    assert AWP(objective=Standard()).hooks.start(model, 5, torch.arange(COUNT)).hooks.alarm() is None


def test_what_it_cannot_perturb_is_refused():
    with pytest.raises(ModelError, match="awp needs a network with weights to perturb, got function"):
        AWP(objective=Standard())(lambda x: x.flatten(1)[:, :5], X, Y)
    with pytest.raises(ValueError, match="expected one that takes one step for each batch, got one with replays"):
        AWP(objective=Free(threat=BALL))
    with pytest.raises(ValueError, match="gamma must be positive, got 0"):
        AWP(objective=Standard(), gamma=0.0)


def test_weights_that_have_two_names_or_two_places_come_back():
    """Fabric's wrapper knows the network twice; a network may use a weight twice."""

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = self.two = nn.Linear(16, 16).double()
            self.head = nn.Linear(16, 5).double()
            self.other = nn.Linear(16, 16).double()
            self.other.weight = self.one.weight

        def forward(self, x):
            return self.head(self.other(self.two(x.flatten(1))))

    model = Wrapped()
    before = {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}
    expected, grads = by_hand(lambda network: Standard()(network, X, Y), model, 0.1)
    terms = AWP(objective=Standard(), gamma=0.1)(model, X, Y)
    assert before == {name: id(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}
    torch.testing.assert_close(terms.total, expected)
    torch.testing.assert_close(torch.autograd.grad(terms.total, list(model.parameters())), grads)
