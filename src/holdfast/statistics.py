"""Intervals for shares, paired comparison, areas: what turns counts into honest statements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


def wilson(successes: int, trials: int, *, alpha: float = 0.05) -> Interval:
    r"""Wilson's score interval of a share.

    .. math:: \frac{\hat p + z^2/2n \pm z\sqrt{\hat p(1-\hat p)/n + z^2/4n^2}}{1 + z^2/n}

    Reference:
        Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 1927.
    """
    _check_counts(successes, trials, alpha)
    z = NormalDist().inv_cdf(1 - alpha / 2)
    share, shrink = successes / trials, 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / shrink
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / shrink
    return Interval(
        0.0 if successes == 0 else max(0.0, centre - half), 1.0 if successes == trials else min(1.0, centre + half)
    )


def clopper_pearson(successes: int, trials: int, *, alpha: float = 0.05) -> Interval:
    """The exact two-sided interval of a share: it covers with at least 1 - alpha for every true value.

    Reference:
        Clopper, Pearson, The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial, 1934.
    """
    _check_counts(successes, trials, alpha)
    from scipy.special import betaincinv

    failures = trials - successes
    low = 0.0 if successes == 0 else float(betaincinv(successes, failures + 1, alpha / 2))
    high = 1.0 if failures == 0 else float(betaincinv(successes + 1, failures, 1 - alpha / 2))
    return Interval(low, high)


@dataclass(frozen=True)
class Paired:
    """Two models on the same examples.

    Args:
        difference: accuracy of the first minus that of the second.
        only_first: examples that only the first gets right.
        only_second: examples that only the second gets right.
        examples: how many both were asked.
        p_value: of the exact McNemar test that the two are equally often right alone.
    """

    difference: float
    only_first: int
    only_second: int
    examples: int
    p_value: float


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> Paired:
    """Compare two models by the examples they disagree on (exact binomial test).

    Reference:
        McNemar, Note on the Sampling Error of the Difference between Correlated Proportions, Psychometrika 1947.
    """
    if len(first) != len(second) or not len(first):
        raise ValueError(f"a paired comparison needs the same examples, got {len(first)} and {len(second)}")
    only_first = sum(a and not b for a, b in zip(first, second, strict=True))
    only_second = sum(b and not a for a, b in zip(first, second, strict=True))
    return Paired(
        (only_first - only_second) / len(first),
        only_first,
        only_second,
        len(first),
        _sign_test(min(only_first, only_second), only_first + only_second),
    )


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down correction: p-values that may be read together.

    Reference:
        Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 1979.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def exceeds(count: int, trials: int, share: float) -> float:
    r"""P-value of the exact binomial test that the true share is no larger: the less, the surer that it is larger.

    .. math:: P(X \ge k) \quad\text{for } X \sim \mathrm{Binomial}(n, q)

    Args:
        count: :math:`k`, how often it happened.
        trials: :math:`n`, how often it could have.
        share: :math:`q`, the share that is tolerated.
    """
    _check_counts(count, trials, 0.5)
    if not 0 <= share < 1:
        raise ValueError(f"share must lie in [0, 1), got {share}")
    from scipy.special import bdtrc

    return 1.0 if count == 0 else float(bdtrc(count - 1, trials, share))


def trapezoid(values: Sequence[float], positions: Sequence[float]) -> float:
    """Area under the broken line through the points (positions increasing)."""
    if len(values) != len(positions) or len(values) < 2:
        raise ValueError(f"an area needs two or more points, got {len(values)} values at {len(positions)} positions")
    if any(b <= a for a, b in itertools.pairwise(positions)):
        raise ValueError("an area needs increasing positions")
    steps = zip(itertools.pairwise(values), itertools.pairwise(positions), strict=True)
    return math.fsum((a + b) / 2 * (q - p) for (a, b), (p, q) in steps)


def _sign_test(fewer: int, trials: int) -> float:
    """Two-sided p-value of `fewer` heads, or as extreme, in fair throws."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(fewer, trials, 0.5)))


def _check_counts(successes: int, trials: int, alpha: float) -> None:
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"expected 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
