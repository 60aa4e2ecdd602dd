"""Curvature regularisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.losses import cross_entropy
from holdfast.modes import evaluating
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.passes import Passes
from holdfast.objectives.penalty import slope
from holdfast.objectives.standard import mean_cross_entropy
from holdfast.rng import Streams
from holdfast.threat.l2 import norm
from holdfast.threat.shape import per_example
from holdfast.types import Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class CURE:
    r"""Cross entropy, and how much its input gradient changes along the sign of the gradient.

    .. math:: \mathrm{CE}(x) + \lambda\, \frac1N \sum_i \|\nabla\ell(x_i + h v_i) - \nabla\ell(x_i)\|_2, \qquad
        v = \frac{\mathrm{sign}\,\nabla\ell(x)}{\|\mathrm{sign}\,\nabla\ell(x)\|_2}

    where the norm, as in the authors' code and unlike in the paper, is neither squared nor divided by :math:`h`. Both
    gradients are those of the network in eval mode, so that they belong to single examples and update no statistics;
    the cross entropy is taken in the mode of the caller. :math:`v` is not differentiated.

    Args:
        weight: :math:`\lambda`. The authors' 4 is for gradients with respect to images divided by 0.2.
        step: :math:`h`, a Euclidean distance in [0, 1] pixel units. The authors' 3 is in units of 0.2, too.

    Reference:
        Moosavi-Dezfooli, Fawzi, Uesato, Frossard, Robustness via Curvature Regularization, and Vice Versa, CVPR 2019,
        arXiv:1811.09716, section 4.
    """

    weight: float = 0.8
    step: float = 0.6

    soft_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_positive(weight=self.weight, step=self.step)

    @property
    def passes(self) -> Passes:
        """Passes of one step: the cross entropy, two gradients and the weights."""
        return Passes(3, 3)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        loss = mean_cross_entropy(model, x, y)
        with evaluating(model):
            here = slope(cross_entropy, model, x, y)
            ahead = slope(cross_entropy, model, here.points + self.step * sign_direction(here.gradient), y)
        turned = norm((ahead.gradient - here.gradient).flatten(1)).mean()
        return Terms(loss + self.weight * turned, {"loss": loss, "curvature": turned})


def sign_direction(gradient: Tensor) -> Tensor:
    """The sign of each gradient at Euclidean length 1, detached; zero where the gradient is zero."""
    signs = gradient.detach().sign()
    return signs / per_example(norm(signs.flatten(1)).clamp(min=1), signs)  # one sign alone has length 1
