r"""signGD on three frequencies, the last irrelevant: what moves depends on three signs (equation 4.16, table 4.9).

With :math:`A = \frac{\sqrt3}3\sigma_0^2 e_0` and :math:`B = \frac{\sqrt2}2\sigma_1^2 e_1` the gradient in the spatial
domain is :math:`(A + B, A, A - B)`. A moves towards 0 by at most :math:`\sigma_0^2\eta`, so once :math:`|A|` is at most
that, it stays so (proposition 4.D.3). The irrelevant weight moves only while :math:`|A| \le |B|`, and always in the
direction of :math:`\mathrm{sign}\, e_0`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.theory.linear_dynamics.problem import Problem, dct_basis, error, vector


@dataclass(frozen=True)
class SignCase:
    """A combination of signs.

    Args:
        signs: of A, A + B and A - B.
        change: what a step of rate 1 subtracts from the error; None for signs that no A and B have.
    """

    signs: tuple[int, int, int]
    change: tuple[float, float, float] | None

    @property
    def comparison(self) -> str:
        """How the lengths of A and B compare: their squares differ by (A + B)(A - B)."""
        return f"|A| {'=><'[self.signs[1] * self.signs[2]]} |B|"


def sign_cases() -> tuple[SignCase, ...]:
    """The 27 combinations in the order of table 4.9, 13 of which exist."""
    signs = (1, -1, 0)
    return tuple(SignCase(case, _change(*case)) for case in itertools.product(signs, signs, signs))


def _change(a: int, plus: int, minus: int) -> tuple[float, float, float] | None:
    """The step, if A can be the mean of A + B and A - B, whose signs leave its sign open only if they are opposite."""
    total = plus + minus
    if a != (total > 0) - (total < 0) and (total or not plus):
        return None
    e0, e1, e2 = (dct_basis(3) @ vector(plus, a, minus)).tolist()
    return e0, e1, e2


def sign_terms(problem: Problem, w: Tensor) -> tuple[Tensor, Tensor]:
    """A and B of weights, (...)."""
    if problem.dimensions != 3 or bool((problem.variances[..., 2] > 0).any()):
        raise ValueError("expected three frequencies of which the last is irrelevant")
    off, variances = error(problem, w), problem.variances
    return variances[..., 0] * off[..., 0] / math.sqrt(3), variances[..., 1] * off[..., 1] / math.sqrt(2)


def longest_steps(problem: Problem, rate: float) -> tuple[Tensor, Tensor]:
    r""":math:`\sigma_0^2\eta` and :math:`\sigma_1^2\eta`: the most that A and B move in one step."""
    return problem.variances[..., 0] * rate, problem.variances[..., 1] * rate


def arrival(problem: Problem, path: Tensor, rate: float) -> Tensor:
    r"""T, the first step with :math:`|e_0| < \sqrt3\eta`, which is :math:`|A| < \sigma_0^2\eta`; (...), int64.

    Args:
        problem: what was learnt.
        path: of `descend`, (steps + 1, ..., 3).
        rate: learning rate.
    """
    inside = error(problem, path)[..., 0].abs() < math.sqrt(3) * rate
    if not bool(inside.any(0).all()):
        raise ValueError(f"a path of {len(path) - 1} steps ends before it arrives; take more")
    return inside.int().argmax(0)


def moving_steps(problem: Problem, path: Tensor, rate: float) -> Tensor:
    """How many steps before the arrival move the irrelevant weight: the sum of equation 4.27; (...), int64."""
    a, b = sign_terms(problem, path)
    step = torch.arange(len(path)).view(-1, *[1] * (a.dim() - 1))
    return ((a.abs() <= b.abs()) & (step < arrival(problem, path, rate))).sum(0)


def observed_shift(problem: Problem, path: Tensor, rate: float) -> Tensor:
    r""":math:`\Delta w_2`: how far the irrelevant weight has moved at the arrival; (...)."""
    step = arrival(problem, path, rate)
    return path[..., 2].gather(0, step[None])[0] - path[0, ..., 2]
