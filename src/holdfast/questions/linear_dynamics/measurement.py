"""Paths of optimisers on the linear problem, and what is known of signGD there, as plain numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from holdfast.questions.question import Record
from holdfast.rng import Streams
from holdfast.theory import linear_dynamics as theory
from holdfast.theory.linear_dynamics.partitions import Regions, end_regions, sign_step, start_regions
from holdfast.theory.linear_dynamics.problem import error, spatial_coefficients
from holdfast.theory.linear_dynamics.signs import sign_cases

if TYPE_CHECKING:
    from holdfast.questions.linear_dynamics import LinearDynamics

DRAWN = 200
"""Steps of a path that are kept."""
TOGETHER = 1000
"""Steps of many problems whose weights are in memory at once."""
SIDE = 40
"""Pairs along each side of a partition."""
DIGITS = 6
"""Of numbers that are only drawn."""

MAKERS: Mapping[str, Callable[[float], theory.Optimiser]] = {
    "GD": lambda rate: theory.GD(rate=rate),
    "momentum": lambda rate: theory.Momentum(rate=rate),
    "signGD": lambda rate: theory.SignGD(rate=rate),
    "Adam": lambda rate: theory.Adam(rate=rate),
    "RMSProp": lambda rate: theory.RMSProp(rate=rate),
}


class Measurement:
    """The records of a question.

    Args:
        question: with the problem, the rate and the number of steps.
    """

    def __init__(self, question: LinearDynamics) -> None:
        self._question = question
        self._problem = theory.Problem(
            variances=theory.vector(*question.variances), target=theory.vector(*question.target)
        )
        self._start = theory.vector(*question.start)

    def record(self, *part: str) -> Record:
        """The numbers of a part: a domain and an optimiser, or the name of a statement."""
        if len(part) == 2:
            return self._path_record(*part)
        statements: dict[str, Callable[[], Record]] = {
            "prediction": self._prediction,
            "random": self._random_problems,
            "inputs": inputs,
            "signs": signs,
            "R": lambda: partition(end_regions, 1.0, left=-1.0, right=1.0, top=4.0, steps=12),
            "P": lambda: partition(start_regions, 1.0, left=0.0, right=6.0, top=6.0, steps=18),
            "P flat": lambda: partition(start_regions, 1 / 9, left=0.0, right=6.0, top=6.0, steps=18),
        }
        return statements[part[0]]()

    @cached_property
    def _moments(self) -> Tensor | None:
        """Those of the same samples for all optimisers; None for the population."""
        question = self._question
        if not question.samples:
            return None
        rng = Streams(question.seed, "samples", question.steps)
        return theory.sampled_moments(self._problem, question.steps, question.samples, rng)

    def path(self, domain: str, name: str) -> Tensor:
        """The weights before and after each step, (steps + 1, d)."""
        size = self._problem.dimensions
        basis = theory.dct_basis(size) if domain == "spatial" else torch.eye(size, dtype=torch.float64)
        optimiser = MAKERS[name](self._question.rate)
        return theory.descend(
            self._problem, optimiser, self._start, steps=self._question.steps, basis=basis, moments=self._moments
        )

    def _path_record(self, domain: str, name: str) -> Record:
        """Errors and risks at some steps, and weights and risks at the end beside the limit of gradient descent."""
        path, problem, eps = self.path(domain, name), self._problem, self._question.eps
        last = len(path) - 1
        steps = sorted({round(last ** (i / (DRAWN - 1))) for i in range(DRAWN)})
        risks = {"standard": theory.standard_risk(problem, path)}
        risks["adversarial"] = theory.adversarial_risk(problem, path, eps)
        limit = float(theory.adversarial_risk(problem, theory.gd_limit(problem, self._start), eps))
        return {
            "steps": steps,
            "errors": drawn(error(problem, path)[steps].abs()),
            **{kind: drawn(risk[steps]) for kind, risk in risks.items()},
            "weights": path[-1].tolist(),
            "norm": float(path[-1].square().sum()),
            "end": {kind: float(risk[-1]) for kind, risk in risks.items()},
            "limit": limit,
        }

    def _prediction(self) -> Record:
        """How far signGD moves the irrelevant weight of the problem, and the ratio of risks: predicted, observed."""
        observed = self.path("spatial", "signGD")[-1, 2] - self._start[2]
        return self._compared(self._problem, self._start[None], observed[None])

    def _random_problems(self) -> Record:
        r"""The same over problems with this spectrum, :math:`w(0) \sim N(0, I)` and :math:`w^* \sim 3 N(0, I)`."""
        question = self._question
        streams = Streams(question.seed, "problems", question.problems)
        draws = streams.normal(torch.empty(question.problems, 2, 3, dtype=torch.float64))
        target, start = 3 * draws[:, 0] * self._problem.relevant, draws[:, 1]
        problem = theory.Problem(variances=self._problem.variances, target=target)
        w = start
        for first in range(0, question.steps, TOGETHER):  # signGD has no memory: it may go on from anywhere
            steps = min(TOGETHER, question.steps - first)
            rule, basis = MAKERS["signGD"](question.rate), theory.dct_basis(3)
            w = theory.descend(problem, rule, w, steps=steps, basis=basis)[-1]
        arrived = error(problem, w)[:, 0].abs() <= math.sqrt(3) * question.rate  # and it stays there from then on
        return {**self._compared(problem, start, w[:, 2] - start[:, 2]), "arrived": arrived.tolist()}

    @staticmethod
    def _compared(problem: theory.Problem, start: Tensor, observed: Tensor) -> Record:
        predicted = theory.predicted_shift(problem, start)
        ratios = [theory.risk_ratio(problem, start, shift) for shift in (predicted, observed)]
        return {"shift": [predicted.tolist(), observed.tolist()], "ratio": [ratio.tolist() for ratio in ratios]}


def inputs() -> Record:
    """Table 4.8: coordinates of an input of three frequencies, of which some are relevant, in the spatial domain."""
    subsets = [kept for size in (1, 2, 3) for kept in itertools.combinations(range(3), size)]
    relevant = [torch.tensor([i in kept for i in range(3)]) for kept in subsets]
    basis = theory.dct_basis(3)
    return {"subsets": subsets, "coefficients": [spatial_coefficients(basis, some).tolist() for some in relevant]}


def signs() -> Record:
    """Table 4.9: what a step of signGD subtracts, by the signs of A, A + B and A - B."""
    cases = sign_cases()
    return {
        "signs": [case.signs for case in cases],
        "changes": [case.change for case in cases],
        "lengths": [case.comparison for case in cases],
    }


def partition(
    regions_of: Callable[[Tensor, Tensor, float], Regions], slope: float, *, left: float, right: float, top: float,
    steps: int,
) -> Record:  # fmt: skip
    """Figures 4.8 and 4.9: the region of each pair on a grid, with the path of signGD from one pair of each."""
    a, b = grid(left, right, top)
    regions = {name: mask for name, mask in regions_of(a, b, slope).items() if bool(mask.any())}
    region = [next((name for name, mask in regions.items() if mask[place]), None) for place in range(len(a))]
    middles = {name: mask.nonzero()[int(mask.sum()) // 2, 0] for name, mask in regions.items()}
    return {
        "slope": slope,
        "a": drawn(a),
        "b": drawn(b),
        "region": region,
        "orbits": {name: orbit(a[place], b[place], slope, steps) for name, place in middles.items()},
    }


def orbit(a: Tensor, b: Tensor, slope: float, steps: int) -> Any:
    """A and B along some steps of signGD."""
    pairs = [(a, b)]
    for _ in range(steps):
        pairs.append(sign_step(*pairs[-1], slope))
    return [drawn(torch.stack(values)) for values in zip(*pairs, strict=True)]


def grid(left: float, right: float, top: float) -> tuple[Tensor, Tensor]:
    """Pairs of A from left to right and B from -top, or from 0 where A does, to top, none of them on a border."""
    x = left + (right - left) * (torch.arange(SIDE, dtype=torch.float64) + 0.37) / SIDE
    y = top * (2 * (torch.arange(SIDE, dtype=torch.float64) + 0.41) / SIDE - 1)
    a, b = torch.meshgrid(x, y if left < 0 else (y + top) / 2, indexing="xy")
    return a.flatten(), b.flatten()


def drawn(values: Tensor) -> Any:
    """Numbers as far as they can be seen, in nested lists."""

    def rounded(value: Any) -> Any:
        return list(map(rounded, value)) if isinstance(value, list) else float(f"{value:z.{DIGITS}g}")

    return rounded(values.tolist())
