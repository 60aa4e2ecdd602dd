"""The inner attack of TRADES, MART and training with one step: gradient ascent from a given point."""

from __future__ import annotations

import math

from torch import Tensor

from holdfast.gradients import input_gradient
from holdfast.rng import Streams
from holdfast.types import Classifier, Loss, Threat

NEAR = 1e-3
"""Standard deviation of the noise from which TRADES and MART start."""


def climb(
    threat: Threat, loss: Loss, model: Classifier, x: Tensor, y: Tensor, start: Tensor, *, steps: int, step_size: float
) -> Tensor:
    r"""Projected gradient ascent; the last point, detached. Each step is one forward and one backward pass.

    .. math:: z_{t+1} = \Pi_{S(x)}\bigl(z_t + \alpha\, s(\nabla_z \ell(f(z_t), y))\bigr)

    The attack `pgd` keeps the best point instead of the last, for which it has to evaluate the last one, too.

    Args:
        threat: the set :math:`S` and its geometry.
        loss: per-example loss to maximise.
        model: the classifier; its mode is left alone.
        x: clean images.
        y: labels, or whatever the loss takes as its second argument.
        start: :math:`z_0`.
        steps: number of steps.
        step_size: :math:`\alpha`.
    """
    z = start
    for _ in range(steps):
        _, grad, _ = input_gradient(loss, model, z, y)
        z = threat.project(z + step_size * threat.ascent(grad, z), x)
    return z


def noisy_start(threat: Threat, x: Tensor, rng: Streams) -> Tensor:
    """A little Gaussian noise: at the image itself a divergence from its own prediction has no gradient."""
    return threat.project(x + NEAR * rng.normal(x), x)


def default_step_size(threat: Threat, steps: int, step_size: float | None) -> float:
    """The given step size, or 2.5 radii divided by the number of steps."""
    return 2.5 * threat.eps / steps if step_size is None else step_size


def check_steps(steps: int, step_size: float | None) -> None:
    """Refuse an invalid number of steps or step size."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if step_size is not None and not 0 < step_size < math.inf:
        raise ValueError(f"step_size must be positive and finite, got {step_size}")
