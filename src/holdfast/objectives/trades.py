"""TRADES: accuracy, and predictions that do not change within the threat."""

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
class TRADES:
    r"""Cross entropy of clean images, and how far predictions move within the threat.

    .. math:: \mathrm{CE}(x) + \beta\, \mathrm{KL}(p(x) \,\|\, p(z)), \qquad
        z \approx \arg\max_{z \in S(x)} \mathrm{KL}(p(x) \,\|\, p(z))

    The divergence is from the clean prediction to the adversarial one, as in the paper's code; the thesis of Ma prints
    :math:`\mathrm{KL}(p(z) \,\|\, p(x))`, which is another number and another gradient. The clean prediction is
    differentiated in both terms. :math:`z` comes from gradient ascent that starts at :math:`x` plus noise of standard
    deviation 0.001, since the divergence has no gradient at :math:`x` itself; it is not differentiated.

    Args:
        threat: the set :math:`S` and its geometry.
        beta: :math:`\beta`.
        steps: number of steps of the ascent.
        step_size: step size of the ascent, in the threat's units; None for 2.5 radii divided by the number of steps.
        batch_stats: what BatchNorm does, see `batch_stats`.

    Reference:
        Zhang et al., Theoretically Principled Trade-off between Robustness and Accuracy, ICML 2019, arXiv:1901.08573,
        equation 5. Its code has :math:`\epsilon = 0.031`, ten steps of 0.007 and :math:`\beta = 6`. Differs: the start
        is clipped to [0, 1], and in :math:`\ell_2` steps go along the normalised gradient instead of Adam's direction.
    """

    threat: Threat
    beta: float = 6.0
    steps: int = 10
    step_size: float | None = None
    batch_stats: BatchStats = "frozen"

    soft_labels: ClassVar[bool] = True
    loss_passes: ClassVar[Passes] = Passes(2, 2)

    def __post_init__(self) -> None:
        require_metric_threat("trades", self.threat)
        require_nonnegative(beta=self.beta)
        check_steps(self.steps, self.step_size)
        check_batch_stats(self.batch_stats)

    @property
    def passes(self) -> Passes:
        """Passes of one step: the clean prediction for the attack, its steps, and the loss."""
        return Passes(1 + self.steps, self.steps) + self.loss_passes

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch."""
        return TwoSteps(self, model).forward(model, x, y, rng=rng)

    @property
    def hooks(self) -> Hooks:
        """The same with statistics of its own, where `batch_stats` asks for them."""
        return Hooks(start=lambda model, classes, examples: TwoSteps(self, model))

    def search(self, statistics: Statistics, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
        """The point of each example where predictions differ most."""
        with statistics.attacking(model, clean=True), torch.no_grad():
            natural = model(x)
        step_size = default_step_size(self.threat, self.steps, self.step_size)
        start = noisy_start(self.threat, x, rng.split("start"))
        with statistics.attacking(model):
            return climb(self.threat, kl_divergence, model, x, natural, start, steps=self.steps, step_size=step_size)

    def loss(self, statistics: Statistics, model: Classifier, x: Tensor, y: Tensor, z: Tensor) -> Terms:
        """Terms of a batch and its points."""
        with statistics.clean(model):
            natural = model(x)
        with statistics.adversarial(model):
            moved = model(z)
        clean, apart = cross_entropy(natural, y).mean(), kl_divergence(moved, natural).mean()
        return Terms(clean + self.beta * apart, {"clean": clean, "divergence": apart})
