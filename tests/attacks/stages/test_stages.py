"""Momentum, variance tuning, copies, reverse perturbations and ensembles, by the slopes that they make."""

import pytest
import torch
from torch import nn

from holdfast.attacks import PGD, TransferLoop
from holdfast.attacks.search import Aim
from holdfast.attacks.stages import (
    Climb,
    LossEnsemble,
    Momentum,
    ReversePerturbation,
    ScaleCopies,
    Variance,
)
from holdfast.attacks.stages.momentum import normalised
from holdfast.ensembles import Ensemble
from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import images, labels, linear, smooth

X = images(3, (2, 2, 2), low=0.3, high=0.7)


def climb(x=X, threat=None, steps=4, model=None, y=None):
    y = torch.zeros(len(x), dtype=torch.int64) if y is None else y
    return Climb(model, Aim.of(cross_entropy, y, None), threat or Linf(0.1), 0.01, steps, x)


class Recorder:
    """A slope that remembers where it was asked, and answers with a function of it."""

    def __init__(self, answer):
        self.answer, self.points = answer, []

    def __call__(self, z):
        self.points.append(z.clone())
        return self.answer(z)


def test_in_linf_a_slope_of_size_one_has_absolute_values_of_mean_one_zeros_included():
    slope = torch.tensor([[3.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    result = normalised(slope, Linf(0.1))
    assert torch.equal(result, torch.tensor([[3.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    assert torch.equal(normalised(slope * 1e-30, Linf(0.1)), result)


def test_in_l2_it_has_length_one():
    slope = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
    torch.testing.assert_close(normalised(slope, L2(0.1)), torch.tensor([[0.6, -0.8], [0.0, 0.0]]))


def test_momentum_is_the_decaying_sum_of_normalised_slopes():
    slopes = iter([torch.full_like(X, 2.0), torch.full_like(X, -0.5), torch.zeros_like(X)])
    direction = Momentum(decay=0.25)(lambda _: next(slopes), climb(), Streams(0, "", 3))
    result = [float(direction(X).mean()) for _ in range(3)]
    assert result == [1.0, 0.25 - 1.0, -0.75 * 0.25]


def test_a_look_ahead_asks_where_the_momentum_leads():
    slope, z = Recorder(lambda z: torch.full_like(z, 5.0)), X
    direction = Momentum(decay=0.5, look_ahead=True)(slope, climb(), Streams(0, "", 3))
    direction(z)
    direction(z + 0.01)
    assert torch.equal(slope.points[0], z)
    torch.testing.assert_close(slope.points[1], z + 0.01 + 0.5 * 0.01 * 1.0)


def test_variance_is_the_mean_slope_around_the_last_point_minus_the_one_there():
    slope = Recorder(lambda z: z**2)
    made = climb()
    tuned = Variance(neighbours=3, radius=1.5)(slope, made, Streams(0, "v", 3))
    assert torch.equal(tuned(X), X**2)
    near = slope.points[1:]
    assert len(near) == 3
    assert all(bool(((z - X).abs() <= 0.15).all()) for z in near)
    assert max(float((z - X).abs().max()) for z in near) > 0.13
    made.z = X + 0.05
    ahead = X + 0.08  # where momentum looks ahead; neighbours lie around the point itself
    torch.testing.assert_close(tuned(ahead), ahead**2 + sum(z**2 for z in near) / 3 - X**2)
    assert all(bool(((z - made.z).abs() <= 0.15).all()) for z in slope.points[5:])


def test_neighbours_are_images():
    x = torch.zeros(2, 1, 2, 2)
    slope = Recorder(torch.zeros_like)
    Variance(radius=3.0)(slope, climb(x), Streams(0, "v", 2))(x)
    assert all(float(z.min()) >= 0 for z in slope.points)


def test_copies_have_the_gradient_of_their_mean_loss():
    model, y = smooth(shape=(2, 2, 2)), labels(3, 5)
    z = X.clone().requires_grad_()
    mean = sum(cross_entropy(model(z / 2**i), y) for i in range(3)) / 3
    (expected,) = torch.autograd.grad(mean.sum(), z)
    made = climb(model=model, y=y)
    result = ScaleCopies(count=3)(made.gradient_of(model), made, Streams(0, "", 3))(X)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.1)], ids=["linf", "l2"])
def test_a_reverse_perturbation_goes_where_the_loss_is_lowest(threat):
    weight = torch.tensor([1.0, -2.0, 0.5, 1.0, -1.0, 2.0, 1.0, 1.0], dtype=torch.float64).view(2, 2, 2)
    slope = Recorder(lambda z: weight.expand_as(z))
    made = climb(threat=threat, steps=4)
    nearby = ReversePerturbation(radius=0.5, steps=8, start=0.5)(slope, made, Streams(0, "r", 3))
    made.step = 1
    nearby(X)
    assert torch.equal(slope.points.pop(), X)
    made.step = 2
    nearby(X)
    assert len(slope.points) == 9
    away = torch.sign(weight) if isinstance(threat, Linf) else weight / weight.norm()
    tolerance = 1e-12 if isinstance(threat, Linf) else 0.03
    torch.testing.assert_close(slope.points[-1], X - 0.05 * away, rtol=0, atol=tolerance)


def test_an_ensemble_answers_with_the_mean_of_logits_or_of_probabilities():
    first, second = linear(3, seed=1), linear(3, seed=2)
    x = images(4)
    logits, probabilities = Ensemble([first, second]), Ensemble([first, second], "probabilities")
    torch.testing.assert_close(logits(x), (first(x) + second(x)) / 2)
    torch.testing.assert_close(probabilities(x).exp(), (first(x).softmax(1) + second(x).softmax(1)) / 2)
    with pytest.raises(ValueError, match="logits or probabilities"):
        Ensemble([first], "votes")
    with pytest.raises(ValueError, match="needs members"):
        Ensemble([])


def gradients(models, x, y):
    z = x.clone().requires_grad_()
    losses = [cross_entropy(model(z), y).sum() for model in models]
    return [torch.autograd.grad(loss, z)[0] for loss in losses]


def test_an_ensemble_in_loss_has_the_mean_gradient_of_its_members():
    members, x, y = [smooth(seed=seed) for seed in (1, 2, 3)], images(4), labels(4, 5)
    model = Ensemble(members)
    made = climb(x, model=model, y=y)
    result = LossEnsemble()(made.gradient_of(model), made, Streams(0, "", 4))(x)
    torch.testing.assert_close(result, sum(gradients(members, x, y)) / 3, rtol=0, atol=1e-12)
    assert not torch.allclose(result, gradients([model], x, y)[0])


def test_members_take_turns():
    members, x, y = [smooth(seed=seed) for seed in (1, 2, 3)], images(4), labels(4, 5)
    made = climb(x, model=Ensemble(members), y=y)
    slope = LossEnsemble(count=2)(None, made, Streams(0, "", 4))
    each = gradients(members, x, y)
    for first, second in ((0, 1), (2, 0), (1, 2)):
        torch.testing.assert_close(slope(x), (each[first] + each[second]) / 2, rtol=0, atol=1e-12)


def test_passes_through_members_are_counted():
    counts = torch.zeros(4, dtype=torch.int64)
    attack = TransferLoop(threat=Linf(0.1), steps=3, stages=(LossEnsemble(),))
    model = Ensemble([smooth(seed=1), smooth(seed=2)])
    attack(Counted(model, counts), images(4), labels(4, 5))
    assert counts.tolist() == [6] * 4


def test_an_ensemble_in_loss_needs_an_ensemble_and_comes_first():
    with pytest.raises(ModelError, match="loss_ensemble: expected an ensemble of networks; got Sequential"):
        TransferLoop(threat=Linf(0.1), stages=(LossEnsemble(),))(smooth(), images(2), labels(2, 5))
    with pytest.raises(ValueError, match="expected loss_ensemble first"):
        TransferLoop(threat=Linf(0.1), stages=(Momentum(), LossEnsemble()))


def test_any_attack_climbs_an_ensemble():
    members, x = [linear(2, seed=1), linear(2, seed=2)], images(6, low=0.3, high=0.7)
    weight = sum(member.weight.detach()[1] - member.weight.detach()[0] for member in members).view(1, 1, 4, 4)
    z = PGD(threat=Linf(0.1), steps=10, random_start=False, until_lost=False)(
        Ensemble(members), x, torch.zeros(6, dtype=torch.int64)
    )
    torch.testing.assert_close(z, x + 0.1 * weight.sign())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Momentum(decay=-1), "decay must not be negative"),
        (lambda: Variance(neighbours=0), "expected neighbours and a radius"),
        (lambda: ScaleCopies(count=0), "count must be at least 1"),
        (lambda: ReversePerturbation(steps=0), "expected steps, a radius and a start"),
        (lambda: LossEnsemble(count=0), "count must be at least 1"),
        (lambda: TransferLoop(threat=L1(1.0)), "no l1 attack"),
    ],
)
def test_impossible_fields_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_weights_of_members_are_part_of_an_ensemble():
    members = [nn.Linear(2, 2), nn.Linear(2, 2)]
    assert len(list(Ensemble(members).parameters())) == 4
