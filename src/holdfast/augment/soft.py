r"""Soft labels for augmentations that remove evidence of the class.

A label starts as a class, (N,). The first softening augmentation turns it into a distribution over the classes, (N, K),
and each one after it passes the distribution through another symmetric channel: the class stays with probability
:math:`s` and turns into each of the others with :math:`(1 - s) / (K - 1)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.rng import Streams
from holdfast.types import Augmentation, Softening


def softens(augmentation: Augmentation) -> TypeGuard[Softening]:
    """Whether labels change under this augmentation."""
    return isinstance(augmentation, Softening) and augmentation.softens


def check_classes(augmentations: Sequence[Augmentation], classes: int) -> None:
    """Refuse settings that do not fit the number of classes."""
    for augmentation in augmentations:
        if softens(augmentation):
            augmentation.confidence(torch.zeros(1, 1), torch.zeros(1, 1), classes)


def soften(y: Tensor, confidence: Tensor, classes: int) -> Tensor:
    r"""Label distributions :math:`s\,t + \frac{1 - s}{K - 1}(1 - t)`, (N, K).

    Args:
        y: classes (N,), or distributions :math:`t` (N, K).
        confidence: :math:`s`, (N,).
        classes: :math:`K`.
    """
    if y.dim() == 1:
        y = F.one_hot(y, classes)
    s, t = confidence[:, None], y.to(confidence)
    return s * t + (1 - s) / (classes - 1) * (1 - t)


def augmented(
    augmentation: Augmentation, x: Tensor, y: Tensor, *, classes: int, rng: Streams | None = None
) -> tuple[Tensor, Tensor]:
    """Changed images with their labels, softened where the augmentation softens.

    Args:
        augmentation: what to apply.
        x: images (N, C, H, W).
        y: classes (N,), or distributions (N, K).
        classes: number of classes, K.
        rng: one stream per image.
    """
    z = augmentation(x, rng=rng)
    if softens(augmentation):
        y = soften(y, augmentation.confidence(z, x, classes), classes)
    return z, y
