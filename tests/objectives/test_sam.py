"""Sharpness-aware minimisation."""

import copy

import pytest
import torch
from torch import nn

from holdfast.attacks import PGD
from holdfast.errors import ModelError
from holdfast.objectives import SAM, TRADES, Adversarial, Free, Noisy, Passes, Standard
from holdfast.objectives.sam import ascent
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module
from holdfast.threat import Linf
from holdfast.types import Terms
from tests.zoo import Normed, images, labels, linear, smooth

COUNT = 6
X, Y = images(COUNT), labels(COUNT, 5)
BALL = Linf(0.1)


class Quadratic(nn.Module):
    """Two parameters, of which the objective below is a quadratic form."""

    def __init__(self, w):
        super().__init__()
        self.first, self.second = (nn.Parameter(part.clone()) for part in (w[:2], w[2:]))

    def forward(self, x):
        return torch.cat([self.first, self.second]) + 0 * x.sum()


@pytest.mark.parametrize("rho", [0.05, 1.0])
def test_of_a_quadratic_form_it_is_as_computed_by_hand(rho):
    r""":math:`L = \frac12 w^T A w` has :math:`e = \rho A w / \|A w\|` and the gradient :math:`A (w + e)` there."""
    root = torch.rand(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    a, w = root @ root.T, torch.tensor([1.0, -2.0, 0.5, 3.0, -1.0], dtype=torch.float64)
    model = Quadratic(w)
    form = lambda network, x, y, *, rng=None: Terms(0.5 * network(x) @ a @ network(x))  # noqa: E731
    terms = SAM(objective=form, rho=rho)(model, X, Y)
    there = w + rho * (a @ w) / (a @ w).norm()
    torch.testing.assert_close(terms.total, 0.5 * there @ a @ there)
    torch.testing.assert_close(torch.cat(torch.autograd.grad(terms.total, list(model.parameters()))), a @ there)
    torch.testing.assert_close(terms.parts["unperturbed"], 0.5 * w @ a @ w)


@pytest.mark.parametrize("make", [linear, smooth])
def test_training_sees_the_gradient_at_the_perturbed_weights(make):
    model = make(5)
    worse = copy.deepcopy(model)
    grads = torch.autograd.grad(Standard()(worse, X, Y).total, list(worse.parameters()))
    length = sum(grad.square().sum() for grad in grads).sqrt()
    with torch.no_grad():
        for weight, grad in zip(worse.parameters(), grads, strict=True):
            weight += 0.3 * grad / length
    expected = Standard()(worse, X, Y).total
    terms = SAM(rho=0.3)(model, X, Y)
    torch.testing.assert_close(terms.total, expected)
    torch.testing.assert_close(
        torch.autograd.grad(terms.total, list(model.parameters())),
        torch.autograd.grad(expected, list(worse.parameters())),
    )


def test_all_parts_together_are_as_long_as_said_and_nothing_moves_without_a_gradient():
    parts = ascent([torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])], 0.1)
    torch.testing.assert_close(parts, [torch.tensor([0.06, 0.0]), torch.tensor([[0.08]])])
    assert torch.equal(ascent([torch.zeros(2)], 0.1)[0], torch.zeros(2))
    assert ascent([], 0.1) == []


def test_weights_that_are_not_trained_are_not_perturbed():
    model = smooth(5)
    first = next(model.parameters()).requires_grad_(False)
    moved = [weight for weight, _ in SAM().moves(Standard()(model, X, Y).total, model)]
    assert len(moved) == len(list(model.parameters())) - 1
    assert all(weight is not first for weight in moved)


@pytest.mark.parametrize(
    ("objective", "batches"), [(Standard(), 1), (Noisy(sigma=0.2), 1), (TRADES(threat=BALL, steps=2), 2)]
)
def test_weights_stay_as_they_are_to_the_bit_and_statistics_see_each_batch_once(objective, batches):
    model = Normed(classes=5, dropout=0.0).double().train()
    with same_module(model, buffers=False):
        SAM(objective=objective, rho=0.5)(model, X, Y, rng=Streams(2, "sam", COUNT))
    assert int(model.norm.num_batches_tracked) == batches


def test_states_the_passes_of_the_objective_and_its_loss_once_more():
    pgd = Adversarial(attack=PGD(threat=BALL, steps=3, until_lost=False))
    assert SAM(objective=pgd).passes == pgd.passes + Passes(1, 1)
    assert SAM().passes == Passes(2, 2)
    assert SAM().soft_labels


def test_what_it_cannot_perturb_is_refused():
    with pytest.raises(ModelError, match="sam needs a network with weights to perturb, got function"):
        SAM()(lambda x: x.flatten(1)[:, :5], X, Y)
    with pytest.raises(ValueError, match="expected one that takes one step for each batch, got one with replays"):
        SAM(objective=Free(threat=BALL))
    with pytest.raises(ValueError, match="rho must be positive, got 0"):
        SAM(rho=0.0)
