"""Local linearity regularisation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.search import require_metric_threat
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.modes import evaluating
from holdfast.objectives.passes import Passes
from holdfast.objectives.penalty import Slope, inner, slope
from holdfast.objectives.standard import mean_cross_entropy
from holdfast.rng import Streams, streams
from holdfast.threat.shape import per_example
from holdfast.types import Classifier, Terms, Threat


@dataclass(frozen=True, kw_only=True)
class LLR:
    r"""Cross entropy, and how far the loss is from linear within the threat.

    .. math:: \mathrm{CE}(x) + \lambda\, g(\delta) + \mu\, |\delta^\top \nabla\ell(x)|, \qquad
        g(\delta) = |\ell(x + \delta) - \ell(x) - \delta^\top \nabla\ell(x)|, \quad
        \delta \approx \arg\max_{x + \delta \in S(x)} g(\delta)

    :math:`\delta` comes from PGD on :math:`g` with a random start and is not differentiated. Everything but the cross
    entropy uses the network in eval mode, so that gradients belong to single examples and no statistics are updated.

    Args:
        threat: the set :math:`S` and its geometry.
        steps: number of steps of PGD.
        step_size: step size of PGD, in the threat's units; None for 2.5 times the radius over the number of steps.
        weight: :math:`\lambda`.
        slope_weight: :math:`\mu`.

    Reference:
        Qin et al., Adversarial Robustness through Local Linearization, NeurIPS 2019, arXiv:1907.02610, section 4. The
        weights are those reported for CIFAR-10. The authors' code has twice the cross entropy, weights 4 and 1.2 and
        ten steps of Adam, along the gradient of :math:`\ell(x + \delta)` alone; here it is the gradient of :math:`g`.
    """

    threat: Threat
    steps: int = 10
    step_size: float | None = None
    weight: float = 4.0
    slope_weight: float = 3.0

    soft_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_metric_threat("llr", self.threat)
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        if self.step_size is not None and not 0 < self.step_size < math.inf:
            raise ValueError(f"step_size must be positive and finite, got {self.step_size}")
        for name in ("weight", "slope_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and not negative, got {getattr(self, name)}")

    @property
    def passes(self) -> Passes:
        """Passes of one step: cross entropy, gradient and far loss, the steps of PGD, and the weights."""
        return Passes(self.steps + 3, self.steps + 2)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        loss = mean_cross_entropy(model, x, y)
        with evaluating(model):
            here = slope(cross_entropy, model, x, y)
            z = self._least_linear(model, here, y, streams(rng, x).split("start"))
            far = cross_entropy(model(z), y)
        along = inner(here.gradient, z - here.points.detach())
        bent, steep = (far - here.values - along).abs().mean(), along.abs().mean()
        total = loss + self.weight * bent + self.slope_weight * steep
        return Terms(total, {"loss": loss, "nonlinearity": bent, "slope": steep})

    def _least_linear(self, model: Classifier, here: Slope, y: Tensor, rng: Streams) -> Tensor:
        """The last point of PGD on the deviation from linearity."""
        x, values, gradient = here.points.detach(), here.values.detach(), here.gradient.detach()
        step_size = 2.5 * self.threat.eps / self.steps if self.step_size is None else self.step_size
        z = self.threat.sample(x, rng)
        for _ in range(self.steps):
            losses, grad, _ = input_gradient(cross_entropy, model, z, y)
            side = (losses - values - inner(gradient, z - x)).sign()
            climb = per_example(side, x) * (grad - gradient)
            z = self.threat.project(z + step_size * self.threat.ascent(climb, z), x)
        return z
