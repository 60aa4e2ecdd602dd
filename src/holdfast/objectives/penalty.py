"""Input gradients with their graph, so that training can lower them.

`gradients.py` has those of attacks and analyses, which are detached. Here the graph is kept: functions of a gradient
can be differentiated with respect to the weights. Losses are summed over the batch, so that gradients are per example;
this holds only where no layer mixes examples, which BatchNorm in train mode does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.gradients import NO_GRADIENT
from holdfast.types import Classifier, Loss


@dataclass(frozen=True)
class Slope:
    """A loss and its input gradient at each point; all but the points have a graph to the weights.

    Args:
        points: the points, a leaf of the graph, (N, ...).
        logits: (N, K).
        values: values of the loss, (N,).
        gradient: like the points.
    """

    points: Tensor
    logits: Tensor
    values: Tensor
    gradient: Tensor


def slope(loss: Loss, model: Classifier, points: Tensor, y: Tensor) -> Slope:
    """Loss and gradient at some points, which are detached: one forward and one backward pass.

    Raises:
        ModelError: where there is no gradient.
    """
    with torch.enable_grad():
        points = points.detach().requires_grad_()
        logits = model(points)
        values = loss(logits, y)
        return Slope(points, logits, values, gradient_of(values.sum(), points))


def same_randomness(device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """Make a context that repeats the random numbers that layers such as dropout draw from now on.

    Two gradients whose difference is taken must be those of the same network.
    """
    cuda = device.type == "cuda"
    state = torch.cuda.get_rng_state(device) if cuda else torch.get_rng_state()

    @contextmanager
    def again() -> Iterator[None]:
        with torch.random.fork_rng(devices=[device] if cuda else []):
            if cuda:
                torch.cuda.set_rng_state(state, device)
            else:
                torch.set_rng_state(state)
            yield

    return again


def gradient_of(total: Tensor, points: Tensor) -> Tensor:
    """Gradient of a scalar, with its graph.

    Raises:
        ModelError: where there is none.
    """
    if not total.requires_grad:
        raise ModelError(NO_GRADIENT)
    (gradient,) = torch.autograd.grad(total, points, create_graph=True, allow_unused=True)
    if gradient is None:
        raise ModelError(NO_GRADIENT)
    return gradient


def hessian_product(around: Slope, vector: Tensor) -> Tensor:
    """Each example's input Hessian times its vector, exact and with its graph; one backward pass."""
    if not around.gradient.requires_grad:
        return torch.zeros_like(vector)
    (product,) = torch.autograd.grad(around.gradient, around.points, vector, create_graph=True, allow_unused=True)
    return torch.zeros_like(vector) if product is None else product  # a loss that is linear in its input does not bend


def inner(first: Tensor, second: Tensor) -> Tensor:
    """Inner product of each example, (N,)."""
    return (first * second).flatten(1).sum(1)
