"""Plain training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from holdfast.losses import cross_entropy
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class Standard:
    r"""Cross entropy of the clean images.

    .. math:: \frac1N \sum_i -\sum_k q_{ik} \log p_k(x_i), \quad q_{ik} = (1 - s)\,[k = y_i] + s / K

    Args:
        label_smoothing: :math:`s`, the share of the label spread evenly over all classes; soft labels are smoothed,
            too.

    Reference:
        Szegedy et al., Rethinking the Inception Architecture for Computer Vision, CVPR 2016, section 7 (smoothing).
    """

    label_smoothing: float = 0.0

    soft_labels: ClassVar[bool] = True
    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must lie in [0, 1), got {self.label_smoothing}")

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        logits = model(x)
        target = y.to(logits) if y.is_floating_point() else y
        return Terms(F.cross_entropy(logits, target, label_smoothing=self.label_smoothing))


def mean_cross_entropy(model: Classifier, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy of a batch, the scalar in most objectives."""
    return cross_entropy(model(x), y).mean()
