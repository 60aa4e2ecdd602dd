r"""Boundary thickness of classifiers that are optimal under isotropic noise, with hard and with smoothed labels.

Two points of different classes lie :math:`d` apart, and each is trained with noise of density
:math:`p(r) = p_\gamma(r) / S_n(r)`, :math:`S_n(r) \propto r^{n-1}`. At the share :math:`t` of the way from one to the
other, the classifier that minimises the expected cross-entropy has the difference of probabilities

.. math:: g^*(t) = \frac{p(td) - p((1 - t)d)}{p(td) + p((1 - t)d)}, \qquad
          g_{LS}(t) = g^*(t) - \frac{c}{c - 1} \cdot
          \frac{(1 - s(td))\, p(td) - (1 - s((1 - t)d))\, p((1 - t)d)}{p(td) + p((1 - t)d)}

with hard labels and with labels smoothed by :math:`s`. Both are antisymmetric about :math:`t = 1/2` and fall (lemma 1).
Smoothing makes the boundary at least as thick if :math:`n \ge 2` and :math:`s` is convex with :math:`s(0) = 1`. The
paper's theorem 1 claims it of every decreasing :math:`s` and every :math:`n`, which is false.

Reference:
    SPIDER, appendix B: lemma 1 and theorem 1, as corrected here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Profile = Callable[[Array], Array]
"""A function of the distance: a density of radii up to a factor, or the probability of the right label."""


def check_band(alpha: float, beta: float) -> None:
    """Refuse a band that holds no difference of probabilities."""
    if not -1 <= alpha < beta <= 1:
        raise ValueError(f"expected -1 <= alpha < beta <= 1, got {alpha} and {beta}")


def gap_of_optimal(
    t: Array, law: Profile, *, dimensions: int, distance: float = 1.0, smoothing: Profile | None = None,
    classes: int = 2,
) -> Array:  # fmt: skip
    r""":math:`g^*` or, with `smoothing`, :math:`g_{LS}` at shares of the way strictly between 0 and 1.

    Args:
        t: shares of the way.
        law: :math:`p_\gamma`, decreasing; somewhere on each place's two distances it must be positive.
        dimensions: :math:`n` of the input.
        distance: :math:`d` between the points.
        smoothing: :math:`s`; None for hard labels.
        classes: :math:`c`.
    """
    if dimensions < 1 or classes < 2 or not distance > 0:
        got = f"{dimensions}, {classes} and {distance}"
        raise ValueError(f"expected at least 1 dimension and 2 classes and a positive distance, got {got}")
    near, far = t * distance, (1 - t) * distance
    with np.errstate(divide="ignore"):  # a density of 0 has weight 0
        logs = np.stack([np.log(law(r)) - (dimensions - 1) * np.log(r) for r in (near, far)])
    largest = logs.max(axis=0)
    if not np.isfinite(largest).all():
        raise ValueError("law: expected a density that reaches every point of the way from one of its ends")
    first, second = np.exp(logs - largest)
    gap = (first - second) / (first + second)
    if smoothing is None:
        return np.asarray(gap)
    lost = (1 - smoothing(near)) * first - (1 - smoothing(far)) * second
    return np.asarray(gap - classes / (classes - 1) * lost / (first + second))


def thickness_of_optimal(
    law: Profile, *, dimensions: int, alpha: float = 0.0, beta: float = 0.75, distance: float = 1.0,
    smoothing: Profile | None = None, classes: int = 2, points: int = 1 << 18,
) -> float:  # fmt: skip
    r"""Boundary thickness of the optimal classifier between two points, up to about `distance / points`.

    Args:
        law: :math:`p_\gamma`.
        dimensions: :math:`n`.
        alpha: lower end of the band.
        beta: its upper end.
        distance: :math:`d`.
        smoothing: :math:`s`; None for hard labels.
        classes: :math:`c`.
        points: middles of so many equal parts of the way are looked at.
    """
    check_band(alpha, beta)
    if points < 1:
        raise ValueError(f"points: expected at least 1, got {points}")
    t = (np.arange(points) + 0.5) / points
    gap = gap_of_optimal(
        t, law, dimensions=dimensions, distance=distance, smoothing=smoothing, classes=classes
    )  # fmt: skip
    return float(distance * ((gap > alpha) & (gap < beta)).mean())
