"""Adversarial training."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from torch import Tensor

from holdfast.attacks import PGD
from holdfast.modes import evaluating
from holdfast.objectives.standard import mean_cross_entropy
from holdfast.rng import Streams
from holdfast.threat import Linf
from holdfast.types import Attack, Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class Adversarial:
    r""":math:`\mathrm{CE}(z)` at the point :math:`z` that the attack finds for :math:`x`.

    The attack sees the model in eval mode (running statistics of BatchNorm), the loss is taken in train mode. Of soft
    labels the attack sees the likeliest class, the loss all of it.

    Args:
        attack: finds :math:`z`. Its field `until_lost`, if it has one, is switched off: training wants the highest
            loss, also of examples that are already wrong.

    Reference:
        Madry et al., Towards Deep Learning Models Resistant to Adversarial Attacks, ICLR 2018, arXiv:1706.06083.
    """

    attack: Attack = field(default_factory=lambda: PGD(threat=Linf(8 / 255), steps=10, until_lost=False))

    soft_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if getattr(self.attack, "until_lost", False):
            change: Any = replace
            object.__setattr__(self, "attack", change(self.attack, until_lost=False))

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        with evaluating(model):
            z = self.attack(model, x, y.argmax(1) if y.is_floating_point() else y, rng=rng)
        return Terms(mean_cross_entropy(model, z, y))
