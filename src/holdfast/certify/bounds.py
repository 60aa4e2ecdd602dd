"""From counts of classes to bounds of their probabilities, and from these to a radius."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from holdfast.certify.noise import Array, Noise
from holdfast.statistics import lower_bounds

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Tally:
    """What the noisy copies of each example were taken for, (N,) each.

    Args:
        top: how often for the class in question.
        other: how often for the most frequent other class.
        trials: how many copies there were.
    """

    top: Array
    other: Array
    trials: Array

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, rows: Integers) -> Tally:
        return Tally(self.top[rows], self.other[rows], self.trials[rows])

    def distinct(self) -> tuple[Tally, Integers]:
        """The different tallies, and which of them each example has."""
        columns = np.stack((self.top, self.other, self.trials))
        different, which = np.unique(columns, axis=1, return_inverse=True)
        return Tally(*different), which.ravel()


class LowerBounds(Protocol):
    """Bounds below shares, such as `lower_bounds`."""

    def __call__(self, successes: Array, trials: Array, *, alpha: float) -> Array:
        """The bounds."""
        ...


def one_vs_rest(tally: Tally, lower: LowerBounds, alpha: float) -> tuple[Array, Array]:
    r"""A lower bound of :math:`p_A`, and :math:`1 - p_A` above all other classes together."""
    share = lower(tally.top, tally.trials, alpha=alpha)
    return share, 1 - share


def two_class(tally: Tally, lower: LowerBounds, alpha: float) -> tuple[Array, Array]:
    r"""A lower bound of :math:`p_A` and an upper bound of every other class, at :math:`\alpha / 2` each.

    The upper bound :math:`U` is that of the most frequent other class. It needs no correction for the number of
    classes: let :math:`j` be the class, fixed though unknown, whose true probability :math:`p_j` is largest among the
    others. The most frequent one has a count of at least :math:`n_j`, and :math:`U` rises with the count, so
    :math:`U < p_j` only where already the bound made of :math:`n_j` fails, which happens with probability
    :math:`\alpha / 2`. All other classes are no likelier than :math:`j`. :math:`1 - p_A` bounds them too.
    """
    share = lower(tally.top, tally.trials, alpha=alpha / 2)
    return share, 1 - np.maximum(share, lower(tally.trials - tally.other, tally.trials, alpha=alpha / 2))


BOUNDS: dict[str, Callable[[Tally, LowerBounds, float], tuple[Array, Array]]] = {
    "one_vs_rest": one_vs_rest,
    "two_class": two_class,
}
"""What to bound."""


@dataclass(frozen=True)
class Question:
    """What the samples are to prove.

    Args:
        noise: that the copies have.
        bound: a name of `BOUNDS`.
        n: copies at most.
        alpha: probability of a wrong answer.
    """

    noise: Noise
    bound: str
    n: int
    alpha: float

    def radius(self, tally: Tally, lower: LowerBounds = lower_bounds, alpha: float | None = None) -> Array:
        r""":math:`\frac12 (F^{-1}(p_A) - F^{-1}(p_B))` of the bounds; not positive where nothing is proved."""
        first, second = BOUNDS[self.bound](tally, lower, self.alpha if alpha is None else alpha)
        return 0.5 * (self.noise.quantile(first) - self.noise.quantile(second))


def unanimous(trials: int) -> Tally:
    """All copies of one example taken for the same class."""
    return Tally(np.array([float(trials)]), np.zeros(1), np.array([float(trials)]))


def likely_shares(top: Array, trials: Array, level: float | Array) -> Array:
    """Quantiles of the posterior of the top class's probability; the prior expects many images all of one class."""
    from scipy.special import betaincinv

    return np.asarray(betaincinv(top + 0.5, trials - top + 0.1, level))


def outlook(tally: Tally, top: Array, trials: float | Array) -> Tally:
    """The tally that is foreseen for a count of the top class; the runner-up keeps its part of the rest."""
    part = tally.other / np.maximum(1, tally.trials - tally.top)
    return Tally(top, part * (trials - top), np.broadcast_to(trials, top.shape))


def expected_radius(pilot: Tally, trials: float | Array, question: Question) -> Array:
    """Mean radius of a number of new copies, over eight equally likely probabilities of the top class."""
    shares = likely_shares(pilot.top, pilot.trials, (np.arange(8)[:, None] + 0.5) / 8)
    return np.asarray(np.maximum(question.radius(outlook(pilot, trials * shares, trials)), 0).mean(axis=0))
