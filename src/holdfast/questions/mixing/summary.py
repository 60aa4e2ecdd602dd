"""What is tried on mixtures of two classifiers, and their right answers in few numbers; without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.crossing import crossing
from holdfast.questions.presenting import Rate

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    Right = NDArray[np.bool_]

POLICY = "policy"
"""In place of a strength: the mixture whose strength a policy chooses."""

AROUND_POLICY = "around policy"
"""An aim of attacks: the same mixture, with gradients that go around the policy."""

Aim = float | str
"""A strength, `POLICY` or `AROUND_POLICY`."""

POINTS: Mapping[str, float | None] = {"clean": None, "on_standard": 0.0, "on_robust": math.inf}
"""Where gradients are measured: at the images, and at points of attacks that aim at this strength."""


@dataclass(frozen=True)
class Try:
    """Points on which all mixtures are tried.

    Args:
        eps: radius of the attack; 0 for the images themselves.
        aim: the mixture that the attack climbs, None for the images.
    """

    eps: float
    aim: Aim | None


CLEAN = Try(0.0, None)


@dataclass(frozen=True)
class Plan:
    """All mixtures and all tries.

    Args:
        strengths: of the mixtures, rising, 0 and infinity among them.
        eps: radius of the attacks that aim at each of them.
        radii: other radii, at which only 0, `at`, infinity and the policy, through and around it, are aimed at.
        at: the strength that stands for mixtures where only one is shown; one of the strengths.
        adaptive: whether a mixture with a policy comes after the others.
    """

    strengths: tuple[float, ...]
    eps: float
    radii: tuple[float, ...] = ()
    at: float = math.inf
    adaptive: bool = False

    def __post_init__(self) -> None:
        if not all(0 < radius < math.inf for radius in (self.eps, *self.radii)):
            raise ValueError(f"expected radii that are positive and finite, got {[self.eps, *self.radii]}")
        if not {0.0, math.inf, self.at} <= {*self.strengths} or sorted({*self.strengths}) != [*self.strengths]:
            raise ValueError(f"expected rising strengths with 0, {self.at:g} and infinity, got {[*self.strengths]}")

    @property
    def mixtures(self) -> tuple[Aim, ...]:
        """The strengths, and the policy if there is one."""
        return (*self.strengths, POLICY) if self.adaptive else self.strengths

    @property
    def aims(self) -> tuple[Aim, ...]:
        """What attacks climb at the main radius: every mixture, and that of a policy in two ways."""
        return (*self.mixtures, AROUND_POLICY) if self.adaptive else self.mixtures

    @property
    def few(self) -> tuple[Aim, ...]:
        """What they climb with every radius."""
        some = dict.fromkeys((0.0, self.at, math.inf))
        return (*some, POLICY, AROUND_POLICY) if self.adaptive else (*some,)

    @property
    def tries(self) -> tuple[Try, ...]:
        """The images, then every aim at the main radius, then few of them at the others."""
        others = [Try(eps, aim) for eps in self.radii if eps != self.eps for aim in self.few]
        return (CLEAN, *(Try(self.eps, aim) for aim in self.aims), *others)

    def place(self, mixture: Aim | None) -> int:
        """Where a mixture stands among the mixtures."""
        places: dict[Aim | None, int] = {each: number for number, each in enumerate(self.mixtures)}
        return places[mixture]

    def settings(self) -> dict[str, Any]:
        """The plan in plain values: infinity is a word, since JSON has no such number."""
        strengths = ["inf" if math.isinf(strength) else strength for strength in (*self.strengths, self.at)]
        return {
            "strengths": strengths[:-1], "eps": self.eps, "radii": [*self.radii], "at": strengths[-1],
            "adaptive": self.adaptive,
        }  # fmt: skip


def planned(settings: Mapping[str, Any]) -> Plan:
    """The plan that `Plan.settings` wrote down."""
    strengths, at = tuple(map(float, settings["strengths"])), float(settings["at"])
    return Plan(strengths, settings["eps"], tuple(settings["radii"]), at, settings["adaptive"])


def written(strength: Aim) -> str:
    """A strength as charts and tables have it."""
    if isinstance(strength, str):
        return strength
    return "∞" if math.isinf(strength) else f"{strength:.0f}" if strength >= 1000 else f"{strength:.3g}"


def check_strengths(strengths: Sequence[float]) -> None:
    """Refuse what is no strength of a mixture."""
    if not all(strength >= 0 for strength in strengths):
        raise ValueError(f"strengths: expected numbers from 0 on, such as 0.1,1,10; got {[*strengths]}")


def grid_with(strengths: Sequence[float], *others: float) -> tuple[float, ...]:
    """The strengths with 0, infinity and others, rising, each once."""
    return tuple(sorted({0.0, math.inf, *strengths, *others}))


@dataclass(frozen=True)
class AtStrength:
    """One mixture: a column of figure 6.

    Args:
        mixture: its strength, or `policy`.
        clean: at the images.
        on_standard: at points of attacks on the accurate classifier alone.
        on_robust: on the robust one alone.
        itself: on this mixture, through everything in it.
        worst: images that are right before any attack and after each of them, whatever it aims at.
    """

    mixture: Aim
    clean: Rate
    on_standard: Rate
    on_robust: Rate
    itself: Rate
    worst: Rate


@dataclass(frozen=True)
class Compared:
    """Classifiers under the same attacks: a column of figures 4 and 7, or of figure 8.

    Args:
        at: aim of one attack; or the largest radius of the attacks that count, each on one of the two alone, on the
            mixture of the chosen strength, or through or around the policy.
        standard: the accurate classifier after the attack, or in its worst case.
        robust: the robust one.
        mixture: the mixture of the chosen strength.
        adaptive: the mixture with a policy, None without.
    """

    at: Aim
    standard: Rate
    robust: Rate
    mixture: Rate
    adaptive: Rate | None


@dataclass(frozen=True)
class MixingSummary:
    """The mixtures of two classifiers.

    Args:
        examples: how many images.
        strengths: of every strength, and of the policy last if there is one.
        aims: of every attack at the main radius.
        radii: from 0, which stands for the images alone, on.
        crossing: the aim up to which the robust classifier is better, see `holdfast.crossing`.
    """

    examples: int
    strengths: list[AtStrength]
    aims: list[Compared]
    radii: list[Compared]
    crossing: float

    @property
    def fixed(self) -> list[AtStrength]:
        """The mixtures whose strength is a number."""
        return [at for at in self.strengths if at.mixture != POLICY]

    @property
    def best(self) -> AtStrength:
        """The mixture of fixed strength with the best worst case; of equals the one with more clean images right."""
        return max(self.fixed, key=lambda at: (at.worst.value, at.clean.value))


def summarise_mixing(right: pl.Series, plan: Plan) -> MixingSummary:
    """Accuracies of everything that was tried; `right` holds tries by mixtures for each image."""
    table = _table(right, plan)
    aims = [_at_aim(table, plan, aim) for aim in plan.aims]
    numbers = [each for each in aims if not isinstance(each.at, str)]  # an aim at a policy is no strength
    rates = [[getattr(each, who).value for each in numbers] for who in ("standard", "robust")]
    return MixingSummary(
        examples=len(table),
        strengths=[_at_strength(table, plan, mixture) for mixture in plan.mixtures],
        aims=aims,
        radii=[_at_radius(table, plan, eps) for eps in sorted({0.0, plan.eps, *plan.radii})],
        crossing=crossing(plan.strengths, *rates),
    )


def _table(right: pl.Series, plan: Plan) -> Right:
    """Right answers as an array, (N, T, M)."""
    import numpy as np

    table = np.asarray(right.to_list(), dtype=np.bool_)
    if table.shape[1:] != (len(plan.tries), len(plan.mixtures)):
        raise ValueError(f"expected {len(plan.tries)} tries of {len(plan.mixtures)} mixtures, got {table.shape[1:]}")
    return table


def worst(right: Right, plan: Plan, mixture: Aim, *, eps: float, aims: tuple[Aim, ...] | None = None) -> Rate:
    """Images that a mixture gets right before all attacks within a radius and after each of them.

    Args:
        right: (N, T, M).
        plan: what is what.
        mixture: which one.
        eps: the radius; attacks within a smaller one count, since their points lie within this one.
        aims: of the attacks that count, None for all.
    """
    import numpy as np

    counted = [
        number
        for number, one in enumerate(plan.tries)
        if one.eps <= eps and (one.aim is None or aims is None or one.aim in aims)
    ]
    return Rate.of(np.all(right[:, counted, plan.place(mixture)], axis=1))


def _at_strength(right: Right, plan: Plan, mixture: Aim) -> AtStrength:
    tries = (CLEAN, *(Try(plan.eps, aim) for aim in (0.0, math.inf, mixture)))
    clean, on_standard, on_robust, itself = (_at(right, plan, points, mixture) for points in tries)
    return AtStrength(mixture, clean, on_standard, on_robust, itself, worst(right, plan, mixture, eps=plan.eps))


def _at_aim(right: Right, plan: Plan, aim: Aim) -> Compared:
    return _compared(aim, plan, partial(_at, right, plan, Try(plan.eps, aim)))


def _at_radius(right: Right, plan: Plan, eps: float) -> Compared:
    return _compared(eps, plan, partial(worst, right, plan, eps=eps, aims=plan.few))


def _compared(at: Aim, plan: Plan, rate: Any) -> Compared:
    return Compared(at, rate(0.0), rate(math.inf), rate(plan.at), rate(POLICY) if plan.adaptive else None)


def _at(right: Right, plan: Plan, points: Try, mixture: Aim) -> Rate:
    return Rate.of(right[:, plan.tries.index(points), plan.place(mixture)])
