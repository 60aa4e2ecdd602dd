"""Consistency of predictions over augmented views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.augment.augmix import AugMix
from holdfast.augment.soft import soften
from holdfast.losses import cross_entropy
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams, streams
from holdfast.types import Augmentation, Classifier, Softening, Terms

VIEWS = 3

LEAST = 1e-7
"""Lower limit of the probabilities of the mixture."""


@dataclass(frozen=True, kw_only=True)
class JensenShannon:
    r"""Cross entropy of the clean view, and the Jensen-Shannon divergence of three views.

    .. math:: \mathrm{CE}(p_0, y) + w \cdot \frac13 \sum_{i=0}^{2} \mathrm{KL}(p_i \,\|\, M), \qquad
        M = \tfrac13 (p_0 + p_1 + p_2)

    Views 1 and 2 go through all augmentations, each with its own random numbers; view 0 only through those that may
    soften labels (`Softening`), and where they do, its label is softened. The views pass through the network as one
    batch of three times the size.

    Args:
        augment: augmentations of the views, in this order, applied after those of `data.augment`.
        weight: :math:`w`.

    Reference:
        Hendrycks et al., AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty, ICLR 2020,
        arXiv:1912.02781, section 3. As in its code, the mixture is kept above :math:`10^{-7}`.
    """

    augment: tuple[Augmentation, ...] = (AugMix(),)
    weight: float = 12.0

    soft_labels: ClassVar[bool] = True
    passes: ClassVar[Passes] = Passes(VIEWS, VIEWS)

    def __post_init__(self) -> None:
        if not self.augment:
            raise ValueError("augment: expected at least one augmentation, got none")
        if not self.weight >= 0:
            raise ValueError(f"weight must not be negative, got {self.weight}")

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        rng = streams(rng, x)
        clean, softened = self._clean_view(x, rng.split("view 0"))
        views = [clean, *(self._view(x, rng.split(f"view {number}")) for number in range(1, VIEWS))]
        logits = model(torch.cat(views))
        of_clean, *of_others = logits.chunk(VIEWS)
        for augmentation, z, before in softened:  # only now is the number of classes known
            y = soften(y, augmentation.confidence(z, before, logits.shape[1]), logits.shape[1])
        loss = cross_entropy(of_clean, y).mean()
        apart = divergence(of_clean, *of_others).mean()
        return Terms(loss + self.weight * apart, {"clean": loss, "divergence": apart})

    def _view(self, x: Tensor, rng: Streams) -> Tensor:
        for place, augmentation in enumerate(self.augment):
            x = augmentation(x, rng=rng.split(f"augment {place}"))
        return x

    def _clean_view(self, x: Tensor, rng: Streams) -> tuple[Tensor, list[tuple[Softening, Tensor, Tensor]]]:
        """The clean view, and each augmentation that softens labels, with the images after and before it."""
        softened: list[tuple[Softening, Tensor, Tensor]] = []
        for place, augmentation in enumerate(self.augment):
            if isinstance(augmentation, Softening):  # with labels smoothed or not, so that both learn the same images
                z = augmentation(x, rng=rng.split(f"augment {place}"))
                softened += [(augmentation, z, x)] if augmentation.softens else []
                x = z
        return x, softened


def divergence(*logits: Tensor) -> Tensor:
    r"""Jensen-Shannon divergence of predictions, :math:`\frac1n \sum_i \mathrm{KL}(p_i \,\|\, M)`, (N,).

    At most :math:`\log n`. The mixture :math:`M`, the mean of the predictions, is kept above :math:`10^{-7}`.

    Args:
        logits: of each view, (N, K).
    """
    logs = [one.log_softmax(1) for one in logits]
    mixture = torch.stack([log.exp() for log in logs]).mean(0).clamp(LEAST, 1).log()
    return torch.stack([(log.exp() * (log - mixture)).sum(1) for log in logs]).mean(0)
