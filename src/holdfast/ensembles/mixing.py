r"""Mixing of the answers of an accurate classifier :math:`g` and a robust one :math:`h`.

Every mixing has a strength from 0 (only :math:`g`) to infinity (only :math:`h`), the same for all images or one for
each; both ends are exact (where each image has its own, up to the rounding of the layout that gradients are taken in).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.ensembles.magnitudes import class_magnitudes, top_magnitude
from holdfast.ensembles.transform import RobustTransform, sharpened
from holdfast.errors import ModelError
from holdfast.families import THREATS
from holdfast.types import Classifier, Mixing, Strength


@dataclass(frozen=True, kw_only=True)
class GradientRatio:
    r"""Logits, weighted by the sensitivity of each to its input (eq. 5).

    .. math:: \frac{g_i + \alpha R_i h_i}{1 + \alpha R_i}, \qquad
              R_i = \frac{\|\nabla g_i\|_*}{\|\nabla h_i\|_* + \epsilon_c}

    Args:
        norm: norm of the adversary; gradients are measured in its dual.
        gradients: gradients of every class, or of the largest logit alone, which costs one backward pass for each
            classifier whatever the number of classes (eq. 10).
        eps_c: :math:`\epsilon_c`. At 0, as in the official code, a class that is insensitive in both classifiers has
            :math:`R_i = 0`.
        block: classes that are differentiated together; memory grows with it, results do not depend on it. None for
            what is fast on the device.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        equations 5, 7 and 10.
    """

    norm: Literal["linf", "l2", "l1"] = "linf"
    gradients: Literal["classes", "largest"] = "classes"
    eps_c: float = 1e-8
    block: int | None = None

    def __post_init__(self) -> None:
        if self.norm not in ("linf", "l2", "l1"):
            raise ValueError(f"norm must be linf, l2 or l1, got {self.norm}")
        if self.gradients not in ("classes", "largest"):
            raise ValueError(f"gradients must be classes or largest, got {self.gradients}")
        if not 0 <= self.eps_c < math.inf:
            raise ValueError(f"eps_c must be finite and not negative, got {self.eps_c}")
        if self.block is not None and self.block < 1:
            raise ValueError(f"block must be at least 1, got {self.block}")

    def __call__(self, standard: Classifier, robust: Classifier, x: Tensor, strength: Strength) -> Tensor:
        """Logits of the mixed classifier; a strength of 0 or infinity for all images uses one classifier only."""
        if _everywhere(strength, 0.0):
            return standard(x)
        if _everywhere(strength, math.inf):
            return robust(x)
        (g, steep_g), (h, steep_h) = (self.measured(model, x) for model in (standard, robust))
        same_classes(g, h)
        return mix_logits(g, h, robust_share(steep_g, steep_h + self.eps_c, strength))

    def measured(self, model: Classifier, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, (N, K), and the size of their gradients, (N, K) or (N, 1)."""
        ball = THREATS[self.norm](1.0)  # type: ignore[call-arg]
        if self.gradients == "largest":
            return top_magnitude(model, x, ball)
        return class_magnitudes(model, x, ball, block=self.block)


@dataclass(frozen=True, kw_only=True)
class LocalBias:
    r"""Logits of :math:`g`, pulled towards an oracle where they are sensitive to their input (eq. 2).

    .. math:: \frac{g_i + \alpha h_i \|\nabla g_i\|_*}{1 + \alpha \|\nabla g_i\|_*}

    The oracle needs no gradient: `NearestNeighbours` is one.

    Args:
        norm: norm of the adversary; gradients are measured in its dual.
        block: classes that are differentiated together.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        equation 2.
    """

    norm: Literal["linf", "l2", "l1"] = "linf"
    block: int | None = None

    def __post_init__(self) -> None:
        GradientRatio(norm=self.norm, block=self.block)  # the same fields

    def __call__(self, standard: Classifier, robust: Classifier, x: Tensor, strength: Strength) -> Tensor:
        """Logits of the mixed classifier; a strength of 0 or infinity for all images uses one of the two only."""
        if _everywhere(strength, 0.0):
            return standard(x)
        if _everywhere(strength, math.inf):
            return robust(x)
        (g, steep), h = GradientRatio(norm=self.norm, block=self.block).measured(standard, x), robust(x)
        same_classes(g, h)
        return mix_logits(g, h, robust_share(steep, torch.ones_like(steep), strength))


def check_strength(strength: float) -> None:
    """Refuse an invalid strength.

    Raises:
        ValueError: if it is negative or no number.
    """
    if not strength >= 0:
        raise ValueError(f"strength must be a number from 0 to infinity, got {strength}")


def same_classes(g: Tensor, h: Tensor) -> None:
    """Refuse logits of different classes, which might be broadcast.

    Raises:
        ModelError: if they do not have the same classes.
    """
    if g.shape[1] != h.shape[1]:
        raise ModelError(f"expected two classifiers of the same classes, got {g.shape[1]} and {h.shape[1]}")


