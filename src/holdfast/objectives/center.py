"""Center loss: features are pulled to a centre of their class, which follows them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from holdfast.losses import cross_entropy
from holdfast.models.head import LinearHead, Whole, linear_head
from holdfast.objectives.centroids import class_sums, everywhere
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms

NAME = "center"


@dataclass(frozen=True, kw_only=True)
class Center:
    r"""Cross entropy, and half the squared distance to the centre of the class.

    .. math:: \mathrm{CE}(x) + \frac{\lambda}{2N} \sum_i \|q(x_i) - c_{y_i}\|^2, \qquad
        c_j \leftarrow c_j - \alpha \frac{\sum_{y_i = j} (c_j - q(x_i))}{1 + |\{i : y_i = j\}|}

    Centres start at zero and are constants for the gradient; each step uses them as they were before it.

    Args:
        weight: :math:`\lambda`.
        rate: :math:`\alpha`.

    Reference:
        Wen et al., A Discriminative Feature Learning Approach for Deep Face Recognition, ECCV 2016, section 3.2.
        Both terms are means over the batch, as in its code; the paper writes sums for both.
    """

    weight: float = 0.003
    rate: float = 0.5

    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"weight must be finite and not negative, got {self.weight}")
        if not 0 <= self.rate <= 1:
            raise ValueError(f"rate must lie in [0, 1], got {self.rate}")

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch, with centres at zero; `rng` is not used."""
        head = linear_head(model, NAME)
        return Centres(self, head, len(head.weight), Whole(NAME, checked=True)).forward(model, x, y)

    @property
    def hooks(self) -> Hooks:
        """The same with centres that follow the features."""
        return Hooks(start=self._start)

    def _start(self, model: nn.Module, classes: int, examples: Tensor) -> nn.Module:
        return Centres(self, linear_head(model, NAME), classes, Whole(NAME))


class Centres(nn.Module):
    """The objective with its state, a centre for each class.

    Args:
        objective: its settings.
        head: of the network that is trained.
        classes: how many.
        whole: checks the network at the first batch.
    """

    centres: Tensor

    def __init__(self, objective: Center, head: LinearHead, classes: int, whole: Whole) -> None:
        super().__init__()
        self.objective, self.whole = objective, whole
        kind = torch.promote_types(head.weight.dtype, torch.float32)
        centres = torch.zeros(classes, head.weight.shape[1], dtype=kind, device=head.weight.device)
        self.register_buffer("centres", centres)

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch, after which the centres move."""
        head = self.whole.head_of(model, x)
        features = head.features(x)
        loss = cross_entropy(head.logits(features), y).mean()
        q = features.to(self.centres.dtype)
        apart = 0.5 * (q - self.centres[y]).square().sum(1).mean()
        self._follow(q, y)
        return Terms(loss + self.objective.weight * apart, {"clean": loss, "center": apart})

    @torch.no_grad()
    def _follow(self, features: Tensor, y: Tensor) -> None:
        sums, counts = everywhere(*class_sums(features, y, len(self.centres)))
        step = (counts[:, None] * self.centres - sums) / (1 + counts)[:, None]
        self.centres = self.centres - self.objective.rate * step
