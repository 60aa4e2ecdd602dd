r"""How far signGD moves the irrelevant one of three weights, and what it costs, without training.

Neglecting terms of the order of the rate :math:`\eta`, the irrelevant weight moves by

.. math:: \Delta w_2 = \mathrm{sign}(e_0)\, \min\Bigl(\sqrt2\,|e_0|,\;
          \tfrac{\sqrt3}3 \min\bigl(1, 3\sigma_1^2 / \sigma_0^2\bigr)\, |e_1|\Bigr)

with the errors at the start. It is equation 4.28 with :math:`C = \frac{\sqrt6}3`, its sign, and one formula for both
cases. It holds for :math:`\sigma_1^2 \le 2\sigma_0^2`, and 4.28 for :math:`\sigma_1^2 < \frac13\sigma_0^2`. From the
arrival on the weight is never farther from it than :math:`3\sqrt6\,\eta`.

Reference:
    Ma, thesis, equations 4.19, 4.22 and 4.28.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.theory.linear_dynamics.partitions import require_slope
from holdfast.theory.linear_dynamics.problem import Problem, robust_minimiser
from holdfast.theory.linear_dynamics.signs import sign_terms

DRIFT = math.sqrt(6)
r"""How far the irrelevant weight moves from its value at the arrival T, in learning rates.

Up to three steps of :math:`\frac{\sqrt6}3` in one direction, at T, T + 1 and T + 2, after which they alternate.
Equation 4.22 leaves out the one at T and has :math:`\frac{2\sqrt6}3`.
"""

SHIFT_ERROR = 3 * math.sqrt(6)
"""How far the irrelevant weight is from `predicted_shift` at and after the arrival, in learning rates."""


def predicted_shift(problem: Problem, start: Tensor) -> Tensor:
    r""":math:`\Delta w_2` from a start, (...)."""
    a, b = sign_terms(problem, start)
    first, second = problem.variances[..., 0], problem.variances[..., 1]
    require_slope(float((second / first).max()))
    duration = torch.minimum(3 * a.abs() / first, b.abs() / torch.maximum(second, first / 3))
    return a.sign() * math.sqrt(6) / 3 * duration


def risk_ratio(problem: Problem, start: Tensor, shift: Tensor) -> Tensor:
    r"""Adversarial risk of signGD over that of gradient descent in the limit, for every :math:`\epsilon`.

    .. math:: \frac{\|w^*\|^2 + (w_2(0) + \Delta w_2)^2}{\|w^*\|^2 + w_2(0)^2}

    It is below 1 where :math:`\Delta w_2` takes the irrelevant weight nearer to 0 than it was.
    """
    relevant = robust_minimiser(problem).square().sum(-1)
    return (relevant + (start[..., 2] + shift).square()) / (relevant + start[..., 2].square())


def signgd_is_less_robust(start: Tensor, shift: Tensor) -> Tensor:
    """Whether the ratio exceeds 1: the weight starts with the sign of its shift, or below half its length."""
    return (start[..., 2] * shift.sign() > 0) | (start[..., 2].abs() < shift.abs() / 2)


def printed_ratio(problem: Problem, start: Tensor) -> tuple[Tensor, Tensor]:
    r"""Equation 4.19, for starts near 0: the ratio with :math:`C = \frac{\sqrt6}6` and with :math:`C = \frac{\sqrt6}3`.

    C is :math:`\frac{\sqrt6}3` almost surely, so that the second is the prediction.
    """
    a, b = sign_terms(problem, start)
    squares = problem.target.square()
    share = squares / (squares[..., 0] + squares[..., 1])[..., None]
    slope = problem.variances[..., 1] / problem.variances[..., 0]
    high = torch.where(a.abs() < b.abs(), 2 * share[..., 0], 3 * slope.square() * share[..., 1])
    return 1 + high / 4, 1 + high


def shift_errors(problem: Problem, path: Tensor) -> Tensor:
    """How far the irrelevant weight has been from the predicted one at each step of a path, (steps + 1, ...)."""
    predicted = path[0, ..., 2] + predicted_shift(problem, path[0])
    return path[..., 2] - predicted
