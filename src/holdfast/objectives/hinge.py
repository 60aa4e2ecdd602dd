"""Hinge losses of several classes; :math:`d` is in units of the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.losses import margin
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class MulticlassHinge:
    r"""Every wrong class is to stay :math:`d` behind: :math:`\sum_{i \ne c} [d - (o_c - o_i)]_+`, mean over the batch.

    Args:
        d: the wanted difference.

    Reference:
        Weston, Watkins, Support Vector Machines for Multi-Class Pattern Recognition, ESANN 1999.
        Li et al., Preventing Gradient Attenuation in Lipschitz Constrained Convolutional Networks, arXiv:1911.00937.
    """

    d: float

    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        require_positive(d=self.d)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        logits = model(x)
        behind = (self.d - logits.gather(1, y[:, None]) + logits).clamp_min(0)
        wrong = torch.arange(logits.shape[1], device=y.device) != y[:, None]
        return Terms((behind * wrong).sum(1).mean())


@dataclass(frozen=True, kw_only=True)
class TruncatedMargin:
    r"""A margin loss of at most :math:`2 d`, so that hopeless examples do not dominate.

    .. math:: [d + L_M]_+ - [L_M - d]_+

    Args:
        d: the wanted margin.

    Reference:
        Wu, Liu, Robust Truncated Hinge Loss Support Vector Machines, JASA 2007.
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, section 5.1.
    """

    d: float

    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        require_positive(d=self.d)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        return Terms((self.d + margin(model(x), y)).clamp(0, 2 * self.d).mean())
