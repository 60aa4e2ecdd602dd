r"""The four numbers of the transformation, fitted to a robust classifier.

The sharpened :math:`g` has the share :math:`1 - a` on one class, so that it can overrule :math:`h` exactly where the
margin :math:`m` of the transformed :math:`h` (its largest probability minus the second) is at most
:math:`(1 - a) / a`. Right answers of :math:`h` under attack should be out of its reach, wrong ones on clean images not:

.. math:: \min_{s, p, c, a} P\Bigl(m \ge \frac{1 - a}{a} \Bigm| h \text{ wrong on a clean image}\Bigr) \quad
          \text{such that} \quad P\Bigl(m \ge \frac{1 - a}{a} \Bigm| h \text{ right under attack}\Bigr) \ge \beta

Given :math:`s`, :math:`p` and :math:`c`, the best :math:`(1 - a) / a` is a quantile of the margins under attack; the
three are searched on a grid.

Reference:
    Bai, Zhou, Patel, Sojoudi, MixedNUTS: Training-Free Accuracy-Robustness Balance via Nonlinearly Mixed Classifiers,
    arXiv:2402.02263, section 4. Differs: the quantile is not interpolated, so that the share is at least
    :math:`\beta`; the cutoff is half way to the next margin below; of equal combinations the one with the widest gap
    there is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.ensembles.transform import RobustTransform, shaped, standardised
from holdfast.errors import ModelError
from holdfast.modes import evaluating
from holdfast.rng import Streams, streams
from holdfast.types import Attack, Classifier

FITTED = ("scale", "power", "shift")
"""The fields of the transformation that are fitted, beside the strength."""

KEEP = 0.985
r""":math:`\beta` of the authors on CIFAR-10 and CIFAR-100."""

SCALES = tuple(10 ** (k / 5) for k in range(-10, 6))
POWERS = tuple(1 + k / 2 for k in range(7))
SHIFTS = tuple(-k / 4 for k in range(11))

RESOLUTION = 1e-6
"""Differences of margins below this are lost in the rounding of single-precision probabilities."""


@dataclass(frozen=True, kw_only=True)
class TransformFit:
    r"""How a recipe fits the transformation, on validation images.

    Args:
        attack: the attack under which right answers are to be kept; None for the first among the recipe's checks.
        keep: :math:`\beta`, the share of right answers under attack that stay out of reach of :math:`g`.
    """

    attack: Attack | None = None
    keep: float = KEEP

    def __post_init__(self) -> None:
        check_keep(self.keep)


@dataclass(frozen=True)
class FittedTransform:
    r"""A fit, with what it achieves on the examples that it was fitted to.

    Args:
        transform: :math:`s`, :math:`p` and :math:`c`.
        strength: :math:`a / (1 - a)`.
        kept: share of the right answers under attack that :math:`g` cannot overrule.
        overruling: share of the wrong answers on clean images that :math:`g` cannot overrule; lower is better.
        right_under_attack: number of examples that the robust classifier gets right under attack.
        wrong_on_clean: number of examples that it gets wrong without.
    """

    transform: RobustTransform
    strength: float
    kept: float
    overruling: float
    right_under_attack: int
    wrong_on_clean: int

    def facts(self) -> dict[str, Any]:
        """Plain values for `run.json`."""
        others = {name: value for name, value in asdict(self).items() if name != "transform"}
        chosen = {name: getattr(self.transform, name) for name in FITTED}
        return {**chosen, "share": self.strength / (1 + self.strength), **others}


def fit_transform(
    robust: Classifier, x: Tensor, y: Tensor, attack: Attack, *, keep: float = KEEP, rng: Streams | None = None
) -> FittedTransform:
    r"""Fit the transformation to a robust classifier on images that it was not trained with.

    Args:
        robust: the robust classifier :math:`h`, whose logits are attacked as they are.
        x: images, (N, ...).
        y: labels.
        attack: the attack under which right answers are to be kept.
        keep: :math:`\beta`.
        rng: random streams of the attack.

    Raises:
        ModelError: if there is nothing to fit to.
    """
    return fit_margins(*fitting_logits(robust, x, y, attack, rng=rng), keep=keep)


def fitting_logits(
    robust: Classifier, x: Tensor, y: Tensor, attack: Attack, *, rng: Streams | None = None
) -> tuple[Tensor, Tensor]:
    """Robust logits of the examples that are right under attack, (A, K), and of those wrong without, (C, K)."""
    with evaluating(robust):
        z = attack(robust, x, y, rng=streams(rng, x))
        with torch.no_grad():
            attacked, clean = robust(z), robust(x)
    return attacked[attacked.argmax(1) == y], clean[clean.argmax(1) != y]


def fit_margins(attacked: Tensor, clean: Tensor, *, keep: float = KEEP) -> FittedTransform:
    r"""The best combination for given robust logits.

    Args:
        attacked: logits of examples that are right under attack, (A, K).
        clean: logits of examples that are wrong without an attack, (C, K).
        keep: :math:`\beta`.

    Raises:
        ModelError: if either is empty, or no combination differs by more than rounding.
    """
    check_keep(keep)
    _require_examples(attacked, clean)
    best = min(_combinations(attacked.double(), clean.double(), keep), key=lambda one: one.order, default=None)
    if best is None:
        raise ModelError("fit: expected robust logits with margins; the margins of all transformations are near 0")
    kept = float((best.margins[0] > best.cutoff).double().mean())
    return FittedTransform(best.transform, 1 / best.cutoff, kept, best.overruling, len(attacked), len(clean))


def check_keep(keep: float) -> None:
    """Refuse an invalid share of the right answers under attack."""
    if not 0 < keep <= 1:
        raise ValueError(f"keep must lie in (0, 1], the share of right answers under attack; got {keep}")


@dataclass(frozen=True)
class _Combination:
    """Margins of both groups under one transformation, with the best cutoff."""

    transform: RobustTransform
    margins: tuple[Tensor, Tensor]
    cutoff: float
    gap: float

    @property
    def overruling(self) -> float:
        return float((self.margins[1] >= self.cutoff).double().mean())

    @property
    def order(self) -> tuple[float, float]:
        return self.overruling, -self.gap


def _combinations(attacked: Tensor, clean: Tensor, keep: float) -> Iterator[_Combination]:
    groups = [standardised(h) for h in (attacked, clean)]
    for shift, power in itertools.product(SHIFTS, POWERS):
        unscaled = [shaped(z, shift, power) for z in groups]
        for scale in SCALES:
            of_attacked, of_clean = (_margins(scale * h) for h in unscaled)
            cutoff, gap = best_cutoff(of_attacked, of_clean, keep)
            if gap > 0:
                transform = RobustTransform(scale=scale, power=power, shift=shift)
                yield _Combination(transform, (of_attacked, of_clean), cutoff, gap)


def best_cutoff(attacked: Tensor, clean: Tensor, keep: float) -> tuple[float, float]:
    """The largest cutoff that this share of the margins under attack exceeds, and its distance to the nearest margin.

    It lies half way between the smallest margin to be kept and the next one below, of either group; the distance is 0
    where there is none below, or none that differs from it by more than rounding.
    """
    ordered = attacked.sort().values
    smallest = ordered[min(int(len(ordered) * (1 - keep) + 1e-9), len(ordered) - 1)]
    pooled = torch.cat([attacked, clean, attacked.new_zeros(1)])
    # Margins that rounding cannot tell from the smallest one are on its side of the cutoff.
    below = pooled[pooled < smallest - RESOLUTION]
    if not len(below):
        return float(smallest), 0.0
    return float(smallest + below.max()) / 2, float(smallest - below.max()) / 2


def _margins(h: Tensor) -> Tensor:
    """Largest probability minus the second, (N,)."""
    first, second = F.softmax(h, 1).topk(2, dim=1).values.unbind(1)
    return first - second


def _require_examples(attacked: Tensor, clean: Tensor) -> None:
    if not len(attacked):
        raise ModelError("fit: expected examples that the robust classifier gets right under attack; there are none")
    if not len(clean):
        raise ModelError(
            "fit: expected examples that the robust classifier gets wrong without an attack; there are none, so that "
            "mixing gains nothing on these images; give it more of them"
        )
