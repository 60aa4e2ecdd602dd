r"""Linear regression with irrelevant frequencies: the problem, its risks and the closed form of gradient descent.

Inputs are normal and independent in the frequency domain, :math:`X_i \sim N(0, \sigma_i^2)`, and the target is
:math:`\langle X, w^*\rangle`. With :math:`q = \sum_i \sigma_i^2 (w_i - w_i^*)^2` the expected squared error of weights
:math:`w`, halved, is on clean inputs and under the worst :math:`\ell_2` perturbation of size :math:`\epsilon`

.. math:: R_s = \frac q2, \qquad R_a = \frac q2 + \epsilon \sqrt{\frac{2q}\pi}\,\|w\|_2 + \frac{\epsilon^2}2 \|w\|_2^2.

A frequency of variance 0 is irrelevant: its weight costs nothing in :math:`R_s` and has its full part in :math:`R_a`.
All letters are coordinates in the frequency domain, (..., d), where the thesis writes tildes; everything is float64.

Reference:
    Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 4.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.frequency import dct_matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    r"""A spectrum and the true weights, or many of them at once.

    Args:
        variances: :math:`\sigma_i^2`, (..., d).
        target: :math:`w^*`, (..., d).
    """

    variances: Tensor
    target: Tensor

    def __post_init__(self) -> None:
        if {self.variances.dtype, self.target.dtype} != {torch.float64}:
            raise ValueError(f"expected float64, got {self.variances.dtype} and {self.target.dtype}")
        if self.variances.shape[-1:] != self.target.shape[-1:]:
            raise ValueError(
                f"expected as many variances as weights, got {self.variances.shape} and {self.target.shape}"
            )
        if not bool((self.variances >= 0).all()):
            raise ValueError("variances: expected none below 0")

    @property
    def dimensions(self) -> int:
        """How many frequencies."""
        return self.variances.shape[-1]

    @property
    def relevant(self) -> Tensor:
        """Which frequencies the data has, (..., d)."""
        return self.variances > 0


def vector(*values: float) -> Tensor:
    """Weights or variances in float64."""
    return torch.tensor(values, dtype=torch.float64)


def thesis_problem() -> Problem:
    """The three frequencies of figure 4.7."""
    return Problem(variances=vector(0.01, 0.0025, 0), target=vector(5, 10, 0))


def thesis_start() -> Tensor:
    """The weights that figure 4.7 starts from."""
    return vector(0.01, -0.01, 0.02)


def dct_basis(dimensions: int) -> Tensor:
    r"""The DCT matrix :math:`C`, (d, d), with exact zeros: row k is the k-th frequency in the spatial domain.

    Rounding leaves entries such as 5e-17 that are zero, and a sign makes a whole step of them.
    """
    matrix = dct_matrix(dimensions, torch.empty(0, dtype=torch.float64))
    return torch.where(matrix.abs() > 1e-9, matrix, 0.0)


def spatial_coefficients(basis: Tensor, relevant: Tensor) -> Tensor:
    """Each spatial coordinate of an input as a sum of its relevant frequencies, (d, d).

    Table 4.8. The matrix has the rank of the relevant frequencies: each irrelevant one makes a coordinate redundant.
    """
    return basis.mT * relevant


def error(problem: Problem, w: Tensor) -> Tensor:
    r""":math:`e = w - w^*`."""
    return w - problem.target


def squared_residual(problem: Problem, w: Tensor) -> Tensor:
    r""":math:`q = E\langleX, e\rangle^2`, (...)."""
    return (problem.variances * error(problem, w).square()).sum(-1)


def standard_risk(problem: Problem, w: Tensor) -> Tensor:
    """R_s: expected squared error, halved."""
    return 0.5 * squared_residual(problem, w)


def adversarial_risk(problem: Problem, w: Tensor, eps: float) -> Tensor:
    r"""R_a, exactly (equation 4.9): :math:`\frac{\epsilon^2}2\|w\|^2` at every minimiser of the standard risk."""
    norm: Tensor = torch.linalg.vector_norm(w, dim=-1)
    residual = (2 / math.pi * squared_residual(problem, w)).sqrt()
    return standard_risk(problem, w) + eps * residual * norm + 0.5 * (eps * norm).square()


def worst_perturbation(problem: Problem, w: Tensor, x: Tensor, eps: float) -> Tensor:
    r""":math:`\epsilon\,\mathrm{sign}\langle x, e\rangle\, w / \|w\|_2` for each input x, (N, d) (equation 4.8)."""
    sign = torch.where(x @ error(problem, w) < 0, -1.0, 1.0)
    norm: Tensor = torch.linalg.vector_norm(w)
    return eps * sign[:, None] * w / norm


def robust_minimiser(problem: Problem) -> Tensor:
    """Of all weights without standard risk those of the least adversarial risk (equation 4.6)."""
    return torch.where(problem.relevant, problem.target, 0.0)


def gd_weights(problem: Problem, start: Tensor, rate: float, step: int) -> Tensor:
    r"""Gradient descent after some steps, :math:`e_i(t) = (1 - \eta\sigma_i^2)^t\, e_i(0)` (equation 4.12)."""
    return problem.target + (1 - rate * problem.variances) ** step * error(problem, start)


def gd_limit(problem: Problem, start: Tensor) -> Tensor:
    """Where gradient descent ends: the right relevant weights, and the irrelevant ones as they started."""
    return torch.where(problem.relevant, problem.target, start)


def expected_gd_limit_risk(problem: Problem, eps: float, sigma: float) -> Tensor:
    r"""Mean adversarial risk of `gd_limit` from :math:`N(0, \sigma^2 I)`: each irrelevant frequency adds to it."""
    irrelevant = (~problem.relevant).sum(-1)
    return 0.5 * eps**2 * (robust_minimiser(problem).square().sum(-1) + sigma**2 * irrelevant)
