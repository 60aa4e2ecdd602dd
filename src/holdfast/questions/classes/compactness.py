r"""What the paper's theorems say of compact classes: whether compactness generalises, and what earlier layers must do.

Theorem 6.2, for :math:`h(x) = r^2 - \|f(x) - m\|^2`, all :math:`\|m\| \le R` and :math:`\|f\| \le \Lambda`, and N
images of a class: with probability :math:`1 - \delta`,

.. math:: P(h < 0) \le \hat R_\rho(h) + \frac2\rho \Bigl(\Lambda^2 + 2 R \Lambda + \frac{R^2}{\sqrt N}\Bigr)
          + 3 \sqrt{\frac{\log(2 / \delta)}{2 N}}

The paper says that it shrinks with :math:`N`; the part :math:`\frac2\rho(\Lambda^2 + 2R\Lambda)` does not. Since
:math:`\rho < r^2`, and no feature is farther from a centroid than :math:`\Lambda + R`, that part is above
:math:`2(\Lambda^2 + 2R\Lambda) / (\Lambda + R)^2`. So the bound says nothing, at any :math:`N`, unless
:math:`R > (1 + \sqrt2) \Lambda`; a centroid that is a mean of features has :math:`R \le \Lambda`.

Theorem 6.3: if a share :math:`\tau` of each class is within :math:`\delta_v` of its centroid, and these balls do not
meet, then in every earlier layer :math:`D_{JS} \ge (2\tau - 1)^2 / 2` for any two classes. The proof prints Pinsker's
inequality without the square of the total variation; it needs :math:`\frac12 D_{KL} \ge d_{TV}^2`.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
    section 6 and appendices F, G.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from holdfast.statistics import lower_bounds


@dataclass(frozen=True)
class MappingErrorBound:
    r"""The three parts of theorem 6.2.

    Args:
        empirical: :math:`\hat R_\rho`, the margin loss on the images.
        complexity: the part with :math:`\Lambda` and :math:`R`.
        confidence: the part with :math:`\delta`.
        least: below which the complexity is for no radius and no number of images.
    """

    empirical: float
    complexity: float
    confidence: float
    least: float

    @property
    def value(self) -> float:
        """The bound on the probability to be outside the ball."""
        return self.empirical + self.complexity + self.confidence

    @property
    def vacuous(self) -> bool:
        """Whether the bound is vacuous, since probabilities are at most 1 anyway."""
        return self.value >= 1

    @property
    def hopeless(self) -> bool:
        """Whether it would say nothing for any radius and any number of images."""
        return self.least >= 1


def mapping_error_bound(
    distances: Tensor, *, r: float, rho: float, centroid_norm: float, feature_norm: float, delta: float = 0.05
) -> MappingErrorBound:
    r"""Theorem 6.2 for one class.

    Args:
        distances: of the class's features to its centroid, (N,).
        r: radius of the ball.
        rho: :math:`\rho`, between 0 and :math:`r^2`: features with :math:`\|f - m\|^2 \le r^2 - \rho` cost nothing.
        centroid_norm: :math:`R`.
        feature_norm: :math:`\Lambda`.
        delta: :math:`\delta`.
    """
    if len(distances) == 0:
        raise ValueError("mapping error: expected at least one example, got none")
    if not 0 < rho < r**2:
        raise ValueError(f"mapping error: expected 0 < rho < r^2, got rho {rho} and r {r}")
    if not 0 < delta < 1:
        raise ValueError(f"mapping error: expected delta between 0 and 1, got {delta}")
    n, grown = len(distances), feature_norm**2 + 2 * centroid_norm * feature_norm
    return MappingErrorBound(
        empirical=float(margin_loss(r**2 - distances.double().square(), rho).mean()),
        complexity=2 / rho * (grown + centroid_norm**2 / math.sqrt(n)),
        confidence=3 * math.sqrt(math.log(2 / delta) / (2 * n)),
        least=2 * grown / (feature_norm + centroid_norm) ** 2 if feature_norm + centroid_norm > 0 else 0.0,
    )


def mapping_errors(features: Tensor, y: Tensor, *, delta_v: float, delta: float = 0.05) -> list[MappingErrorBound]:
    r"""Theorem 6.2 for each class that has examples, with the ball of radius :math:`2\delta_v`.

    :math:`\rho = 3\delta_v^2`, so that what is within :math:`\delta_v` of the centroid costs nothing; :math:`R` is the
    length of the centroid and :math:`\Lambda` that of the longest features.

    Args:
        features: (N, F).
        y: labels, (N,).
        delta_v: :math:`\delta_v`.
        delta: :math:`\delta`, for each class.
    """
    q = features.double()
    longest, bounds = float(q.norm(dim=1).max()), []
    for label in sorted(set(y.tolist())):
        mine = q[y == label]
        centroid = mine.mean(0)
        bounds.append(
            mapping_error_bound(
                (mine - centroid).norm(dim=1),
                r=2 * delta_v,
                rho=3 * delta_v**2,
                centroid_norm=float(centroid.norm()),
                feature_norm=longest,
                delta=delta,
            )
        )
    return bounds


def margin_loss(h: Tensor, rho: float) -> Tensor:
    r""":math:`\Phi_\rho`: 1 below 0, 0 above :math:`\rho`, a straight line between (definition 6.2)."""
    return (1 - h / rho).clamp(0, 1)


def intermediate_divergence_bound(tau: float) -> float:
    r"""Theorem 6.3: Jensen-Shannon divergence, in nats, that any two classes have at least in every layer.

    Args:
        tau: :math:`\tau`, share of each class in its ball; at one half or less nothing follows, which is 0.
    """
    if not 0 <= tau <= 1:
        raise ValueError(f"tau must lie in [0, 1], got {tau}")
    return max(2 * tau - 1, 0.0) ** 2 / 2


def smallest_share(within: Tensor, count: Tensor, *, alpha: float = 0.05) -> tuple[float, float]:
    r""":math:`\tau` as measured, and a value that it exceeds in all classes with probability 1 - alpha.

    Args:
        within: examples in the ball of their class, (C,).
        count: examples, (C,).
        alpha: error probability, split over the classes.
    """
    inside, all_of = (np.asarray(values.tolist(), dtype=np.float64) for values in (within, count))
    return float((inside / all_of).min()), float(lower_bounds(inside, all_of, alpha=alpha / len(inside)).min())
