r"""A lower bound of a network's Lipschitz constant: the steepest slope that a search finds.

.. math:: \max_{c, d} \frac{\|f(c + d/2) - f(c - d/2)\|_p}{\|d\|_p}

For a fixed centre :math:`c` and a short :math:`d` this is the norm of the Jacobian :math:`J`. Its steepest direction is
known where :math:`J` is: the coordinate of its largest column (:math:`\ell_1`), its first right singular vector
(:math:`\ell_2`), the signs of its largest row (:math:`\ell_\infty`). From there the direction is updated by the power
method for that norm, :math:`d \leftarrow \arg\max_{\|d\|_p = t} \langle d, J^\top u\rangle` with the dual vector
:math:`u` of :math:`J d`, while the centre moves along the gradient of the slope. Every slope on the way is one of the
network, so the largest is a lower bound.

Reference:
    Boyd, The power method for lp norms, Linear Algebra and its Applications 9, 1974.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.errors import ModelError, unknown
from holdfast.gradients import input_gradient, input_jacobian
from holdfast.halving import is_out_of_memory
from holdfast.lipschitz.export import export
from holdfast.lipschitz.norms import ORDER
from holdfast.lipschitz.radii import Norm
from holdfast.modes import evaluating
from holdfast.rng import Streams, streams
from holdfast.types import Classifier

DISTANCE = 1e-3
"""Distance between the two points of a pair, in float64."""

COARSE = 0.1
"""The same for a model that cannot be computed in float64."""

ROUNDING = 64.0
"""Machine epsilons of the logits that are subtracted from each difference of such a model."""

CLASSES = 100
"""Largest number of logits for which the whole Jacobian is computed, one backward pass each."""


def lipschitz_lower(
    model: Classifier, x: Tensor, *, norm: Norm = "l2", steps: int = 20, rng: Streams | None = None
) -> float:
    r"""The steepest slope found near some images, a lower bound of the network's Lipschitz constant.

    A network is copied to float64, where slopes are rounded by less than :math:`10^{-10}` of them; its orthogonal
    layers keep the weights they have. A model for which that fails is evaluated in its own precision: points are
    farther apart then, and the expected rounding is subtracted. The model is used in evaluation mode and left as it is.

    Args:
        model: any classifier with a gradient.
        x: images to start from, (N, ...).
        norm: :math:`\ell_p` of inputs and outputs.
        steps: forward and backward passes for each pair, besides the Jacobian; the first half turns the direction, the
            second half moves the pair as well.
        rng: randomness of the first directions.
    """
    if norm not in ORDER:
        raise ValueError(f"lipschitz_lower: norm: {unknown(norm, ORDER)}")
    if steps < 1:
        raise ValueError(f"lipschitz_lower: steps must be at least 1, got {steps}")
    with evaluating(model):
        exact = _in_float64(model, x)
        if exact is not None:
            return float(_climb(exact, x.detach().double(), norm, steps, streams(rng, x), DISTANCE, 0.0))
        epsilon = ROUNDING * torch.finfo(x.dtype).eps
        return float(_climb(model, x.detach(), norm, steps, streams(rng, x), COARSE, epsilon))


def _in_float64(model: Classifier, x: Tensor) -> nn.Module | None:
    """A copy that computes in float64, or None where there is none, as on Apple's GPUs."""
    if not isinstance(model, nn.Module):
        return None
    try:
        copied = export(model).double()
        with torch.no_grad():
            return copied if copied(x[:1].double()).dtype == torch.float64 else None
    except (RuntimeError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        return None


def _climb(
    model: Classifier, x: Tensor, norm: Norm, steps: int, rng: Streams, distance: float, epsilon: float
) -> Tensor:
    """The steepest slope of all pairs on the way."""
    centre, direction, reach = x, _first_direction(model, x, norm, rng), x.new_full((len(x),), 1.0)
    best = x.new_full((len(x),), -math.inf)
    top, top_grad = centre, torch.zeros_like(torch.stack((x, x), 1))
    for step in range(steps):
        pairs = torch.stack((centre - distance / 2 * direction, centre + distance / 2 * direction), 1)
        slopes, grad = _slopes(model, pairs, norm, epsilon)
        higher = slopes > best
        best = torch.where(higher, slopes, best)
        top, top_grad = torch.where(_like(higher, x), centre, top), torch.where(_like(higher, pairs), grad, top_grad)
        direction = EXTREMES[norm](_or_random(top_grad[:, 1] - top_grad[:, 0], rng))
        if step >= steps // 2:
            reach = reach * torch.where(higher, 1.5, 0.7)
            centre = top + _like(reach, x) * _unit(_or_random(top_grad.sum(1), rng))
    return best.amax().clamp(min=0)


def _first_direction(model: Classifier, x: Tensor, norm: Norm, rng: Streams) -> Tensor:
    """The steepest direction at each image, or a random one of a network with many classes."""
    with torch.no_grad():
        shape = tuple(model(x[:1]).shape)
    if len(shape) != 2:
        raise ModelError(f"lipschitz lower bound: expected logits of shape (1, classes); got {shape}")
    classes = shape[1]
    if classes > CLASSES:
        return EXTREMES[norm](rng.normal(x))
    _, jacobian, _ = input_jacobian(lambda logits: logits, model, x)
    return EXTREMES[norm](_or_random(STEEPEST[norm](jacobian.flatten(2)).view(x.shape), rng))


def _or_random(vectors: Tensor, rng: Streams) -> Tensor:
    """The vectors, and random ones in place of zeros: where a network is flat, any direction will do."""
    return torch.where(_like(vectors.flatten(1).any(1), vectors), vectors, rng.normal(vectors))


def _slopes(model: Classifier, pairs: Tensor, norm: Norm, epsilon: float) -> tuple[Tensor, Tensor]:
    """Slopes between the points of each pair (N, 2, ...), and their gradients up to a factor."""

    def both(z: Tensor) -> Tensor:
        return model(z.flatten(0, 1)).view(len(z), 2, -1)

    def apart(logits: Tensor, lengths: Tensor) -> Tensor:
        return _length(logits[:, 1] - logits[:, 0], norm) / lengths

    lengths = _length((pairs[:, 1] - pairs[:, 0]).flatten(1), norm)
    values, grad, logits = input_gradient(apart, both, pairs, lengths)
    rounding = epsilon * _length(logits.flatten(1), norm) / lengths
    return values - rounding, grad


def _length(vectors: Tensor, norm: Norm) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vectors, ORDER[norm], dim=1)
    return length


