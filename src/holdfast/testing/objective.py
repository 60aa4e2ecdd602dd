"""What every objective promises, as functions of an objective; `check_objective` tries all of it."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from holdfast.rng import Streams
from holdfast.testing.networks import frozen_norm, images, labels, linear, normed
from holdfast.testing.trial import require_kind, same_values, try_promises
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from holdfast.types import Objective, Terms

COUNT = 9
"""Examples of a batch."""


def check_objective(objective: Objective, *, without: Collection[Callable[[Objective], None]] = ()) -> None:
    """Try every promise on one objective, on small networks and images.

    Args:
        objective: the objective, with fields that make it quick.
        without: promises of this module that it does not make.

    Raises:
        AssertionError: naming the first promise that it breaks.
    """
    try_promises(Objective, objective, ALL, without=without)


def batch(classes: int = 3) -> tuple[Tensor, Tensor]:
    """Images and labels."""
    return images(COUNT), labels(COUNT, classes)


def check_trains(objective: Objective) -> None:
    """A finite scalar whose gradient reaches every parameter, with parts that are finite too."""
    model, (x, y) = normed(dropout=0.0).train(), batch()
    terms = objective(model, x, y, rng=Streams(0, "", COUNT))
    require_kind(terms, Terms, "Terms")
    for name, part in {"the total": terms.total, **terms.parts}.items():
        require_kind(part, Tensor, f"{name} to be a tensor")
        assert part.shape == (), f"{name} has shape {tuple(part.shape)}, expected a scalar"
        assert bool(part.isfinite()), f"{name} is not finite"
    weights = dict(model.named_parameters())
    assert terms.total.requires_grad, "the total does not depend on the weights"
    grads = torch.autograd.grad(terms.total, list(weights.values()), allow_unused=True)
    for name, grad in zip(weights, grads, strict=True):
        assert grad is not None, f"the total does not depend on the weights {name}"
        assert bool(grad.isfinite().all()), f"the gradient of {name} is not finite"
        # The bias before a BatchNorm in train mode has no effect, so its gradient is zero up to rounding.
        assert name == "convolution.bias" or float(grad.abs().max()) > 1e-9, f"the gradient of {name} is zero"


def check_leaves_everything_alone(objective: Objective) -> None:
    """Weights, .grad, modes, inputs and the global random states; frozen statistics stay frozen."""
    x, y = batch()
    for model in (frozen_norm(), normed(dropout=0.0).train(), normed()):
        frozen = not model.norm.training
        with same_random_states(), same_module(model, buffers=frozen), same_tensors(x, y):
            objective(model, x, y, rng=Streams(0, "", COUNT))


def check_same_streams_same_value(objective: Objective) -> None:
    """The same streams give the same bits; none given means seed 0."""
    model, (x, y) = frozen_norm(), batch()
    first, again = [objective(model, x, y, rng=Streams(4, "o", COUNT)).total for _ in range(2)]
    assert torch.equal(first, again), "another value for the same streams"
    none, zero = objective(model, x, y).total, objective(model, x, y, rng=Streams(0, "", COUNT)).total
    assert torch.equal(none, zero), "another value without streams than of seed 0"


def check_does_not_depend_on_the_order_of_the_batch(objective: Objective) -> None:
    """With frozen statistics a shuffled batch, with the streams of its examples, has the same terms."""
    model, (x, y) = frozen_norm(), batch()
    order = torch.tensor([4, 2, 8, 0, 1, 7, 3, 6, 5])
    first = objective(model, x, y, rng=Streams(4, "o", COUNT))
    shuffled = objective(model, x[order], y[order], rng=Streams(4, "o", order))
    assert first.parts.keys() == shuffled.parts.keys(), "other parts in another order"
    pairs = {"the total": (first.total, shuffled.total)}
    pairs |= {name: (part, shuffled.parts[name]) for name, part in first.parts.items()}
    for name, (one, other) in pairs.items():
        same_values(one, other, f"{name} of two orders", relative=1e-10, absolute=1e-12)


def check_descends(objective: Objective) -> None:
    """A small step down its gradient lowers it, on a linear network."""
    model, (x, y) = linear(3), batch()
    before = objective(model, x, y, rng=Streams(0, "", COUNT)).total
    grads = torch.autograd.grad(before, list(model.parameters()))
    with torch.no_grad():
        for parameter, grad in zip(model.parameters(), grads, strict=True):
            parameter.sub_(1e-3 * grad)
    after = objective(model, x, y, rng=Streams(0, "", COUNT)).total
    assert float(after.detach()) < float(before.detach()), f"{before.item():g} before and {after.item():g} after"


ALL: tuple[Callable[[Objective], None], ...] = (
    check_trains,
    check_leaves_everything_alone,
    check_same_streams_same_value,
    check_does_not_depend_on_the_order_of_the_batch,
    check_descends,
)
"""Every promise, one function each."""