def robust_share(steep_g: Tensor, steep_h: Tensor, strength: Strength) -> Tensor:
    r"""The weight of :math:`h` in eq. 5, :math:`\alpha R / (1 + \alpha R)` with :math:`R` the ratio of the two.

    Args:
        steep_g: :math:`\|\nabla g_i\|_*`, (N, K) or (N, 1).
        steep_h: the same of :math:`h`, with :math:`\epsilon_c`.
        strength: :math:`\alpha`.
    """
    alpha = _column(strength, steep_g)
    # Divided by large strengths instead of multiplied, so that nothing overflows.
    pull = torch.where(alpha > 1, 1.0, alpha) * steep_g
    rest = steep_h / torch.where(alpha > 1, alpha, 1.0)
    whole = pull + rest
    share = pull / whole.where(whole > 0, 1.0)
    return torch.where(alpha.isinf(), 1.0, share)


def mix_logits(g: Tensor, h: Tensor, share: Tensor) -> Tensor:
    """The two logits with weights 1 - share and share; at 0 and 1 one of them alone, to the bit."""
    return torch.where(share < 0.5, g + share * (h - g), h + (1 - share) * (g - h))


@dataclass(frozen=True, kw_only=True)
class Probability:
    r"""Probabilities instead of logits: :math:`\log((1 - a)\,\mathrm{softmax}(g) + a\,\mathrm{softmax}(h / t))`.

    The strength :math:`\alpha` gives :math:`a = \alpha / (1 + \alpha)`; `strength_of` goes back.

    Args:
        temperature: :math:`t`, from 0.001 to 1000; below 1 the robust classifier is surer, which one with a small
            Lipschitz constant needs.
        transform: transformation of the robust logits before that, and whether :math:`g` counts as certain; None for
            none.

    Reference:
        Bai, Anderson, Kim, Sojoudi, Improving the Accuracy-Robustness Trade-off of Classifiers via Adaptive Smoothing,
        arXiv:2301.12554.
    """

    former: ClassVar[Mapping[str, Any]] = {"transform": {"correction": 0, "sharpen": False}}
    """Values of these fields for stored recipes without them."""

    temperature: float = 1.0
    transform: RobustTransform | None = None

    def __post_init__(self) -> None:
        if not 1e-3 <= self.temperature <= 1e3:  # beyond, probabilities of single precision lose the classes
            raise ValueError(f"temperature must lie in [0.001, 1000], got {self.temperature}")

    def __call__(self, standard: Classifier, robust: Classifier, x: Tensor, strength: Strength) -> Tensor:
        """Log-probabilities of the mixed classifier, which are logits; at 0 or infinity for all, the logits of one.

        Those of the robust classifier are transformed and divided by the temperature there too, as at any strength.
        """
        if _everywhere(strength, 0.0):
            return standard(x)
        h = robust(x)
        h = (h if self.transform is None else self.transform(h)) / self.temperature
        if _everywhere(strength, math.inf):
            return h
        mix = mix_sharpened if self.transform is not None and self.transform.sharpen else mix_probabilities
        return mix(standard(x), h, strength)


def mix_probabilities(g: Tensor, h: Tensor, strength: Strength) -> Tensor:
    """Logarithm of the mixed probabilities, from logarithms, so that no small probability is lost."""
    same_classes(g, h)
    alpha = _column(strength, g)
    of_robust = -torch.log1p(1 / alpha)
    of_standard = torch.where(alpha.isinf(), -math.inf, -torch.log1p(alpha))
    return torch.logaddexp(F.log_softmax(g, 1) + of_standard, F.log_softmax(h, 1) + of_robust)


def mix_sharpened(g: Tensor, h: Tensor, strength: Strength) -> Tensor:
    r"""The same with :math:`g` certain of its largest logit; the gradient is that of `mix_probabilities`.

    A one-hot vector has no gradient: attacks would see :math:`h` alone and never move the answer of :math:`g`.
    """
    smooth = mix_probabilities(g, h, strength)
    with torch.no_grad():
        value = mix_probabilities(sharpened(g), h, strength)
    return value + (smooth - smooth.detach())


def attackable(mixing: Mixing) -> Mixing:
    """The same mixing for adversaries, without transformation and sharpening, which flatten gradients."""
    return replace(mixing, transform=None) if isinstance(mixing, Probability) else mixing


def strength_of(share: float) -> float:
    r"""The strength :math:`a / (1 - a)` that gives the robust classifier the share :math:`a` of the probability."""
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie in [0, 1], got {share}")
    return math.inf if share == 1 else share / (1 - share)


def _everywhere(strength: Strength, value: float) -> bool:
    return not isinstance(strength, Tensor) and strength == value


def _column(strength: Strength, like: Tensor) -> Tensor:
    """Strengths as a column, (N, 1) or (1, 1)."""
    return torch.as_tensor(strength, dtype=like.dtype, device=like.device).reshape(-1, 1)
