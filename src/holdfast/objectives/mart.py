"""MART: adversarial training with more weight on misclassified examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.search import require_metric_threat
from holdfast.losses import cross_entropy, kl_divergence
from holdfast.objectives.arguments import require_nonnegative
from holdfast.objectives.batch_stats import BatchStats, Statistics, check_batch_stats
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.inner_maximisation import check_steps, climb, default_step_size, noisy_start
from holdfast.objectives.passes import Passes
from holdfast.objectives.two_steps import TwoSteps
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms, Threat


@dataclass(frozen=True, kw_only=True)
class MART:
    r"""A boosted cross entropy of adversarial images, and a divergence weighted by the doubt about the clean image.

    .. math:: -\log p_y(z) - \log\bigl(1.0001 - \max_{k \ne y} p_k(z)\bigr)
        + \beta\, \mathrm{KL}(p(x) \,\|\, p(z))\, (1.0000001 - p_y(x)),

    mean over the batch. :math:`z` comes from ascent on the cross entropy from :math:`x` plus noise of standard
    deviation 0.001 and is not differentiated; the clean prediction is. The constants are those of the paper's code and
    keep logarithm and weight away from zero.

    Args:
        threat: the set :math:`S` and its geometry.
        beta: :math:`\beta`; the paper has 5, and 6 for wide networks.
        steps: number of steps of the ascent.
        step_size: step size of the ascent, in the threat's units; None for 2.5 radii divided by the number of steps.
        batch_stats: what BatchNorm does, see `batch_stats`.

    Reference:
        Wang et al., Improving Adversarial Robustness Requires Revisiting Misclassified Examples, ICLR 2020, equations
        8 to 12. Its code trains ResNet-18 with a learning rate of 0.01 and weight decay 3.5e-3; the thesis of Ma states
        0.1 and 2e-4.
    """

    threat: Threat
    beta: float = 5.0
    steps: int = 10
    step_size: float | None = None
    batch_stats: BatchStats = "frozen"

    loss_passes: ClassVar[Passes] = Passes(2, 2)

    def __post_init__(self) -> None:
        require_metric_threat("mart", self.threat)
        require_nonnegative(beta=self.beta)
        check_steps(self.steps, self.step_size)
        check_batch_stats(self.batch_stats)

    @property
    def passes(self) -> Passes:
        """Passes of one step: the steps of the attack and the loss."""
        return Passes(self.steps, self.steps) + self.loss_passes

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch."""
        return TwoSteps(self, model).forward(model, x, y, rng=rng)

    @property
    def hooks(self) -> Hooks:
        """The same with statistics of its own, where `batch_stats` asks for them."""
        return Hooks(start=lambda model, classes, examples: TwoSteps(self, model))

    def search(self, statistics: Statistics, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
        """The point of each example where its cross entropy is highest."""
        step_size = default_step_size(self.threat, self.steps, self.step_size)
        start = noisy_start(self.threat, x, rng.split("start"))
        with statistics.attacking(model):
            return climb(self.threat, cross_entropy, model, x, y, start, steps=self.steps, step_size=step_size)

    def loss(self, statistics: Statistics, model: Classifier, x: Tensor, y: Tensor, z: Tensor) -> Terms:
        """Terms of a batch and its points."""
        with statistics.clean(model):
            natural = model(x)
        with statistics.adversarial(model):
            moved = model(z)
        boosted, apart = boosted_cross_entropy(moved, y).mean(), weighted_divergence(moved, natural, y).mean()
        return Terms(boosted + self.beta * apart, {"boosted": boosted, "divergence": apart})


def boosted_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    r""":math:`-\log p_y - \log(1.0001 - \max_{k \ne y} p_k)`, (N,): the best wrong class has to be unlikely, too."""
    probabilities = logits.softmax(1)
    wrong = probabilities.scatter(1, y[:, None], -torch.inf).amax(1)
    return cross_entropy(logits, y) - (1.0001 - wrong).log()


def weighted_divergence(logits: Tensor, natural: Tensor, y: Tensor) -> Tensor:
    r""":math:`\mathrm{KL}(p(x) \,\|\, p(z))\, (1.0000001 - p_y(x))`, (N,), of adversarial and clean logits."""
    sure = natural.softmax(1).gather(1, y[:, None]).squeeze(1)
    return kl_divergence(logits, natural) * (1.0000001 - sure)
