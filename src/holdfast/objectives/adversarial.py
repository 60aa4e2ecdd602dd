"""Adversarial training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.attacks.fgsm import FGSM
from holdfast.attacks.hierarchical import Hierarchical
from holdfast.attacks.hierarchical_pgd import HierarchicalPGD
from holdfast.attacks.persistence import make_persistent
from holdfast.attacks.pgd import PGD
from holdfast.attacks.rfgsm import RFGSM
from holdfast.attacks.targeted import Targeted, choose_targets
from holdfast.errors import unknown
from holdfast.objectives.batch_stats import BatchStats, Statistics, check_batch_stats
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.passes import Passes
from holdfast.objectives.standard import mean_cross_entropy
from holdfast.objectives.two_steps import TwoSteps
from holdfast.rng import Streams
from holdfast.threat.linf import Linf
from holdfast.types import Attack, Classifier, Terms

Target = Literal["random", "least_likely", "next"]
TARGETS: tuple[Target, ...] = ("random", "least_likely", "next")


@dataclass(frozen=True, kw_only=True)
class Adversarial:
    r""":math:`\mathrm{CE}(z)` at the point :math:`z` that the attack finds for :math:`x`.

    The attack uses the model as `batch_stats` defines, in eval mode by default; the loss is taken in train mode. With
    soft labels the attack uses the likeliest class, the loss the whole distribution.

    Args:
        attack: finds :math:`z`. Its field `until_lost`, if it or the attack inside it has one, is switched off:
            training wants the highest loss, also of examples that are already wrong.
        target: the wrong class that the attack aims at: one at `random`, the `least_likely` for the clean image, or the
            `next`; None to move away from the label.
        batch_stats: what BatchNorm does, see `batch_stats`. With `split` the clean images pass through the network once
            more, without gradients, to update their statistics; as there is no other clean pass, `split_adversarial` is
            the same as `frozen`.

    Reference:
        Madry et al., Towards Deep Learning Models Resistant to Adversarial Attacks, ICLR 2018, arXiv:1706.06083.
        Targets: Kurakin, Goodfellow, Bengio, Adversarial Machine Learning at Scale, ICLR 2017, arXiv:1611.01236.
    """

    attack: Attack = field(default_factory=lambda: PGD(threat=Linf(8 / 255), steps=10, until_lost=False))
    target: Target | None = None
    batch_stats: BatchStats = "frozen"

    soft_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "attack", make_persistent(self.attack))
        if self.target is not None and self.target not in TARGETS:
            raise ValueError(f"target: {unknown(self.target, TARGETS)}")
        check_batch_stats(self.batch_stats)

    @property
    def loss_passes(self) -> Passes:
        """Passes of the loss alone."""
        return Passes(2 if self.batch_stats == "split" else 1, 1)

    @property
    def passes(self) -> Passes | None:
        """Passes of one step: target, attack and loss; None for attacks whose passes are unknown."""
        attack = passes_of(self.attack)
        return None if attack is None else attack + Passes(int(self.target is not None), 0) + self.loss_passes

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch."""
        return TwoSteps(self, model).forward(model, x, y, rng=rng)

    @property
    def hooks(self) -> Hooks:
        """The same with statistics of its own, where `batch_stats` asks for them."""
        return Hooks(start=lambda model, classes, examples: TwoSteps(self, model))

    def search(self, statistics: Statistics, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
        """The point that the attack finds for each example."""
        label = y.argmax(1) if y.is_floating_point() else y
        target = None
        if self.target is not None:
            with statistics.attacking(model, clean=True):
                target = choose_targets(self.target, model, x, label, rng)
        with statistics.attacking(model) as attacked:
            return self.attack(attacked, x, label, target=target, rng=rng)

    def loss(self, statistics: Statistics, model: Classifier, x: Tensor, y: Tensor, z: Tensor) -> Terms:
        """Terms of a batch and its points."""
        show_clean(statistics, model, x)
        with statistics.adversarial(model):
            return Terms(mean_cross_entropy(model, z, y))


def show_clean(statistics: Statistics, model: Classifier, x: Tensor) -> None:
    """Update the statistics of clean images, where the objective has no clean pass that does."""
    if statistics.kind == "split":
        with torch.no_grad():
            model(x)


def passes_of(attack: Attack) -> Passes | None:
    """Passes of an attack that no example leaves early; None where they are unknown."""
    if isinstance(attack, Targeted):
        inside = passes_of(attack.attack)
        return None if inside is None else inside + Passes(1, 0)
    if isinstance(attack, Hierarchical):
        return passes_of(attack.attack)
    if isinstance(attack, HierarchicalPGD) and attack.targets == "random":
        return Passes(attack.steps + 3, attack.steps)  # the classes before, the last point, and the best one
    if isinstance(attack, PGD):
        return Passes(attack.restarts * (attack.steps + 1), attack.restarts * attack.steps)
    return Passes(1, 1) if isinstance(attack, FGSM | RFGSM) else None
