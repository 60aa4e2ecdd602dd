r"""Training with noise: on noisy images alone, on clean and noisy ones, or with similar features for both.

:math:`\tilde x = \mathrm{clip}(x + \sigma\xi)`, :math:`\xi \sim N(0, I)`; CE is the mean cross entropy, :math:`q` the
penultimate features.

Reference:
    The baselines of Nguyen et al. (see `discriminative`); stability training after Zheng et al., Improving
    the Robustness of Deep Neural Networks via Stability Training, CVPR 2016, arXiv:1604.04326.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.corruptions.noise import GaussianNoise
from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.objectives.passes import Passes
from holdfast.objectives.standard import mean_cross_entropy
from holdfast.rng import Streams
from holdfast.threat.l2 import norm
from holdfast.types import Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class Noisy:
    r""":math:`\mathrm{CE}(\tilde x)`.

    Args:
        sigma: standard deviation of the noise in [0, 1] pixel units.
    """

    sigma: float = 0.1

    soft_labels: ClassVar[bool] = True
    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        GaussianNoise(self.sigma)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        return Terms(mean_cross_entropy(model, GaussianNoise(self.sigma)(x, rng=rng), y))


@dataclass(frozen=True, kw_only=True)
class CleanAndNoisy:
    r""":math:`\bigl(\mathrm{CE}(x) + w\,\mathrm{CE}(\tilde x)\bigr) / (1 + w)`, clean and noisy images in one batch.

    Args:
        sigma: standard deviation of the noise in [0, 1] pixel units.
        weight: :math:`w`.
        joint: one pass of a batch of both, whose statistics BatchNorm sees together, and their weighted mean, as in the
            authors' code; False for two passes and the sum :math:`\mathrm{CE}(x) + w\,\mathrm{CE}(\tilde x)`.
    """

    sigma: float = 0.1
    weight: float = 1.0
    joint: bool = True

    soft_labels: ClassVar[bool] = True
    passes: ClassVar[Passes] = Passes(2, 2)
    former: ClassVar[dict[str, bool]] = {"joint": False}

    def __post_init__(self) -> None:
        GaussianNoise(self.sigma)
        if not self.weight >= 0:
            raise ValueError(f"weight must not be negative, got {self.weight}")

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        loud = GaussianNoise(self.sigma)(x, rng=rng)
        if self.joint:
            losses = cross_entropy(model(torch.cat([x, loud])), torch.cat([y, y]))
            clean, noisy = (half.mean() for half in losses.chunk(2))
        else:
            clean, noisy = mean_cross_entropy(model, x, y), mean_cross_entropy(model, loud, y)
        total = clean + self.weight * noisy
        return Terms(total / (1 + self.weight) if self.joint else total, {"clean": clean, "noisy": noisy})


@dataclass(frozen=True, kw_only=True)
class Stability:
    r""":math:`\mathrm{CE}(x) + w \frac1N \sum_i \|q(x_i) - q(\tilde x_i)\|_2`, not squared.

    Args:
        sigma: standard deviation of the noise in [0, 1] pixel units.
        weight: :math:`w`.
    """

    sigma: float = 0.1
    weight: float = 1.0

    soft_labels: ClassVar[bool] = True
    passes: ClassVar[Passes] = Passes(2, 2)

    def __post_init__(self) -> None:
        GaussianNoise(self.sigma)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        features, head = getattr(model, "features", None), getattr(model, "head", None)
        if features is None or head is None:
            raise ModelError(f"stability needs a model with features(x) and head, got {type(model).__name__}")
        quiet = features(x)
        kind = getattr(head, "weight", quiet).dtype  # Fabric returns features in float32, whatever the precision
        clean = cross_entropy(head(quiet.to(kind)), y).mean()
        apart = norm(quiet - features(GaussianNoise(self.sigma)(x, rng=rng))).mean()
        return Terms(clean + self.weight * apart, {"clean": clean, "stability": apart})
