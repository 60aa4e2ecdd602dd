r"""Flatness: the mean loss at a distance from the network's parameters, in random directions.

.. math:: L(\rho) = E_u\, L(\theta + \rho\, u)

:math:`u` is uniform on the unit sphere of all parameters. With `by_filter`, every filter is moved in a random direction
by :math:`\rho` times its own length instead, and vectors (biases, normalisation) stay: then networks whose weights
differ in scale alone are alike.

Reference:
    Li et al., Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018, arXiv:1712.09913, section 4 (filters).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.types import Loss


@dataclass(frozen=True)
class Level:
    r"""Losses at one distance.

    Args:
        radius: :math:`\rho`.
        losses: mean loss over the images for each draw.
        errors: share of wrong answers for each draw.
    """

    radius: float
    losses: tuple[float, ...]
    errors: tuple[float, ...]


@in_evaluation_mode
def flatness(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    radii: Sequence[float],
    draws: int = 50,
    by_filter: bool = False,
    loss: Loss = cross_entropy,
    batch_size: int = 256,
    seed: int = 0,
) -> Iterator[Level]:
    r"""Losses at growing distances; the same directions serve for all of them.

    The network is called with other parameters and keeps its own; it is used in evaluation mode.

    Args:
        model: the network.
        x: images, (N, ...).
        y: labels, (N,).
        radii: :math:`\rho`, in the order in which they are yielded.
        draws: directions.
        by_filter: move every filter in proportion to its length.
        loss: per example.
        batch_size: images of a forward pass.
        seed: of the directions.
    """
    if draws < 1 or not all(0 <= radius < float("inf") for radius in radii):
        raise ValueError(f"draws must be at least 1 and radii finite from 0 on, got {draws} and {list(radii)}")
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if not parameters:
        raise ModelError("flatness: expected a network with parameters, got one without")
    for radius in radii:
        measured = []
        for draw in range(draws if radius else 1):
            moved = {
                name: parameters[name] + radius * change
                for name, change in directions(parameters, draw, by_filter=by_filter, seed=seed).items()
            }
            measured.append(_judge(model, {**parameters, **moved}, x, y, loss, batch_size))
        losses, errors = zip(*measured, strict=True)
        yield Level(radius, losses, errors)


def directions(
    parameters: Mapping[str, Tensor], draw: int, *, by_filter: bool = False, seed: int = 0
) -> dict[str, Tensor]:
    """A random direction for each parameter that moves, together of length 1 or each filter as long as its own."""
    rng = Streams(seed, "flatness", [draw])
    drawn = {
        name: rng.split(name).normal(value[None])[0]
        for name, value in parameters.items()
        if value.is_floating_point() and (value.dim() > 1 or not by_filter)
    }
    if by_filter:
        return {name: change * (_lengths(parameters[name]) / _lengths(change)) for name, change in drawn.items()}
    total = torch.stack([change.double().square().sum().cpu() for change in drawn.values()]).sum().sqrt()
    return {name: change / total.to(change) for name, change in drawn.items()}


def _lengths(weight: Tensor) -> Tensor:
    """The length of each filter, to be broadcast."""
    length: Tensor = torch.linalg.vector_norm(weight.flatten(1), dim=1)
    return length.view(-1, *[1] * (weight.dim() - 1))


@torch.no_grad()
def _judge(
    model: nn.Module, parameters: Mapping[str, Tensor], x: Tensor, y: Tensor, loss: Loss, batch_size: int
) -> tuple[float, float]:
    """Mean loss and share of wrong answers with these parameters."""
    total, wrong = 0.0, 0
    for first in range(0, len(x), batch_size):
        here = slice(first, first + batch_size)
        logits = functional_call(model, dict(parameters), (x[here],))
        total += float(loss(logits, y[here]).double().sum())
        wrong += int((logits.argmax(1) != y[here]).sum())
    return total / len(x), wrong / len(x)
