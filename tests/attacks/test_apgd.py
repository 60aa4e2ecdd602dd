"""Auto-PGD: the published checkpoints, the exact optimum, and the same answers as an independent implementation."""

from dataclasses import replace

import pytest
import torch

from holdfast.attacks import APGD, TargetedAPGD
from holdfast.attacks.apgd import State, checkpoints
from holdfast.attacks.apgd_targeted import likeliest_others
from holdfast.losses import (
    cross_entropy,
    difference_of_logits_ratio,
    margin,
    targeted_difference_of_logits_ratio,
)
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import digits, digits_cnn, half_space, half_space_distance, half_space_points, images, linear

KINDS = [Linf, L2, L1]


def lost(model, z, y):
    with torch.no_grad():
        return model(z).argmax(1) != y


def test_checkpoints_are_the_published_ones():
    # 0.22, then distances that shrink by 0.03 down to 0.06 of the steps (Croce and Hein 2020, section 3.2)
    assert checkpoints(100) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert checkpoints(1) == [1]


@pytest.mark.parametrize("make", [lambda t: APGD(threat=t, steps=60), lambda t: TargetedAPGD(threat=t, steps=60)])
@pytest.mark.parametrize("kind", KINDS)
def test_breaks_a_half_space_where_that_is_possible_and_never_elsewhere(kind, make):
    model = half_space()
    x, y = half_space_points(model)
    distance = half_space_distance(model, x, kind.__name__.lower())
    for share in (0.97, 1.03):
        eps = float(share * distance.median())
        broken = lost(model, make(kind(eps))(model, x, y), y)
        assert not broken[distance > eps].any()
        assert broken[distance < eps * (0.8 if kind is L1 else 1)].all()  # l1's optimum is one coordinate: slow


@pytest.mark.parametrize("loss", [cross_entropy, margin, difference_of_logits_ratio])
@pytest.mark.parametrize("kind", [Linf, L2])
def test_climbs_a_linear_model_to_the_corner(kind, loss):
    model, x = linear(2), torch.full((5, 1, 4, 4), 0.5, dtype=torch.float64)
    y = torch.zeros(5, dtype=torch.int64)
    threat = kind(0.05)
    z = APGD(threat=threat, steps=40, loss=loss, until_lost=False)(model, x, y)
    grad = torch.autograd.grad((model(probe := x.clone().requires_grad_()) * torch.tensor([-1.0, 1.0])).sum(), probe)[0]
    torch.testing.assert_close(z, threat.extreme(grad, x), atol=1e-3, rtol=0)


def test_a_step_is_halved_where_too_few_steps_raised_the_loss_or_nothing_moved():
    value = torch.zeros(3)
    state = State.at(torch.zeros(3, 2), value, torch.zeros(3, 2), step=1.0)
    for rise in range(4):  # first example: 4 of 4 steps rise; second: 3 of 4; third: 4 of 4
        value = value + torch.tensor([1.0, 1.0 if rise else -1.0, 1.0])
        state = state.moved(torch.full((3, 2), rise + 1.0), value, torch.full((3, 2), rise + 1.0))
    after = state.adapted(4)
    assert after.step.tolist() == [1.0, 0.5, 1.0]
    assert after.halved.tolist() == [False, True, False]
    for _ in range(4):  # nothing gets better: not halved last time, so halved now
        after = after.moved(torch.full((3, 2), 9.0), after.value - 1, torch.full((3, 2), 9.0))
    again = after.adapted(4)
    assert again.step.tolist() == [0.5, 0.25, 0.5]
    assert torch.equal(again.z, after.best)
    assert torch.equal(again.grad, after.best_grad)


def test_the_targeted_ratio_is_as_printed_and_falls_back_below_four_classes():
    logits = torch.tensor([[5.0, 3.0, 2.0, 1.0, 0.0]], dtype=torch.float64)
    pairs = torch.tensor([[0, 3]])
    assert targeted_difference_of_logits_ratio(logits, pairs).item() == pytest.approx((1 - 5) / (5 - (2 + 1) / 2))
    assert targeted_difference_of_logits_ratio(logits[:, :3], torch.tensor([[0, 2]])).item() == pytest.approx(2 - 5)


