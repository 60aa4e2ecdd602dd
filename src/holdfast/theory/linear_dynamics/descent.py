r"""Training on the linear problem, step by step, with gradients of the population or of fresh samples.

The gradient at weights with the error :math:`e` is :math:`Se`: :math:`S` is the covariance
:math:`\mathrm{diag}(\sigma_i^2)` for the population and :math:`\frac1n\sum_k x_k x_k^\top` for :math:`n` samples. The
optimiser :math:`u` works in the coordinates of an orthonormal basis :math:`C`, one frequency per row:

.. math:: e(t + 1) = e(t) - C\, u\bigl(C^\top S\, e(t)\bigr)

With the DCT matrix training takes place in the spatial domain (equations 4.12 and 4.15), with the identity in the
frequency domain. Gradient descent is the same in both.
"""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.rng import Streams
from holdfast.theory.linear_dynamics.optimisers import Optimiser, blank
from holdfast.theory.linear_dynamics.problem import Problem, error

DRAWN_AT_ONCE = 1 << 20
"""Numbers; only memory depends on it."""


def sampled_moments(problem: Problem, steps: int, samples: int, rng: Streams | None = None) -> Tensor:
    """Mean outer products of fresh inputs for each step, (steps, d, d): the same data for several optimisers.

    Args:
        problem: a single one.
        steps: of the training.
        samples: drawn for each step.
        rng: one stream per step; None means seed 0.
    """
    rng = rng or Streams(0, "samples", steps)
    deviations = problem.variances.sqrt()
    block = max(1, DRAWN_AT_ONCE // (samples * problem.dimensions))
    moments = []
    for first in range(0, steps, block):
        part = rng[slice(first, min(first + block, steps))]
        x = part.normal(deviations.new_empty(len(part), samples, problem.dimensions)) * deviations
        moments.append(x.mT @ x / samples)
    return torch.cat(moments)


def gradient(problem: Problem, w: Tensor, moment: Tensor | None = None) -> Tensor:
    """Of the mean loss in the frequency domain: over the population, or over samples with this mean outer product."""
    off = error(problem, w)
    return problem.variances * off if moment is None else off @ moment


def descend(
    problem: Problem,
    optimiser: Optimiser,
    start: Tensor,
    *,
    steps: int,
    basis: Tensor,
    moments: Tensor | None = None,
) -> Tensor:
    """The weights before and after each step, (steps + 1, ..., d), in the frequency domain.

    Args:
        problem: what is learnt; many problems train side by side.
        optimiser: how.
        start: weights before the first step, (..., d).
        steps: how many.
        basis: coordinates that the optimiser works in, orthonormal, (d, d): `dct_basis(d)` for the spatial domain.
        moments: those of `sampled_moments`; None for gradients of the population.
    """
    if not torch.allclose(basis @ basis.mT, torch.eye(len(basis), dtype=basis.dtype), atol=1e-9):
        raise ValueError("basis: expected an orthonormal matrix")
    if moments is not None and len(moments) < steps:
        raise ValueError(f"moments: expected one for each of {steps} steps, got {len(moments)}")
    path = [start.expand_as(gradient(problem, start))]
    memory = blank(path[0])
    for step in range(steps):
        grad = gradient(problem, path[-1], None if moments is None else moments[step])
        change, memory = optimiser(grad @ basis, memory)
        path.append(path[-1] - change @ basis.mT)
    return torch.stack(path)
