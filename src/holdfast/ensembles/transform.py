r"""The training-free transformation of MixedNUTS, applied to both answers before their probabilities are mixed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class RobustTransform:
    r"""Make robust logits confident where they are reliable, without training: :math:`s\,\mathrm{sgn}(u) |u|^p`.

    :math:`u = \mathrm{GELU}(\bar h + c)`, where :math:`\bar h` are the logits of an image minus their mean, divided by
    their standard deviation. A negative :math:`c` silences weak answers of :math:`h`, on which it is often wrong, and
    leaves them to :math:`g`. The predicted class does not change where its :math:`\bar h` is at least :math:`-c`:
    GELU increases on positive numbers and is not positive elsewhere. Below, all outputs lie within
    :math:`s \cdot 0.17^p` of 0, which is almost no vote.

    The defaults are the authors' numbers for CIFAR-10; `fit_transform` fits them to a robust classifier.

    Args:
        scale: :math:`s`.
        power: :math:`p`, at least 1.
        shift: :math:`c`; negative in all fits of the authors.
        correction: the standard deviation divides by :math:`K - 1` (1, as published) or by :math:`K` (0, as a layer
            normalisation of PyTorch).
        sharpen: whether the answer of :math:`g` counts as certain, a one-hot vector, as published. It has no gradient,
            so that attacks get that of :math:`g`'s own probabilities instead.

    Reference:
        Bai, Zhou, Patel, Sojoudi, MixedNUTS: Training-Free Accuracy-Robustness Balance via Nonlinearly Mixed
        Classifiers, arXiv:2402.02263, section 4. Differs: all classes are standardised together, not the 250 largest.
    """

    scale: float = 5.0
    power: float = 4.0
    shift: float = -1.1
    correction: Literal[0, 1] = 1
    sharpen: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be positive and finite, got {self.scale}")
        if not math.isfinite(self.shift):
            raise ValueError(f"shift must be finite, got {self.shift}")
        if not 1 <= self.power < math.inf:  # below 1 there is no gradient where GELU is 0
            raise ValueError(f"power must be finite and at least 1, got {self.power}")
        if self.correction not in (0, 1):
            raise ValueError(f"correction must be 0 or 1, got {self.correction}")

    def __call__(self, h: Tensor) -> Tensor:
        """Transformed logits, (N, K)."""
        return self.scale * shaped(standardised(h, self.correction), self.shift, self.power)


def standardised(h: Tensor, correction: int = 1) -> Tensor:
    """The logits of each image minus their mean, divided by their standard deviation, (N, K)."""
    if correction == 0:
        return F.layer_norm(h, h.shape[1:])
    variance = h.var(1, keepdim=True)
    return (h - h.mean(1, keepdim=True)) / (variance + 1e-8).sqrt()


def shaped(z: Tensor, shift: float, power: float) -> Tensor:
    r""":math:`\mathrm{sgn}(u) |u|^p` with :math:`u = \mathrm{GELU}(z + c)`, like `z`."""
    u = F.gelu(z + shift)
    return u.sign() * u.abs().pow(power)


def sharpened(g: Tensor) -> Tensor:
    """Log-probabilities of the largest logit alone: 0 there and minus infinity elsewhere, (N, K)."""
    return torch.full_like(g, -math.inf).scatter(1, g.argmax(1, keepdim=True), 0.0)