def test_targets_are_the_likeliest_wrong_classes():
    logits = torch.tensor([[1.0, 9.0, 3.0, 2.0], [1.0, 9.0, 3.0, 2.0]])
    assert likeliest_others(logits, torch.tensor([1, 2]), 2).tolist() == [[2, 3], [1, 3]]
    assert likeliest_others(logits, torch.tensor([1, 2]), 9).shape == (2, 3)


def test_queries_are_one_look_and_one_gradient_per_step_and_target():
    model, x = linear(5), images(3)
    with torch.no_grad():
        y = model(x).argmax(1)
    counts = torch.zeros(3, dtype=torch.int64)
    APGD(threat=Linf(1e-6), steps=7, restarts=2)(Counted(model, counts), x, y)
    assert counts.tolist() == [1 + 2 * 8] * 3
    counts.zero_()
    TargetedAPGD(threat=Linf(1e-6), steps=7, targets=3)(Counted(model, counts), x, y)
    assert counts.tolist() == [1 + 3 * 8] * 3


def test_the_targets_of_an_example_start_apart():
    streams = Streams(0, "a", 2).spread(3)
    draws = streams.normal(torch.empty(6, 4))
    assert len({tuple(row.tolist()) for row in draws}) == 6
    assert torch.equal(draws[3:], Streams(0, "a", [1]).spread(3).normal(torch.empty(3, 4)))


@pytest.mark.parametrize(("threat", "norm"), [(Linf(0.08), "Linf"), (L2(0.5), "L2"), (L1(1.5), "L1")])
@pytest.mark.parametrize("targeted", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["ce", "targeted"])
def test_breaks_what_the_reference_breaks(threat, norm, targeted):
    reference = pytest.importorskip("pyautoattack.autopgd_base")
    model = digits_cnn().float().eval()
    x, y = digits()
    x, y = x[:100].float(), y[:100]
    kind = reference.APGDAttack_targeted if targeted else reference.APGDAttack
    steps = 50
    peer = kind(model, norm=norm, eps=threat.eps, n_iter=steps, device="cpu", seed=0, use_largereps=norm == "L1")
    theirs = lost(model, peer.perturb(x, y), y)
    ours = lost(model, (TargetedAPGD if targeted else APGD)(threat=threat, steps=steps)(model, x, y), y)
    # In l1 the random start matters: with seeds 0 to 3, 48 to 53 of 100 stand after the reference and any two of its
    # runs differ in 7 to 13 examples; 49 to 54 stand after ours, and any two of ours differ in 5 to 8.
    assert abs(int(ours.sum()) - int(theirs.sum())) <= (5 if norm == "L1" else 1)
    assert (ours != theirs).sum() <= (13 if norm == "L1" else 2)


def test_towards_targets_to_the_end_finds_the_corner_of_highest_loss():
    model, x = linear(3), images(8)
    y = model(x).argmax(1)
    y[:3] = (y[:3] + 1) % 3  # wrong before any attack
    quick = TargetedAPGD(threat=Linf(0.2), steps=60, targets=2)
    first, last = quick(model, x, y), replace(quick, until_lost=False)(model, x, y)
    assert torch.equal(first[:3], x[:3])
    best = torch.full((8,), -torch.inf, dtype=x.dtype)
    for away in (1, 2):  # below four classes the loss is the lead of the target, linear in the image
        target = (y + away) % 3
        corner = (x + 0.2 * (model.weight[target] - model.weight[y]).sign().view_as(x)).clamp(0, 1)
        logits = model(corner)
        best = torch.maximum(best, (logits.gather(1, target[:, None]) - logits.gather(1, y[:, None]))[:, 0])
    torch.testing.assert_close(margin(model(last), y), best, rtol=0.0, atol=1e-6)
    assert bool((margin(model(first), y) < best - 1e-3).any())
