"""Right answers of mixtures in few numbers: accuracies with their intervals, and worst cases; without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.analysis.mixing_plan import CLEAN, POLICY, Aim, Plan, Try
from holdfast.statistics import wilson

Answers = NDArray[np.bool_]


@dataclass(frozen=True)
class Rate:
    """Share of right answers.

    Args:
        value: the share.
        low: lower end of its 95 % Wilson interval.
        high: upper end.
    """

    value: float
    low: float
    high: float


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
class AtAim:
    """One attack: a column of figures 4 and 7.

    Args:
        aim: the strength that it aims at, `policy`, or `around policy`.
        standard: the accurate classifier at its points.
        robust: the robust one.
        mixture: the mixture of the chosen strength.
        adaptive: the mixture with a policy, None without.
    """

    aim: Aim
    standard: Rate
    robust: Rate
    mixture: Rate
    adaptive: Rate | None


@dataclass(frozen=True)
class AtRadius:
    """One radius: a column of figure 8.

    Args:
        eps: largest radius of the attacks that count; 0 for images alone.
        standard: worst case of the accurate classifier over the same attacks for all: on each of the two alone, on the
            mixture of the chosen strength, and through and around the policy.
        robust: of the robust one.
        mixture: of the mixture.
        adaptive: of the mixture with a policy, None without.
    """

    eps: float
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
        radii: from 0 on.
    """

    examples: int
    strengths: list[AtStrength]
    aims: list[AtAim]
    radii: list[AtRadius]


def summarise_mixing(rows: pl.DataFrame, plan: Plan, column: str = "right") -> MixingSummary:
    """Accuracies of everything that was tried.

    Args:
        rows: as `holdfast analyse mixing` stores them.
        plan: what the lists in the column stand for.
        column: tries by mixtures.
    """
    right = answers(rows, plan, column)
    return MixingSummary(
        examples=len(right),
        strengths=[_at_strength(right, plan, mixture) for mixture in plan.mixtures],
        aims=[_at_aim(right, plan, aim) for aim in plan.aims],
        radii=[_at_radius(right, plan, eps) for eps in sorted({0.0, plan.eps, *plan.radii})],
    )


def answers(rows: pl.DataFrame, plan: Plan, column: str = "right") -> Answers:
    """Right answers as an array, (N, T, M)."""
    found = np.asarray(rows[column].to_list(), dtype=np.bool_)
    if found.shape[1:] != (len(plan.tries), len(plan.mixtures)):
        raise ValueError(f"expected {len(plan.tries)} tries of {len(plan.mixtures)} mixtures, got {found.shape[1:]}")
    return found


def worst(right: Answers, plan: Plan, mixture: Aim, *, eps: float, aims: tuple[Aim, ...] | None = None) -> Rate:
    """Images that a mixture gets right before all attacks within a radius and after each of them.

    Args:
        right: (N, T, M).
        plan: what is what.
        mixture: which one.
        eps: the radius; attacks within a smaller one count, since their points lie within this one.
        aims: of the attacks that count, None for all.
    """
    counted = [
        number
        for number, one in enumerate(plan.tries)
        if one.eps <= eps and (one.aim is None or aims is None or one.aim in aims)
    ]
    held: Answers = np.all(right[:, counted, plan.place(mixture)], axis=1)
    return rate(held)


def rate(right: Answers) -> Rate:
    """Share of the images that are right, (N,), with its interval."""
    found = wilson(int(right.sum()), len(right))
    return Rate(float(right.mean()), found.low, found.high)


def _at_strength(right: Answers, plan: Plan, mixture: Aim) -> AtStrength:
    return AtStrength(
        mixture=mixture,
        clean=_at(right, plan, CLEAN, mixture),
        on_standard=_at(right, plan, Try(plan.eps, 0.0), mixture),
        on_robust=_at(right, plan, Try(plan.eps, math.inf), mixture),
        itself=_at(right, plan, Try(plan.eps, mixture), mixture),
        worst=worst(right, plan, mixture, eps=plan.eps),
    )


def _at_aim(right: Answers, plan: Plan, aim: Aim) -> AtAim:
    here = Try(plan.eps, aim)
    standard, robust, mixture = (_at(right, plan, here, one) for one in (0.0, math.inf, plan.at))
    return AtAim(aim, standard, robust, mixture, _at(right, plan, here, POLICY) if plan.adaptive else None)


def _at_radius(right: Answers, plan: Plan, eps: float) -> AtRadius:
    same = partial(worst, right, plan, eps=eps, aims=plan.few)
    return AtRadius(eps, same(0.0), same(math.inf), same(plan.at), same(POLICY) if plan.adaptive else None)


def _at(right: Answers, plan: Plan, points: Try, mixture: Aim) -> Rate:
    return rate(right[:, plan.tries.index(points), plan.place(mixture)])
