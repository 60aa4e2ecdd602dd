"""What every attack promises, as functions of an attack, so that broken attacks can be shown to fail them."""

import torch

from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from holdfast.traits import Access, traits_of
from tests.zoo import frozen_norm, images, labels, linear, normed, smooth

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
"""Relative to eps: how far rounding may carry a point outside."""


def check_stays_inside(attack, model, x, y, **arguments):
    """The result lies in the box exactly and in the ball up to rounding, and has shape, dtype, device of x."""
    z = attack(model, x, y, **arguments)
    assert z.shape == x.shape
    assert z.dtype == x.dtype
    assert z.device == x.device
    assert not z.requires_grad, "the result hangs on a graph"
    assert bool(torch.isfinite(z).all())
    assert bool(((z >= 0) & (z <= 1)).all()), "outside the box"
    slack = TOLERANCE[x.dtype] * (attack.threat.eps + len(x[0].flatten()) ** 0.5)
    farthest = float(attack.threat.distance(z, x.detach()).max())
    assert farthest <= attack.threat.eps + slack, f"distance {farthest} exceeds eps {attack.threat.eps}"
    return z


def check_leaves_everything_alone(attack):
    """Inputs, labels, weights, .grad, requires_grad, modes, buffers and the global random states."""
    x, y = images(6), labels(6, 3)
    for model in (normed(), frozen_norm()):
        for number, parameter in enumerate(model.parameters()):
            parameter.grad = torch.full_like(parameter, 0.5) if number % 2 else None
        model.convolution.bias.requires_grad_(False)
        with same_random_states(), same_module(model), same_tensors(x, y):
            attack(model, x, y)
        attached = x.clone().requires_grad_()
        with same_module(model), same_tensors(attached):
            check_stays_inside(attack, model, attached, y)
        assert attached.grad is None


def check_same_seed_same_bits(attack):
    """The same streams give the same bits, whatever the global seed; none given means seed 0 and 0, 1, 2, ..."""
    model, x, y = smooth(), images(6), labels(6, 5)
    first = attack(model, x, y, rng=Streams(3, "a", 6))
    torch.rand(1)
    assert torch.equal(first, attack(model, x, y, rng=Streams(3, "a", 6)))
    assert torch.equal(attack(model, x, y), attack(model, x, y, rng=Streams(0, "", 6)))


def check_same_outcome_for_any_batch_size(attack, *, count=15):
    """Batches of 1, 7 and all agree up to rounding in float64."""
    model, x, y, rng = smooth(), images(count), labels(count, 5), Streams(1, "b", count)
    whole = attack(model, x, y, rng=rng)
    for size in (1, 7):
        rows = torch.arange(count).split(size)
        parts = torch.cat([attack(model, x[r], y[r], rng=Streams(1, "b", r)) for r in rows])
        torch.testing.assert_close(parts, whole, rtol=0, atol=1e-9)


def check_independent_of_order(attack, *, count=10):
    """A shuffled batch, with the streams of its examples, gives the shuffled result."""
    model, x, y, rng = smooth(), images(count), labels(count, 5), Streams(1, "b", count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    shuffled = attack(model, x[order], y[order], rng=Streams(1, "b", order))
    torch.testing.assert_close(shuffled, attack(model, x, y, rng=rng)[order], rtol=0, atol=1e-9)


def check_works_without_gradients_around(attack):
    """Under no_grad the result is the same."""
    model, x, y = smooth(), images(6), labels(6, 5)
    with torch.no_grad():
        quiet = attack(model, x, y)
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
    assert torch.equal(quiet, attack(model, x, y))


def check_works_in_inference_mode_or_names_it(attack):
    """Without gradients the result is the same; who needs them says that inference mode has none."""
    model, x, y = smooth(), images(6), labels(6, 5)
    outside, message = attack(model, x, y), ""
    with torch.inference_mode():
        try:
            inside = attack(model, x, y)
        except ModelError as error:
            message = str(error)
    assert "torch.inference_mode" in message or torch.equal(inside, outside)


def check_works_for_classes_and_dtypes(attack):
    """2, 3 and 100 classes, float32 and float64, targeted or not."""
    for classes in (2, 3, 100):
        for dtype in (torch.float32, torch.float64):
            model, x = linear(classes, dtype=dtype), images(6, dtype=dtype)
            y = labels(6, classes)
            check_stays_inside(attack, model, x, y)
            check_stays_inside(attack, model, x, y, target=(y + 1) % classes)


def check_never_worse_than_the_start(attack, *, may_give_up=False):
    """On linear models, where the loss is convex: the loss at the label is higher than the clean one."""
    for classes in (2, 5):
        model, x = linear(classes), images(20)
        with torch.no_grad():
            y = model(x).argmax(1)
        gain = _gain(model, x, attack(model, x, y), y)
        assert bool((gain >= 0).all() if may_give_up else (gain > 1e-3).all()), "the attack did not climb"
        assert bool((gain > 1e-3).any()), "the attack climbed nowhere"


def check_goes_to_its_target(attack, *, may_give_up=False):
    """On linear models: the loss at the target is lower than the clean one."""
    for classes in (2, 5):
        model, x = linear(classes), images(20)
        with torch.no_grad():
            y = model(x).argmax(1)
        target = (y + 1) % classes
        gain = _gain(model, x, attack(model, x, y, target=target), target)
        assert bool((gain <= 0).all() if may_give_up else (gain < -1e-3).all()), "the attack did not go to its target"
        assert bool((gain < -1e-3).any()), "the attack went nowhere"


def _gain(model, x, z, y):
    with torch.no_grad():
        return cross_entropy(model(z), y) - cross_entropy(model(x), y)


class _NoGradient(torch.autograd.Function):
    """The identity, which nobody may differentiate."""

    @staticmethod
    def forward(ctx, logits):
        return logits.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise AssertionError("the attack asked for a gradient")


def check_needs_no_more_access_than_it_states(attack):
    """Without gradients, or with the predicted class alone, an attack that states so finds the same."""
    model, x, y, access = smooth(), images(6), labels(6, 5), traits_of(attack).access
    assert access in set(Access), f"an attack states its access; got {access!r}"
    shown = {
        Access.SCORES: lambda z: _NoGradient.apply(model(z)),
        Access.DECISIONS: lambda z: torch.eye(5, dtype=z.dtype)[model(z).argmax(1)],
    }
    if access in shown:
        torch.testing.assert_close(attack(shown[access], x, y), attack(model, x, y), rtol=0, atol=0)


ALL = (
    check_leaves_everything_alone,
    check_same_seed_same_bits,
    check_same_outcome_for_any_batch_size,
    check_independent_of_order,
    check_works_without_gradients_around,
    check_works_in_inference_mode_or_names_it,
    check_works_for_classes_and_dtypes,
    check_never_worse_than_the_start,
    check_goes_to_its_target,
    check_needs_no_more_access_than_it_states,
)

SUCCEEDS = (check_never_worse_than_the_start, check_goes_to_its_target)
"""Checks that ask an attack to change something."""
