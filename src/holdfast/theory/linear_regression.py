r"""Why a model that fits perfectly can be attacked: linear regression with irrelevant inputs.

The data is :math:`X = (X_1, 0, \dots, 0)` in :math:`d` dimensions with the answer :math:`X_1 = \langle X, w^*\rangle`,
:math:`w^* = (1, 0, \dots, 0)`; the loss of weights :math:`w` is :math:`\frac12 r^2` with the residual
:math:`r = \langle X, w - w^*\rangle`. Gradient descent on the expected loss never touches :math:`w_2, \dots, w_d`: they
stay what they were at the start. An attack that moves the unused inputs by :math:`\epsilon\,\mathrm{sign}(w_j)` then
costs :math:`\frac{\epsilon^2}{2} \|w_{2:d}\|_1^2`, which grows with the square of the dimension. A regulariser can
stand for the attack without anybody looking for it: the second-order expansion of the loss in the input is exact.

Weights are (d,) or, for many at once, (..., d). Everything is float64.

Reference:
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, sections 3.2 and 3.3.3. Where it is
    wrong: the gradient has :math:`E[X_j^2]` and not :math:`E[X_j]`, and so has :math:`\mu_1` of ridge regression;
    equation 3.2 puts :math:`\|w_{2:d}\|_1` where the attack has :math:`\sum_j w_j\,\mathrm{sign}(w_j(0))`, which is the
    same only as long as no weight has changed its sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Gradient = Callable[[Tensor], Tensor]
"""Weights to the gradient of an objective, both (..., d)."""


@dataclass(frozen=True, kw_only=True)
class Moments:
    """What matters of the one used input.

    Args:
        mean: :math:`E[X_1]`.
        square: :math:`E[X_1^2]`.
    """

    mean: float = 0.0
    square: float = 1.0

    def __post_init__(self) -> None:
        if not self.mean**2 <= self.square < math.inf:
            raise ValueError(f"square must be at least mean * mean, got {self.square} and the mean {self.mean}")


@dataclass(frozen=True)
class Descent:
    """Gradient descent, step by step.

    Args:
        weights: (steps + 1, d), the start first.
        population: loss of each, (steps + 1,).
        attacked: loss of each under the attack on its own weights, (steps + 1,).
    """

    weights: Tensor
    population: Tensor
    attacked: Tensor


def population_loss(w: Tensor, data: Moments) -> Tensor:
    r""":math:`L(w) = \frac12 (w_1 - 1)^2 E[X_1^2]`: blind to the weights of unused inputs."""
    return 0.5 * (w[..., 0] - 1).square() * data.square


def population_gradient(w: Tensor, data: Moments) -> Tensor:
    r""":math:`(w_j - w^*_j) E[X_j^2]`, which is zero for every unused input; printed with :math:`E[X_j]`."""
    grad = torch.zeros_like(w)
    grad[..., 0] = (w[..., 0] - 1) * data.square
    return grad


def perturbation(w: Tensor, eps: float) -> Tensor:
    r""":math:`\Delta x = (0, \epsilon\,\mathrm{sign}\,w_2, \dots, \epsilon\,\mathrm{sign}\,w_d)`."""
    step = eps * w.sign()
    step[..., 0] = 0
    return step


def perturbed_loss(w: Tensor, step: Tensor, data: Moments) -> Tensor:
    r""":math:`E\,\ell(X + \Delta x; w) = L(w) + E[r]\,m + \frac12 m^2` with :math:`m = \langle w, \Delta x\rangle`.

    Args:
        w: weights.
        step: :math:`\Delta x`, with nothing in its first place.
        data: moments.
    """
    moved = (w * step).sum(-1)
    return population_loss(w, data) + _mean_residual(w, data) * moved + 0.5 * moved.square()


def perturbed_gradient(w: Tensor, step: Tensor, data: Moments) -> Tensor:
    """Gradient of `perturbed_loss` with respect to the weights: adversarial training against one fixed attack."""
    moved = (w * step).sum(-1, keepdim=True)
    grad = (_mean_residual(w, data)[..., None] + moved) * step
    grad[..., 0] += (w[..., 0] - 1) * data.square + data.mean * moved[..., 0]
    return grad


def regulariser(w: Tensor, eps: float, data: Moments) -> Tensor:
    r""":math:`\epsilon E[r] \|w_{2:d}\|_1 + \frac{\epsilon^2}{2} \|w_{2:d}\|_1^2`, what the attack adds to the loss.

    Equation 3.2. Its first part alone is what a first-order regulariser has.
    """
    size = eps * _unused(w)
    return _mean_residual(w, data) * size + 0.5 * size.square()


def attacked_loss(w: Tensor, eps: float, data: Moments) -> Tensor:
    """Expected loss under the attack on these very weights: `population_loss` and `regulariser` together."""
    return population_loss(w, data) + regulariser(w, eps, data)


def attacked_gradient(w: Tensor, eps: float, data: Moments) -> Tensor:
    """A subgradient of `attacked_loss`: the attack follows the signs of the weights as they are."""
    return perturbed_gradient(w, perturbation(w, eps), data)


def expanded_loss(w: Tensor, step: Tensor, data: Moments, order: int) -> Tensor:
    r"""The expected Taylor expansion of the loss in the input, at :math:`X`, to first or second order.

    With the gradient :math:`r (w - w^*)` and the Hessian :math:`(w - w^*)(w - w^*)^\top`. The loss is quadratic, so
    that the second order is `perturbed_loss`.
    """
    if order not in (1, 2):
        raise ValueError(f"order must be 1 or 2, got {order}")
    off = w.clone()
    off[..., 0] -= 1
    along = (off * step).sum(-1)
    first = population_loss(w, data) + _mean_residual(w, data) * along
    return first if order == 1 else first + 0.5 * along.square()


def ridge_gradient(w: Tensor, decay: float, data: Moments) -> Tensor:
    r"""Gradient of :math:`L(w) + \frac\lambda2 \|w\|_2^2`."""
    return population_gradient(w, data) + decay * w


def ridge_solution(dimensions: int, decay: float, data: Moments) -> Tensor:
    r""":math:`(\mu_1 / (\mu_1 + \lambda), 0, \dots, 0)` with :math:`\mu_1 = E[X_1^2]`: safe, and biased."""
    w = torch.zeros(dimensions, dtype=torch.float64)
    w[0] = data.square / (data.square + decay)
    return w


def population_limit(start: Tensor) -> Tensor:
    """Where descent on the population loss ends: the right first weight, and the others as they started."""
    w = start.clone()
    w[..., 0] = 1
    return w


def expected_squared_l1(dimensions: int, sigma: float) -> float:
    r""":math:`E\|W\|_1^2 = d\sigma^2 + d(d - 1) \frac2\pi \sigma^2` of normal weights of deviation :math:`\sigma`."""
    return sigma**2 * dimensions * (1 + (dimensions - 1) * 2 / math.pi)


def expected_attacked_loss(dimensions: int, sigma: float, eps: float) -> float:
    r""":math:`\frac{\epsilon^2}{2} E\|W_{2:d}\|_1^2` at `population_limit` of normal weights: of order :math:`d^2`."""
    return 0.5 * eps**2 * expected_squared_l1(dimensions - 1, sigma)


def descend(gradient: Gradient, start: Tensor, *, rate: float, steps: int, eps: float, data: Moments) -> Descent:
    """Plain gradient descent from some weights, with the loss and the loss under attack at every step.

    Args:
        gradient: of what is minimised, such as `lambda w: attacked_gradient(w, eps, data)`.
        start: (d,).
        rate: the step size.
        steps: how many.
        eps: of the attack that judges.
        data: moments.
    """
    if not rate > 0 or steps < 1:
        raise ValueError(f"expected a positive rate and one or more steps, got {rate} and {steps}")
    path = [start.double()]
    for _ in range(steps):
        path.append(path[-1] - rate * gradient(path[-1]))
    weights = torch.stack(path)
    return Descent(weights, population_loss(weights, data), attacked_loss(weights, eps, data))


def _mean_residual(w: Tensor, data: Moments) -> Tensor:
    """E[r], the mean of what the weights get wrong."""
    return (w[..., 0] - 1) * data.mean


def _unused(w: Tensor) -> Tensor:
    """Sum of the absolute weights of unused inputs."""
    return w[..., 1:].abs().sum(-1)
