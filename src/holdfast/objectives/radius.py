r"""Objectives that push a certified radius up to a target :math:`d`: :math:`\frac1N \sum_i [d - r(x_i)]_+`.

For networks that are :math:`K`-Lipschitz in :math:`\ell_2`; :math:`d` is in units of distance, as the paper prints it.
(Its code leaves out the :math:`1/\sqrt2`, so that a :math:`d` there is :math:`d / \sqrt2` here.)

Reference:
    Crespo, Teramae, Smoothed Robustness Analysis, TMLR, section 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.lipschitz.moments import propagate
from holdfast.lipschitz.radii import ALPHA, smoothed_margin, zhen_radius
from holdfast.losses import margin
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class MCR:
    r"""The margin certified radius, :math:`r = -L_M / (\sqrt2 K)`.

    Args:
        d: the target.
        constant: :math:`K`, the network's Lipschitz constant.
    """

    d: float
    constant: float = 1.0

    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        require_positive(d=self.d, constant=self.constant)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        return _short_of(self.d, -margin(model(x), y) / (ALPHA["l2"] * self.constant))


@dataclass(frozen=True, kw_only=True)
class MSCR:
    r"""The margin smoothed certified radius, :math:`r = -\bar L_M / (\sqrt2 K)` with the smoothed margin of equation 7.

    The moments of the logits are propagated, not sampled. The radius is a little too large and certifies nothing; the
    certificate is `smoothed_margin`.

    Args:
        d: the target.
        sigma: standard deviation of the noise in [0, 1] pixel units; the paper's grids give its square.
        constant: :math:`K`, the network's Lipschitz constant.
    """

    d: float
    sigma: float
    constant: float = 1.0

    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        require_positive(d=self.d, sigma=self.sigma, constant=self.constant)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        expected = smoothed_margin(propagate(model, x, self.sigma), y)
        return _short_of(self.d, -expected / (ALPHA["l2"] * self.constant))


@dataclass(frozen=True, kw_only=True)
class Zhen:
    r"""Zhen's radius of randomized smoothing, :math:`r = \sigma_x (\mu_c - \mu_1) / \sqrt{\sigma_c^2 + \sigma_1^2}`.

    Args:
        d: the target.
        sigma: standard deviation of the noise in [0, 1] pixel units; the paper's grids give its square.

    Reference:
        Zhen, Chakraborty, Singh, Simpler Certified Radius Maximization by Propagating Covariances, CVPR 2021,
        arXiv:2104.05888. Differs: variances without covariances, as in the comparison of Crespo and Teramae.
    """

    d: float
    sigma: float

    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        require_positive(d=self.d, sigma=self.sigma)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        return _short_of(self.d, zhen_radius(propagate(model, x, self.sigma), y, self.sigma))


def _short_of(d: float, radius: Tensor) -> Terms:
    return Terms((d - radius).clamp_min(0).mean(), {"radius": radius.detach().mean()})