def _unit(z: Tensor) -> Tensor:
    return z / _like(torch.linalg.vector_norm(z.flatten(1), dim=1).clamp(min=torch.finfo(z.dtype).tiny), z)


def _single(z: Tensor) -> Tensor:
    """Only the largest value of each example, by sign."""
    flat = z.flatten(1)
    largest = flat.abs().argmax(1)
    return (F.one_hot(largest, flat.shape[1]) * flat.sign()).view(z.shape)


EXTREMES: dict[Norm, Callable[[Tensor], Tensor]] = {"l1": _single, "l2": _unit, "linf": torch.sign}
"""The direction of unit length with the largest product with a vector; zero for the zero vector."""


def _largest_row(jacobian: Tensor) -> Tensor:
    """Signs of the row with the largest sum of absolute values."""
    rows = jacobian.abs().sum(2).argmax(1)
    return jacobian[torch.arange(len(jacobian), device=rows.device), rows].sign()


def _right_singular_vector(jacobian: Tensor) -> Tensor:
    """The direction that grows most, from the small square of the Jacobian."""
    left = torch.linalg.eigh(jacobian @ jacobian.mT).eigenvectors[:, :, -1]
    return _unit(torch.einsum("nk,nkd->nd", left, jacobian))


STEEPEST: dict[Norm, Callable[[Tensor], Tensor]] = {
    "l1": lambda jacobian: _single(jacobian.abs().sum(1)),
    "l2": _right_singular_vector,
    "linf": _largest_row,
}
"""The direction of unit length that a Jacobian, (N, K, D), makes longest, (N, D)."""


def _like(per_example: Tensor, z: Tensor) -> Tensor:
    return per_example.view(-1, *[1] * (z.dim() - 1))
