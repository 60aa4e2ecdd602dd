"""The question of linear dynamics: what optimisers do to weights that the data say nothing about."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.fields import require_at_least, require_not_negative, require_positive, require_sizes
from holdfast.questions.question import Material, Needs, Record
from holdfast.show.items import Item

DOMAINS = ("spatial", "frequency")
"""Coordinates that optimisers work in."""
OPTIMISERS = ("GD", "momentum", "signGD", "Adam", "RMSProp")
STATEMENTS = ("prediction", "random", "inputs", "signs", "R", "P", "P flat")
"""Records about signGD on three frequencies, after those of the paths."""


@dataclass(frozen=True, kw_only=True)
class LinearDynamics:
    r"""Linear dynamics: where optimisers take the weights of linear regression with irrelevant frequencies.

    .. math:: e(t + 1) = e(t) - C\, u\bigl(C^\top S\, e(t)\bigr), \qquad
              R_a(w) = \tfrac q2 + \epsilon\sqrt{\tfrac{2q}\pi}\,\|w\| + \tfrac{\epsilon^2}2\|w\|^2,\quad
              q = \sum_i \sigma_i^2 e_i^2

    for the steps :math:`u` of gradient descent, momentum, signGD, Adam and RMSProp, with training in the spatial domain
    (:math:`C` the cosine transform) and in that of frequencies (the identity). No network and no data are needed.

    Args:
        variances: of the input at each frequency; 0 makes it irrelevant.
        target: weights that the data was made with, one for each frequency.
        start: weights before the first step.
        rate: learning rate of all optimisers.
        steps: number of steps.
        samples: drawn for each gradient, as 1000 in the thesis; 0 takes gradients of the population.
        eps: size of the attack in l2; with the root of 2 the risk of a minimiser is the squared norm of its weights.
        problems: number of random problems on which signGD is compared with what is predicted.
        seed: random seed of the samples and of the random problems.

    Reference:
        Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 4.4 and appendix 4.D:
        figures 4.7 to 4.9, tables 4.8 and 4.9, as corrected in `holdfast.theory.linear_dynamics`.
    """

    title: ClassVar = "Optimisers on a linear problem"
    needs: ClassVar = Needs.NOTHING
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "steps": ("drawn step",),
        "errors": ("drawn step", "frequency"),
        "standard": ("drawn step",),
        "adversarial": ("drawn step",),
        "weights": ("frequency",),
        "shift": ("kind", "problem"),
        "ratio": ("kind", "problem"),
        "coefficients": ("subset", "coordinate", "frequency"),
        "signs": ("case", "sign"),
        "changes": ("case", "frequency"),
        "a": ("pair",),
        "b": ("pair",),
        "region": ("pair",),
        "orbits": ("region", "coordinate", "step"),
    }

    variances: tuple[float, ...] = (0.01, 0.0025, 0.0)
    target: tuple[float, ...] = (5.0, 10.0, 0.0)
    start: tuple[float, ...] = (0.01, -0.01, 0.02)
    rate: float = 0.01
    steps: int = 3000
    samples: int = 0
    eps: float = math.sqrt(2)
    problems: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        require_sizes(variances=self.variances)
        for name in ("target", "start"):
            values = getattr(self, name)
            if len(values) != len(self.variances) or not all(map(math.isfinite, values)):
                raise ValueError(
                    f"{name}: expected {len(self.variances)} numbers, one per variance; got {list(values)}"
                )
        if not any(self.variances):
            raise ValueError(f"variances: expected one above 0, got {list(self.variances)}")
        require_positive(rate=self.rate)
        require_not_negative(eps=self.eps)
        require_at_least(1, steps=self.steps, problems=self.problems)
        require_at_least(0, samples=self.samples)

    @property
    def predictable(self) -> bool:
        """Whether it is known where signGD goes: three frequencies, the last irrelevant, the second not too strong."""
        if len(self.variances) != 3:
            return False
        first, second, last = self.variances
        return last == 0 and 0 < second <= 2 * first

    @property
    def parts(self) -> list[tuple[str, ...]]:
        """What each record is about: an optimiser in a domain, then statements about signGD where they apply."""
        paths: list[tuple[str, ...]] = [(domain, name) for domain in DOMAINS for name in OPTIMISERS]
        return paths + [(name,) for name in STATEMENTS] * self.predictable

    def count(self, material: Material) -> int:
        """One record for each part."""
        return len(self.parts)

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """The parts that follow."""
        from holdfast.questions.linear_dynamics.measurement import Measurement

        measurement = Measurement(self)
        for part in self.parts[len(earlier) :]:
            yield {"part": list(part), **measurement.record(*part)}

    @staticmethod
    def rests_on(answer: Answer) -> int:
        """Not on images."""
        return 0

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Where each optimiser ends, its path, and what is predicted of signGD, in tables and charts."""
        from holdfast.questions.linear_dynamics.presentation import presentation

        return presentation(answers)
