"""Confidence intervals of shares, exact tests, and areas under curves.

The command line needs some of it before it starts, so NumPy and SciPy are loaded where they are used.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


def lower_bounds(successes: NDArray[np.float64], trials: NDArray[np.float64], *, alpha: float) -> NDArray[np.float64]:
    r"""One-sided Clopper-Pearson bounds of many shares: each is at most the true share with probability 1 - alpha.

    .. math:: \underline p = B^{-1}(\alpha;\, k,\, n - k + 1), \qquad 0 \text{ for } k = 0

    Args:
        successes: :math:`k`, any shape; may be fractional, for bounds that are only expected.
        trials: :math:`n`, 1 or more, of the same shape.
        alpha: error probability of each bound.
    """
    import numpy as np
    from scipy.special import betaincinv

    some = np.maximum(successes, np.finfo(np.float64).tiny)
    return np.where(successes > 0, betaincinv(some, trials - successes + 1, alpha), 0.0)


def sequential_lower_bounds(
    successes: NDArray[np.float64], trials: NDArray[np.float64], *, alpha: float
) -> NDArray[np.float64]:
    r"""Lower bounds of shares that hold at all sample sizes together, so that one may look and stop at any time.

    A wager against the share being :math:`q` or less multiplies its stake, after :math:`k` successes and :math:`f`
    failures, by

    .. math::
        M_q = \int_q^1 \frac{\theta^k (1 - \theta)^f}{q^k (1 - q)^f}\, \pi_q(\theta)\, d\theta
            = \frac{B(k + 1, f + \tfrac12)\, \bar I_q(k + 1, f + \tfrac12)}
                   {2\, q^k (1 - q)^{f + 1/2}},
        \qquad \pi_q(\theta) \propto (1 - \theta)^{-1/2} \text{ on } (q, 1).

    If the true share is at most :math:`q`, every ratio under the integral, and so their mean, is a supermartingale that
    starts at 1. By Ville's inequality :math:`M_q` then ever reaches :math:`1 / \alpha` with probability at most
    :math:`\alpha`. The bound is the largest :math:`q` that is refuted.

    Solved in two steps: :math:`q_1` with :math:`\bar I = 1` is too large, and since :math:`\bar I_q` falls with
    :math:`q`, :math:`q_2` with the constant :math:`\bar I_{q_1}` is not. What is left of the denominator falls with
    :math:`q` below :math:`k / (n + \tfrac12)`, so that :math:`q_2` above the true share :math:`p` means
    :math:`M_p \ge 1 / \alpha`.

    Args:
        successes: :math:`k`, any shape.
        trials: :math:`n = k + f`, of the same shape.
        alpha: error probability of the whole sequence.

    Reference:
        Robbins, Statistical Methods Related to the Law of the Iterated Logarithm, Annals of Mathematical Statistics
        1970. Waudby-Smith, Ramdas, Estimating Means of Bounded Random Variables by Betting, JRSS B 2024.
    """
    import numpy as np
    from scipy.special import betaincc, betaln

    failures = trials - successes
    wanted = math.log(2 / alpha) - betaln(successes + 1, failures + 0.5)
    too_large = _where_refuted(successes, failures, wanted)
    share = betaincc(successes + 1, failures + 0.5, too_large)
    return _where_refuted(successes, failures, wanted - np.log(share))


def _where_refuted(
    successes: NDArray[np.float64], failures: NDArray[np.float64], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""The largest :math:`q` (by bisection, from below) with :math:`-k \log q - (f + 1/2) \log(1 - q)` as wanted."""
    import numpy as np

    low = np.zeros_like(wanted)
    high = successes / (successes + failures + 0.5)
    for _ in range(50):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):  # without successes both ends are 0
            refuted = -successes * np.log(middle) - (failures + 0.5) * np.log1p(-middle) >= wanted
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def fair_coin_test(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two-sided p-values of the exact binomial test that two outcomes are equally likely; 1 where neither occurred."""
    import numpy as np
    from scipy.special import bdtr

    p_values = 2 * bdtr(np.minimum(first, second), (first + second).astype(np.int64), 0.5)
    return np.where(first + second > 0, np.minimum(1.0, p_values), 1.0)


@dataclass(frozen=True)
class Paired:
    """Two models on the same examples.

    Args:
        difference: accuracy of the first minus that of the second.
        only_first: examples that only the first gets right.
        only_second: examples that only the second gets right.
        examples: number of common examples.
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


@dataclass(frozen=True)
class Spread:
    """The mean of a sample and its uncertainty.

    Args:
        mean: of the sample.
        deviation: standard deviation of the sample; None for one number, which has none.
        half: half of the 95 % normal interval of the mean; None for one number.
    """

    mean: float
    deviation: float | None
    half: float | None


def spread(values: Sequence[float]) -> Spread:
    """Mean and deviation of a sample, with the 95 % interval of the mean."""
    if len(values) == 1:
        return Spread(values[0], None, None)
    deviation = stdev(values)
    return Spread(fmean(values), deviation, 1.959964 * deviation / math.sqrt(len(values)))


def exceeds(count: int, trials: int, share: float) -> float:
    r"""P-value of the exact binomial test that the true share is no larger than the tolerated one.

    .. math:: P(X \ge k) \quad\text{for } X \sim \mathrm{Binomial}(n, q)

    Args:
        count: :math:`k`, number of successes.
        trials: :math:`n`, number of trials.
        share: :math:`q`, the share that is tolerated.
    """
    _check_counts(count, trials, 0.5)
    if not 0 <= share < 1:
        raise ValueError(f"share must lie in [0, 1), got {share}")
    from scipy.special import bdtrc

    return 1.0 if count == 0 else float(bdtrc(count - 1, trials, share))


def entropy(counts: Sequence[int]) -> float:
    r"""Entropy :math:`-\sum_k q_k \log q_k` of frequencies in nats: the cross entropy of the best constant answer."""
    total = sum(counts)
    return -math.fsum(count / total * math.log(count / total) for count in counts if count)


def bernoulli_divergence(share: float, reference: float) -> float:
    r"""Kullback-Leibler divergence of two coins, :math:`a \log\frac ag + (1 - a) \log\frac{1 - a}{1 - g}`, in nats.

    With :math:`a` an accuracy and :math:`g` that of the same answers in random order, it is a lower bound of the mutual
    information of answers and labels.

    Args:
        share: :math:`a`.
        reference: :math:`g`, between 0 and 1 or equal to :math:`a`.
    """
    pairs = [(share, reference), (1 - share, 1 - reference)]
    return math.fsum(a * math.log(a / g) if g else math.inf for a, g in pairs if a)


def trapezoid(values: Sequence[float], positions: Sequence[float]) -> float:
    """Area under the broken line through the points (positions increasing)."""
    if len(values) != len(positions) or len(values) < 2:
        raise ValueError(f"an area needs two or more points, got {len(values)} values at {len(positions)} positions")
    if any(b <= a for a, b in itertools.pairwise(positions)):
        raise ValueError("an area needs increasing positions")
    steps = zip(itertools.pairwise(values), itertools.pairwise(positions), strict=True)
    return math.fsum((a + b) / 2 * (q - p) for (a, b), (p, q) in steps)


def noise_area(accuracies: Sequence[float], positions: Sequence[float]) -> float:
    """AUC_GN: area under the accuracy against noise, stretched to end at zero with its start unchanged."""
    return trapezoid(without_guessing(accuracies), positions)


def without_guessing(accuracies: Sequence[float]) -> tuple[float, ...]:
    r"""Accuracies :math:`A_j` under growing noise, stretched so that the lowest, mere guessing, becomes zero.

    .. math:: A'_j = \frac{(1 - \alpha_j) A_j}{1 - \alpha_j A_j}, \qquad
        \alpha_j = 1 - \frac{A_j - \min_k A_k}{A_0 - \min_k A_k}

    Reference:
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, appendix B.2. (Its code has the maximum for :math:`A_0`.)
    """
    lowest = min(accuracies)
    if accuracies[0] == lowest:
        return tuple(accuracies)  # noise has no effect, so that the level of guessing is unknown
    shares = [1 - (value - lowest) / (accuracies[0] - lowest) for value in accuracies]
    return tuple((1 - a) * value / (1 - a * value) for a, value in zip(shares, accuracies, strict=True))


def _sign_test(fewer: int, trials: int) -> float:
    """Two-sided p-value of `fewer` heads, or a more extreme number, in fair throws."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(fewer, trials, 0.5)))


def _check_counts(successes: int, trials: int, alpha: float) -> None:
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"expected 0 <= successes <= trials and trials >= 1, got {successes} of {trials}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
