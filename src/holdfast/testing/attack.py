"""What every attack promises, as functions of an attack; `check_attack` tries all of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.testing.networks import frozen_norm, images, labels, linear, smooth
from holdfast.testing.networks import normed as with_norm
from holdfast.testing.trial import require_kind, same_values, try_promises, with_gradients
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from holdfast.traits import Access, traits_of
from holdfast.types import Attack, Classifier

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
"""Relative to eps: how far rounding may carry a point outside."""


def check_attack(attack: Attack, *, may_give_up: bool = False, without: Collection[Callable[..., None]] = ()) -> None:
    """Try every promise on one attack, with its own threat, on small networks and images.

    Args:
        attack: the attack, with fields that make it quick.
        may_give_up: whether it may leave an image as it is, as attacks of one step or by random search do.
        without: promises of this module that it does not make, such as `check_goes_to_its_target`.

    Raises:
        AssertionError: naming the first promise that it breaks.
    """
    gives_up = {check: {"may_give_up": True} for check in SUCCEEDS if may_give_up}
    try_promises(Attack, attack, ALL, without=without, options=gives_up)


def check_stays_inside(attack: Attack, model: Classifier, x: Tensor, y: Tensor, **arguments: Any) -> Tensor:
    """The result lies in the box exactly and in the ball up to rounding, and has shape, dtype, device of x."""
    z = attack(model, x, y, **arguments)
    require_kind(z, Tensor, "a tensor of points")
    assert z.shape == x.shape, f"shape {tuple(z.shape)}, that of the images is {tuple(x.shape)}"
    assert z.dtype == x.dtype, f"{z.dtype}, the images are {x.dtype}"
    assert z.device == x.device, f"on {z.device}, the images are on {x.device}"
    assert not z.requires_grad, "the result still requires a gradient"
    assert bool(torch.isfinite(z).all()), "not all values are finite"
    assert bool(((z >= 0) & (z <= 1)).all()), "values outside [0, 1]"
    slack = TOLERANCE[x.dtype] * (attack.threat.eps + len(x[0].flatten()) ** 0.5)
    farthest = float(attack.threat.distance(z, x.detach()).max())
    assert farthest <= attack.threat.eps + slack, f"distance {farthest} exceeds eps {attack.threat.eps}"
    return z


def check_leaves_everything_alone(attack: Attack) -> None:
    """Inputs, labels, weights, .grad, requires_grad, modes, buffers and the global random states."""
    x, y = images(6), labels(6, 3)
    for model in map(with_gradients, (with_norm(), frozen_norm())):
        with same_random_states(), same_module(model), same_tensors(x, y):
            attack(model, x, y)
        attached = x.clone().requires_grad_()
        with same_module(model), same_tensors(attached):
            check_stays_inside(attack, model, attached, y)
        assert attached.grad is None, ".grad of the images changed"


def check_same_seed_same_bits(attack: Attack) -> None:
    """The same streams give the same bits, whatever the global seed; none given means seed 0 and 0, 1, 2, ..."""
    model, x, y = smooth(), images(6), labels(6, 5)
    first = attack(model, x, y, rng=Streams(3, "a", 6))
    torch.rand(1)
    again, none = attack(model, x, y, rng=Streams(3, "a", 6)), attack(model, x, y)
    assert torch.equal(first, again), "another result for the same streams"
    assert torch.equal(none, attack(model, x, y, rng=Streams(0, "", 6))), "rng=None differs from Streams(0)"


def check_same_outcome_for_any_batch_size(attack: Attack, *, count: int = 15) -> None:
    """Batches of 1, 7 and all agree up to rounding in float64."""
    model, x, y, rng = smooth(), images(count), labels(count, 5), Streams(1, "b", count)
    whole = attack(model, x, y, rng=rng)
    for size in (1, 7):
        rows = torch.split(torch.arange(count), size)
        parts = torch.cat([attack(model, x[r], y[r], rng=Streams(1, "b", r)) for r in rows])
        same_values(parts, whole, f"batches of {size} and of {count}")


def check_independent_of_order(attack: Attack, *, count: int = 10) -> None:
    """A shuffled batch, with the streams of its examples, gives the shuffled result."""
    model, x, y, rng = smooth(), images(count), labels(count, 5), Streams(1, "b", count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    shuffled = attack(model, x[order], y[order], rng=Streams(1, "b", order))
    same_values(shuffled, attack(model, x, y, rng=rng)[order], "a batch and the same shuffled")


def check_works_without_gradients_around(attack: Attack) -> None:
    """Under no_grad the result is the same."""
    model, x, y = smooth(), images(6), labels(6, 5)
    with torch.no_grad():
        quiet = attack(model, x, y)
        assert not torch.is_grad_enabled(), "gradients are on afterwards"
    assert torch.is_grad_enabled(), "gradients are off afterwards"
    assert torch.equal(quiet, attack(model, x, y)), "another result under no_grad"


def check_works_in_inference_mode_or_names_it(attack: Attack) -> None:
    """The result is the same in inference mode, or, of who needs gradients, an error of torch or one that names it."""
    model, x, y = smooth(), images(6), labels(6, 5)
    outside, message = attack(model, x, y), ""
    with torch.inference_mode():
        try:
            inside = attack(model, x, y)
        except ModelError as error:
            message = str(error)
        except RuntimeError:
            if traits_of(attack).access != Access.GRADIENTS:
                raise
            return  # as torch refuses gradients there
    assert "torch.inference_mode" in message or torch.equal(inside, outside), message or "another result"


def check_works_for_classes_and_dtypes(attack: Attack) -> None:
    """2, 3 and 100 classes, float32 and float64, targeted or not."""
    for classes in (2, 3, 100):
        for dtype in (torch.float32, torch.float64):
            model, x = linear(classes, dtype=dtype), images(6, dtype=dtype)
            y = labels(6, classes)
            check_stays_inside(attack, model, x, y)
            check_stays_inside(attack, model, x, y, target=(y + 1) % classes)


def check_never_worse_than_the_start(attack: Attack, *, may_give_up: bool = False) -> None:
    """On linear models, where the loss is convex: the loss at the label is higher than the clean one."""
    for classes in (2, 5):
        model, x = linear(classes), images(20)
        with torch.no_grad():
            y = model(x).argmax(1)
        gain = _gain(model, x, attack(model, x, y), y)
        assert bool((gain >= 0).all() if may_give_up else (gain > 1e-3).all()), "the attack did not climb"
        assert bool((gain > 1e-3).any()), "the attack climbed nowhere"


def check_goes_to_its_target(attack: Attack, *, may_give_up: bool = False) -> None:
    """On linear models: the loss at the target is lower than the clean one."""
    for classes in (2, 5):
        model, x = linear(classes), images(20)
        with torch.no_grad():
            y = model(x).argmax(1)
        target = (y + 1) % classes
        gain = _gain(model, x, attack(model, x, y, target=target), target)
        assert bool((gain <= 0).all() if may_give_up else (gain < -1e-3).all()), "the attack did not go to its target"
        assert bool((gain < -1e-3).any()), "the attack went nowhere"


def _gain(model: Classifier, x: Tensor, z: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return cross_entropy(model(z), y) - cross_entropy(model(x), y)


class _NoGradient(torch.autograd.Function):
    """The identity, which nobody may differentiate."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor) -> Tensor:
        """The same logits."""
        return logits.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Refuse."""
        raise AssertionError("the attack asked for a gradient")


def _never_called(z: Tensor) -> Tensor:
    raise AssertionError("the attack called the network")


def check_needs_no_more_access_than_it_states(attack: Attack) -> None:
    """Without gradients, with the predicted class alone, or without the network, who states so finds the same."""
    model, x, y, access = smooth(), images(6), labels(6, 5), traits_of(attack).access
    assert access in set(Access), f"an attack states its access; got {access!r}"
    shown: dict[Any, Classifier] = {
        Access.SCORES: lambda z: _NoGradient.apply(model(z)),  # type: ignore[no-untyped-call]
        Access.DECISIONS: lambda z: torch.eye(5, dtype=z.dtype)[model(z).argmax(1)],
        Access.NOTHING: _never_called,
    }
    if access in shown:
        result = attack(shown[access], x, y)
        assert torch.equal(result, attack(model, x, y)), f"it needs more than the {access} that it states"


ALL: tuple[Callable[..., None], ...] = (
    check_leaves_everything_alone,
    check_same_seed_same_bits,
    check_same_outcome_for_any_batch_size,
    check_independent_of_order,
    check_works_without_gradients_around,
    check_needs_no_more_access_than_it_states,
    check_works_in_inference_mode_or_names_it,
    check_works_for_classes_and_dtypes,
    check_never_worse_than_the_start,
    check_goes_to_its_target,
)

SUCCEEDS: tuple[Callable[..., None], ...] = (check_never_worse_than_the_start, check_goes_to_its_target)
"""Checks that ask an attack to change something."""
