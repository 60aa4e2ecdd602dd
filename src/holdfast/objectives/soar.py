"""Second-order adversarial regularisation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from holdfast.errors import unknown
from holdfast.losses import cross_entropy
from holdfast.objectives.passes import Passes
from holdfast.objectives.penalty import Slope, hessian_product, inner, same_randomness, slope
from holdfast.objectives.start import COSTS, Start, check_start, starting_point
from holdfast.rng import Streams, streams
from holdfast.threat.l2 import norm
from holdfast.threat.shape import per_example
from holdfast.types import Classifier, Loss, Terms, Threat

Estimator = Literal["root_mean_square", "mean", "scaled_mean"]
ESTIMATORS: tuple[Estimator, ...] = ("root_mean_square", "mean", "scaled_mean")


@dataclass(frozen=True, kw_only=True)
class SOAR:
    r"""Cross entropy at a nearby point, and a second-order bound on how much the loss may rise from there.

    .. math:: \mathrm{CE}(x') + \lambda \min\Bigl(c,\ \frac{\rho^2 + 1}{2}\, \|H z\|_2\Bigr), \qquad
        H = \begin{pmatrix} \nabla^2\ell & \nabla\ell \\ \nabla\ell^\top & 1 \end{pmatrix}(x'),
        \quad z \sim N(0, I_{d+1}),

    where :math:`\rho` is the radius of the smallest Euclidean ball that holds the threat's ball of radius
    :math:`\epsilon / 2`: :math:`\sqrt d\, \epsilon / 2` in :math:`\ell_\infty` and :math:`\epsilon / 2` in
    :math:`\ell_2` and :math:`\ell_1`; at the start `zero`, with :math:`\epsilon` in place of :math:`\epsilon / 2`.
    :math:`x'` is not differentiated. The constant :math:`-1/2` of the bound is left out.

    The thesis states :math:`E\|H z\| = \|H\|_F` (equation 3.8), which is wrong: :math:`E\|H z\|^2 = \|H\|_F^2`, and so
    :math:`E\|H z\|` is smaller. Its bound (3.7) fails, for instance, for :math:`d = 1`, :math:`\nabla\ell = 1/2`,
    :math:`\nabla^2\ell = 1/4` and :math:`\epsilon = 1`. It holds for two estimates of the norm of :math:`H`:
    `root_mean_square`, :math:`(\frac1n \sum \|H z_i\|^2)^{1/2}`, in the limit of many draws; and `scaled_mean`,
    :math:`\sqrt{\pi / 2}` times the mean, whose expectation is never below the spectral norm for any number of draws.
    `mean` is the printed one. With one draw the first and the last are the same number.

    Layers such as dropout draw the same for both gradients of the difference. A network with BatchNorm in train mode
    has no gradients of single examples; the thesis reports that SOAR fails there. The thesis also starts from a network
    trained without SOAR, and stops early.

    Args:
        threat: the ball of the adversary.
        start: :math:`x'`: after one step of PGD, at random, or the image itself (`zero`).
        draws: :math:`n`, number of draws of :math:`z`.
        step: :math:`h` of the finite difference
            :math:`\nabla^2\ell\, z_d \approx \|z_d\| (\nabla\ell(x' + h z_d / \|z_d\|) - \nabla\ell(x')) / h`; None for
            exact products.
        loss: :math:`\ell`, which the step of PGD raises and the regulariser limits. The other term stays the cross
            entropy.
        estimator: estimator of the norm of :math:`H`.
        clip: :math:`c`, of each example; where it is reached, the regulariser has no gradient. None for no clip.
        weight: :math:`\lambda`; 1 in the thesis. Without the clip a small weight prevents collapse early in training.

    Reference:
        Ma, Faghri, Papernot, Farahmand, SOAR: Second-Order Adversarial Regularization, 2020, arXiv:2004.01832, and Ma,
        Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 3.3, algorithm 3.1.
    """

    threat: Threat
    start: Start = "pgd1"
    draws: int = 1
    step: float | None = 1e-2
    loss: Loss = cross_entropy
    estimator: Estimator = "root_mean_square"
    clip: float | None = 10.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_start("soar", self.start, self.threat)
        if self.estimator not in ESTIMATORS:
            raise ValueError(f"estimator: {unknown(self.estimator, ESTIMATORS)}")
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")
        for name, value in (("step", self.step), ("clip", self.clip)):
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, or null, got {value}")
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"weight must be finite and not negative, got {self.weight}")

    @property
    def soft_labels(self) -> bool:
        """Whether labels may be distributions: the other losses have none."""
        return self.loss is cross_entropy

    @property
    def passes(self) -> Passes:
        """Passes of one step: the start, the gradient at it, the products and the weights."""
        products = Passes(0 if self.step is None else self.draws, self.draws)
        return COSTS[self.start] + Passes(1, 2) + products

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        rng = streams(rng, x)
        point, eps = starting_point(self.start, self.threat, self.loss, model, x, y, rng.split("start"))
        again = same_randomness(x.device)
        around = slope(self.loss, model, point, y)
        lengths = []
        for number in range(self.draws):
            with again():
                lengths.append(self._length(model, around, y, rng.split(f"draw {number}")))
        bound = factor(self.threat, eps, x) * estimate(torch.stack(lengths), self.estimator)
        held = bound if self.clip is None else bound.clamp(max=self.clip)
        loss, regulariser = cross_entropy(around.logits, y).mean(), held.mean()
        clipped = (held < bound).to(bound).mean()
        return Terms(loss + self.weight * regulariser, {"loss": loss, "regulariser": regulariser, "clipped": clipped})

    def _length(self, model: Classifier, around: Slope, y: Tensor, rng: Streams) -> Tensor:
        x = around.points
        z = rng.normal(x.new_empty(len(x), x[0].numel() + 1))
        direction, last = z[:, :-1].reshape(x.shape), z[:, -1]
        if self.step is None:
            bent = hessian_product(around, direction)
        else:
            bent = difference_product(self.loss, model, around, y, direction, self.step)
        return norm(augmented_product(around.gradient, bent, direction, last))


def difference_product(
    loss: Loss, model: Classifier, around: Slope, y: Tensor, direction: Tensor, step: float
) -> Tensor:
    r"""The Hessian times :math:`z_d` by the difference of two gradients a distance of `step` apart, with its graph."""
    tiny = torch.finfo(direction.dtype).tiny  # a direction of length zero has the product zero
    length = per_example(norm(direction.flatten(1)).clamp(min=tiny), direction)
    ahead = slope(loss, model, around.points + step * direction / length, y)
    return length * (ahead.gradient - around.gradient) / step


def augmented_product(gradient: Tensor, bent: Tensor, direction: Tensor, last: Tensor) -> Tensor:
    r""":math:`H z = (\nabla^2\ell\, z_d + z_1 \nabla\ell,\ \nabla\ell^\top z_d + z_1)`, (N, d + 1).

    Args:
        gradient: :math:`\nabla\ell`, (N, ...).
        bent: :math:`\nabla^2\ell\, z_d`, like it.
        direction: :math:`z_d`, like it.
        last: :math:`z_1`, (N,).
    """
    upper = bent + per_example(last, gradient) * gradient
    return torch.cat((upper.flatten(1), (inner(gradient, direction) + last)[:, None]), dim=1)


def estimate(lengths: Tensor, estimator: Estimator) -> Tensor:
    r"""An estimate of a norm of :math:`H`, (N,), from :math:`\|H z_i\|`, (draws, N)."""
    if estimator == "root_mean_square":
        return norm(lengths.T) / math.sqrt(len(lengths))
    return lengths.mean(0) * (math.sqrt(math.pi / 2) if estimator == "scaled_mean" else 1.0)


def factor(threat: Threat, eps: float, x: Tensor) -> float:
    r""":math:`(\rho^2 + 1) / 2`: :math:`(d\epsilon^2 + 1) / 2` in :math:`\ell_\infty`.

    Args:
        threat: the threat, for its norm.
        eps: radius in that norm.
        x: images, of which only the shape counts.
    """
    return (enclosing_radius(threat, eps, x) ** 2 + 1) / 2


def enclosing_radius(threat: Threat, eps: float, x: Tensor) -> float:
    r""":math:`\rho = \max \|\delta\|_2` over :math:`\|\delta\| \le \epsilon`.

    Of an :math:`\ell_p` ball the farthest points are on the axes for :math:`p \le 2` and on the diagonal for
    :math:`p \ge 2`, so that the norm of one diagonal gives it.
    """
    diagonal = torch.ones(1, *x.shape[1:], dtype=torch.float64)
    along = float(threat.distance(diagonal, torch.zeros_like(diagonal)))
    return eps * max(1.0, math.sqrt(diagonal.numel()) / along)
