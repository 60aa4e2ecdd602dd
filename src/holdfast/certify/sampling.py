r"""How many noisy copies to look at: a fixed number, planned for the radius, or until a list of radii is decided.

All three keep the promise that the class holds within the radius with probability :math:`1 - \alpha` per image. None of
them needs a model: what they know of an image is a `Tally`, and a function draws more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.certify.bounds import Integers, Question, Tally, expected_radius, likely_shares, outlook, unanimous
from holdfast.certify.noise import Array
from holdfast.statistics import lower_bounds, sequential_lower_bounds

BLOCK = 64
"""Noisy copies that are drawn together; adaptive sampling looks at multiples of it."""


class Sampling(Protocol):
    """When to stop. Counts are of copies per example; arrays have an entry for each."""

    def pilot(self, n: int) -> int:
        """Copies to look at first, for planning only."""
        ...

    def first(self, pilot: Tally, question: Question) -> Integers:
        """How many copies to look at before judging; 0 for those that are hopeless."""
        ...

    def following(self, tally: Tally, question: Question) -> Integers:
        """How many to have seen when judging again; as many as now where all is settled."""
        ...

    def radius(self, tally: Tally, question: Question) -> Array:
        """The radius that is proved after stopping; not positive where nothing is."""
        ...

    def falls_short(self, question: Question) -> str | None:
        """What cannot be done, even if all copies are taken for the same class; None if all can."""
        ...


@dataclass(frozen=True)
class Fixed:
    """All `n` copies of every image."""

    def pilot(self, n: int) -> int:
        """None."""
        return 0

    def first(self, pilot: Tally, question: Question) -> Integers:
        """All."""
        return np.full(len(pilot), question.n)

    def following(self, tally: Tally, question: Question) -> Integers:
        """No more."""
        return tally.trials.astype(np.int64)

    def radius(self, tally: Tally, question: Question) -> Array:
        """By one Clopper-Pearson bound."""
        return question.radius(tally)

    def falls_short(self, question: Question) -> str | None:
        """Nothing is proved even if all copies agree."""
        return None if question.radius(unanimous(question.n))[0] > 0 else "to prove anything"


FIXED = Fixed()
"""The default."""


@dataclass(frozen=True, kw_only=True)
class FullRadius:
    r"""As many copies as the radius is worth, planned from a small pilot sample.

    :math:`n / 100` copies serve for planning alone. Their :math:`k` successes and :math:`f` failures give a posterior
    :math:`\mathrm{Beta}(k + \frac12, f + \frac1{10})` of the top class's probability, and with it the radius
    :math:`R(m)` that is expected of :math:`m` further copies. The plan is the least :math:`m` with

    .. math::
        R(m) \ge R(M) - \min\bigl(\tfrac14 R(M),\ \mathrm{loss} \cdot \max(R(M), \tfrac13 R^*)\bigr),
        \qquad M = n - n / 100,

    where :math:`R^*` is what :math:`M` copies prove if they all agree. So more copies are not expected to raise a
    radius by more than that share of it. Of small radii, which matter little in the average, that share of a third of
    :math:`R^*` may be lost, but never more than a quarter.

    Given the pilot, :math:`m` is a fixed number, and the certificate is one Clopper-Pearson bound of :math:`m` new
    copies at the full :math:`\alpha`: its guarantee does not depend on the plan or the prior. An image whose radius at
    :math:`M` is not even positive at the posterior's 99 % quantile is given up at once. Bounds that hold at many looks
    together would not set the pilot aside, but they are wider: for the same width they need about twice the copies.

    What can be saved depends on the images. Where all copies agree, no method can stop before 0.73 n without losing 2 %
    of the radius :math:`F^{-1}(\alpha^{1/n})` of all copies (normal noise, n of 100,000).

    Args:
        loss: share of the radius that may be lost.

    Reference:
        Chen et al., Input-Specific Robustness Certification for Randomized Smoothing, AAAI 2022, arXiv:2112.12084.
        Differs: they plan with a confidence interval of the pilot, not with an expectation.
    """

    loss: float = 0.02

    def __post_init__(self) -> None:
        if not 0 < self.loss < 1:
            raise ValueError(f"loss must lie between 0 and 1, got {self.loss}")

    def pilot(self, n: int) -> int:
        """A hundredth."""
        return n // 100

    def first(self, pilot: Tally, question: Question) -> Integers:
        """The plan."""
        pilot, which = pilot.distinct()  # many images have the same: all copies of one class
        most = question.n - self.pilot(question.n)
        hopeful = question.radius(outlook(pilot, most * likely_shares(pilot.top, pilot.trials, 0.99), most)) > 0
        hoped, largest = expected_radius(pilot, most, question), question.radius(unanimous(most))
        enough = hoped - np.minimum(hoped / 4, self.loss * np.maximum(hoped, largest / 3))
        low, high = np.zeros(len(pilot)), np.full(len(pilot), float(most))
        for _ in range(7):  # a plan need not be more exact than a hundredth of n
            middle = np.ceil((low + high) / 2)
            less = expected_radius(pilot, middle, question) >= enough
            low, high = np.where(less, low, middle), np.where(less, middle, high)
        return np.where(hopeful, high, 0).astype(np.int64)[which]

    def following(self, tally: Tally, question: Question) -> Integers:
        """No more."""
        return tally.trials.astype(np.int64)

    def radius(self, tally: Tally, question: Question) -> Array:
        """By one Clopper-Pearson bound."""
        return question.radius(tally)

    def falls_short(self, question: Question) -> str | None:
        """Nothing is proved even if all copies agree."""
        agreed = question.radius(unanimous(question.n - self.pilot(question.n)))
        return None if agreed[0] > 0 else "to prove anything"


@dataclass(frozen=True, kw_only=True)
class Decision:
    r"""Look again and again, and stop when for every radius of a list it is settled whether it is certified.

    The first look is after 64 copies, every next one after a tenth more. A radius is settled as certified when the
    bound of `sequential_lower_bounds`, which holds at all looks together, proves it. It is settled as not certified
    when the last look at :math:`n` copies would prove it with a probability of `futility` or less, given what was seen
    so far; stopping then cannot make the certificate wrong. That last look has a Clopper-Pearson bound of its own. All
    looks together spend three quarters of :math:`\alpha` and that bound a quarter, so that the certificate is wrong
    with probability at most :math:`\alpha`.

    The certificate has the radius that the bound proves when sampling stops. It is no smaller than the largest radius
    of the list that was certified, but says nothing of how far beyond it the class holds.

    Args:
        radii: the list, in the norm of the certificate; 0 asks whether the prediction is settled.
        futility: predicted probability below which a radius is given up.
    """

    radii: tuple[float, ...]
    futility: float = 0.02

    def __post_init__(self) -> None:
        if not self.radii or not all(0 <= radius < math.inf for radius in self.radii):
            raise ValueError(f"radii: expected one or more numbers that are not negative; got {list(self.radii)}")
        if not 0 < self.futility < 1:
            raise ValueError(f"futility must lie between 0 and 1, got {self.futility}")

    def pilot(self, n: int) -> int:
        """None."""
        return 0

    def first(self, pilot: Tally, question: Question) -> Integers:
        """One block."""
        return np.full(len(pilot), min(BLOCK, question.n))

    def following(self, tally: Tally, question: Question) -> Integers:
        """A tenth more where a radius lies between what is proved and what is still likely to be."""
        proved, likely = self.radius(tally, question), self.prospect(tally, question)
        radii = np.maximum(self.radii, np.finfo(np.float64).tiny)[:, None]  # 0 is certified by a positive radius
        open_ = ((proved < radii) & (radii <= likely)).any(axis=0)
        more = np.minimum(question.n, np.ceil(1.1 * tally.trials / BLOCK) * BLOCK)
        return np.where(open_, more, tally.trials).astype(np.int64)

    def radius(self, tally: Tally, question: Question) -> Array:
        """By the sequential bound, or at the last look by the better of the two."""
        looks = question.radius(tally, sequential_lower_bounds, (1 - LAST_LOOK) * question.alpha)
        last = question.radius(tally, lower_bounds, LAST_LOOK * question.alpha)
        return np.where(tally.trials < question.n, looks, np.maximum(looks, last))

    def falls_short(self, question: Question) -> str | None:
        """The largest radius is not proved even if all copies agree."""
        agreed = self.radius(unanimous(question.n), question)[0]
        return None if agreed >= max(self.radii) and agreed > 0 else f"to certify a radius of {max(self.radii):g}"

    def prospect(self, tally: Tally, question: Question) -> Array:
        r"""The radius that the last look exceeds with a predicted probability of `futility`.

        The successes among the copies to come vary with the posterior and by themselves. A posterior of
        :math:`t (n - t) / n` copies instead of :math:`t` has the variance of both.
        """
        rest = (question.n - tally.trials) / question.n
        shares = likely_shares(rest * tally.top, rest * tally.trials, 1 - self.futility)
        top = tally.top + (question.n - tally.trials) * shares
        return question.radius(outlook(tally, top, question.n), lower_bounds, LAST_LOOK * question.alpha)


LAST_LOOK = 0.25
"""Share of alpha that `Decision` keeps for its last look."""
