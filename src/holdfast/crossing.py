"""Where an accurate and a robust classifier change places, as the adversary aims at stronger and stronger mixtures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

RESOLUTION = 1e-9
"""Sums of accuracies that differ by less count as equal: sums of equal shares need not be so in binary."""


def crossing(strengths: Sequence[float], of_standard: Sequence[float], of_robust: Sequence[float]) -> float:
    r"""The strength :math:`\alpha_0` up to which the robust classifier answers better than the accurate one.

    Attacks that aim at a mixture of strength :math:`\alpha_t` hurt :math:`g` most at 0 and :math:`h` most at infinity.
    Whoever trusts :math:`h` where :math:`\alpha_t \le \alpha_0` and :math:`g` beyond is right most often over these
    strengths. Measured curves may cross several times; this crossing is the best of them to within `RESOLUTION`, the
    last one of equals.
    It is found where the difference of the curves is 0, linear between neighbouring strengths: in
    :math:`\log\alpha`, in :math:`\alpha` after 0, in :math:`1 / \alpha` before infinity, and in
    :math:`\alpha / (1 + \alpha)` between the two.

    Args:
        strengths: :math:`\alpha_t`, rising, from 0 to infinity.
        of_standard: accuracy of :math:`g` under each attack.
        of_robust: accuracy of :math:`h`.

    Returns:
        :math:`\alpha_0`. Infinity where trusting :math:`h` is best (or as good) at all of these strengths, 0 where
        trusting :math:`g` is: then the curves do not cross between the first and the last strength.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        section 5.1 and figure 4, where :math:`\alpha_0` is read off the picture.
    """
    _check(strengths, of_standard, of_robust)
    ahead = [robust - standard for standard, robust in zip(of_standard, of_robust, strict=True)]
    # What is gained by trusting h at the first 0, 1, 2, ... strengths instead of g, in whole units of the resolution.
    gained = [0, *(round(total / RESOLUTION) for total in itertools.accumulate(ahead))]
    trusted = max(range(len(gained)), key=lambda place: (gained[place], place))
    if trusted in (0, len(ahead)):
        return math.inf if trusted else 0.0
    # h leads (or draws) up to here and g leads from here on: another cut would gain more
    lead, deficit = gained[trusted] - gained[trusted - 1], gained[trusted] - gained[trusted + 1]
    return _between(strengths[trusted - 1], strengths[trusted], lead / (lead + deficit))


def _between(low: float, high: float, part: float) -> float:
    """The strength a part of the way, in [0, 1), from one to another."""
    if low > 0:
        return low / (1 - part) if math.isinf(high) else low ** (1 - part) * high**part
    return part / (1 - part) if math.isinf(high) else part * high


def _check(strengths: Sequence[float], of_standard: Sequence[float], of_robust: Sequence[float]) -> None:
    if not len(strengths) == len(of_standard) == len(of_robust) or not strengths:
        lengths = f"{len(strengths)}, {len(of_standard)} and {len(of_robust)}"
        raise ValueError(f"crossing: expected as many accuracies as strengths, and one at least; got {lengths}")
    if not strengths[0] >= 0 or not all(low < high for low, high in itertools.pairwise(strengths)):
        raise ValueError(f"crossing: expected strengths from 0 on that rise, got {[*strengths]}")
    if not all(map(math.isfinite, (*of_standard, *of_robust))):
        raise ValueError("crossing: expected accuracies that are numbers, got one that is not")
