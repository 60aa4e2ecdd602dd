r"""Compact classes, far from the decision hyperplanes, with noisy features pulled to the clean centroids.

.. math:: \mathrm{CE}(x) + \alpha L_{compact} + \beta L_{margin} + \gamma_{reg} L_{reg} + \lambda L_{noisy}

:math:`q` are the features before the linear head :math:`z = W q + b`, :math:`m_c` is the centroid of the clean features
of class :math:`c`, and all four terms are means over the classes in the batch:

- :math:`L_{compact}`: mean over the class of :math:`[\|m_c - q\| - \delta_v]_+^2`; :math:`L_{noisy}`: the same with
  noisy features :math:`\tilde q` and the clean :math:`m_c`,
- :math:`L_{margin}`: :math:`\max_{i \ne c} [\delta_d - (z_c - z_i)(m_c) / \|W_c - W_i\|]_+`, with a gradient for
  features and for :math:`W, b`; the paper's distance times sign is this signed distance,
- :math:`L_{reg}`: :math:`\|m_c\|`.

Partial momentum: the margin uses the batch's centroids, the other terms :math:`\gamma m_c^{stored} + (1 - \gamma)
m_c^{batch}`, where the stored part is a constant and the batch's part keeps its gradient. A class seen for the first
time has its batch mean. With momentum the margin's gradient would shrink by :math:`1 - \gamma` (proposition 4.1; its
proof has the two gradients swapped).

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
    https://openreview.net/forum?id=RnLfJgvST2, section 4. As in its code, the momentum is 0.99 (paper: "such as 0.9")
    and the regulariser has it too; the code's other settings are fields.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from holdfast.augment.soft import softens
from holdfast.corruptions.noise import GaussianNoise
from holdfast.losses import cross_entropy
from holdfast.models.head import LinearHead, Whole, check_linear, linear_head
from holdfast.objectives.centroids import by_class, class_sums, everywhere, means
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams, streams
from holdfast.threat.l2 import norm
from holdfast.types import Augmentation, Classifier, Corruption, Terms

NAME = "discriminative"


@dataclass(frozen=True, kw_only=True)
class TermWeights:
    r"""How much each term counts beside the cross entropy.

    Args:
        compact: :math:`\alpha`.
        margin: :math:`\beta`.
        reg: :math:`\gamma_{reg}`.
        noisy: :math:`\lambda`; at 0 there is no second forward pass.
        pooled: as in the official code, which takes one mean over clean and noisy features together and so gives
            `compact` and `noisy` half of the paper's weights.
    """

    compact: float = 1.0
    margin: float = 1.0
    reg: float = 1e-3
    noisy: float = 1.0
    pooled: bool = False

    def __post_init__(self) -> None:
        for name in ("compact", "margin", "reg", "noisy"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and not negative, got {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class Discriminative:
    r"""The objective of this module, for networks with `features` and a linear `head`.

    Args:
        noise: corruption of the noisy view: Gaussian, uniform or any other.
        augment: augmentations of the two views, drawn for each, before the noise. With none, both views share those of
            `data.augment`. With crops and flips here, and none there, the views are independent, as in the official
            code.
        weights: weights of the terms.
        delta_v: :math:`\delta_v`, distance from the centroid that costs nothing.
        delta_d: :math:`\delta_d`, wanted distance of centroids from the hyperplanes; 3 for the paper's MobileNetV3.
        momentum: :math:`\gamma` of the centroids.
    """

    noise: Corruption = field(default_factory=lambda: GaussianNoise(0.06))
    augment: tuple[Augmentation, ...] = ()
    weights: TermWeights = field(default_factory=TermWeights)
    delta_v: float = 0.5
    delta_d: float = 5.0
    momentum: float = 0.99

    def __post_init__(self) -> None:
        if not (0 <= self.delta_v < math.inf and 0 <= self.delta_d < math.inf):
            got = f"{self.delta_v} and {self.delta_d}"
            raise ValueError(f"delta_v and delta_d must be finite and not negative, got {got}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must lie in [0, 1), got {self.momentum}")
        if any(softens(one) for one in self.augment):
            raise ValueError("augment: expected augmentations that leave labels alone; this objective wants classes")

    @property
    def passes(self) -> Passes:
        """Passes of one step: clean images, and noisy ones where they count."""
        return Passes(2, 2) if self.weights.noisy else Passes(1, 1)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch: without memory the centroids are those of the batch."""
        head = linear_head(model, NAME)
        return Centroids(self, head, len(head.weight), Whole(NAME, checked=True)).forward(model, x, y, rng=rng)

    @property
    def hooks(self) -> Hooks:
        """The same with momentum centroids."""
        return Hooks(start=self._start)

    def _start(self, model: nn.Module, classes: int, examples: Tensor) -> nn.Module:
        head = linear_head(model, NAME)
        check_linear(head, NAME)
        return Centroids(self, head, classes, Whole(NAME))

    def clean_view(self, x: Tensor, rng: Streams) -> Tensor:
        """The images after augmentations of their own."""
        return self._augmented(x, rng.split("clean view"))

    def noisy_view(self, x: Tensor, rng: Streams) -> Tensor:
        """The images after other draws of the same augmentations, and the noise."""
        return self.noise(self._augmented(x, rng.split("noisy view")), rng=rng.split("noise"))

    def _augmented(self, x: Tensor, rng: Streams) -> Tensor:
        for place, augmentation in enumerate(self.augment):
            x = augmentation(x, rng=rng.split(f"augment {place}"))
        return x


class Centroids(nn.Module):
    """The objective with its state: a momentum centroid for each class, and which classes it has seen.

    Args:
        objective: its settings.
        head: of the network that is trained.
        classes: how many.
        whole: checks the network at the first batch.
    """

    centroids: Tensor
    seen: Tensor

    def __init__(self, objective: Discriminative, head: LinearHead, classes: int, whole: Whole) -> None:
        super().__init__()
        self.objective, self.whole = objective, whole
        kind = torch.promote_types(head.weight.dtype, torch.float32)  # a mean of many batches needs the precision
        zeros = torch.zeros(classes, head.weight.shape[1], dtype=kind, device=head.weight.device)
        self.register_buffer("centroids", zeros)
        self.register_buffer("seen", torch.zeros(classes, dtype=torch.bool, device=zeros.device))

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch, which updates the centroids."""
        objective, head = self.objective, self.whole.head_of(model, x)
        rng = streams(rng, x)
        features = head.features(objective.clean_view(x, rng))
        loss = cross_entropy(head.logits(features), y).mean()
        q = features.to(self.centroids.dtype)
        sums, counts = class_sums(q, y, len(self.seen))
        batch = means(sums, counts)
        centroids = self._mixed(batch)
        parts = {
            "compact": compactness(q, y, centroids, counts, objective.delta_v),
            "margin": margin_loss(batch, counts, head.weight, head.bias, objective.delta_d),
            "reg": by_class(norm(centroids)[y], y, counts),
        }
        if objective.weights.noisy:
            noisy = head.features(objective.noisy_view(x, rng)).to(q)
            parts["noisy"] = compactness(noisy, y, centroids, counts, objective.delta_v)
        self._remember(sums, counts)
        total = loss + sum(_share(objective.weights, name) * part for name, part in parts.items())
        return Terms(total, {"clean": loss, **parts})

    def _mixed(self, batch: Tensor) -> Tensor:
        """Centroids with momentum; for classes that were not seen before, those of the batch."""
        gamma = self.objective.momentum
        return torch.where(self.seen[:, None], (1 - gamma) * batch + gamma * self.centroids, batch)

    @torch.no_grad()
    def _remember(self, sums: Tensor, counts: Tensor) -> None:
        sums, counts = everywhere(sums, counts)
        present = counts > 0
        self.centroids = torch.where(present[:, None], self._mixed(means(sums, counts)), self.centroids)
        self.seen = self.seen | present


def compactness(features: Tensor, y: Tensor, centroids: Tensor, counts: Tensor, delta_v: float) -> Tensor:
    r"""Mean over the classes in the batch of the class's mean of :math:`[\|m_c - q\| - \delta_v]_+^2` (eqs 8, 12).

    Args:
        features: (N, F).
        y: labels, (N,).
        centroids: (K, F).
        counts: examples of each class, (K,).
        delta_v: distance that costs nothing.
    """
    return by_class((norm(centroids[y] - features) - delta_v).clamp_min(0).square(), y, counts)


def margin_loss(centroids: Tensor, counts: Tensor, weight: Tensor, bias: Tensor | None, delta_d: float) -> Tensor:
    r"""Mean over the classes in the batch of :math:`\max_{i \ne c} [\delta_d - d_i(m_c)]_+` (eq. 9).

    :math:`d_i` are signed distances. Equally near hyperplanes share the gradient.

    Args:
        centroids: (K, F).
        counts: examples of each class, (K,).
        weight: of the head, (K', F) with K' of K or more.
        bias: of the head, (K',) or None.
        delta_d: wanted distance.
    """
    own = torch.arange(len(centroids), device=centroids.device)
    behind = (delta_d - signed_distances(centroids, own, weight, bias)).clamp_min(0).amax(1)
    present = counts > 0
    return (behind * present).sum() / present.sum()


def signed_distances(points: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    r"""Distance of each point to the hyperplane of its class and every other, :math:`(z_c - z_i) / \|W_c - W_i\|`.

    Positive on the side of class :math:`c`. Infinite for :math:`i = c`, and where two rows of :math:`W` are equal, so
    that no hyperplane is between the classes.

    Args:
        points: features, (N, F).
        y: the class :math:`c` of each, (N,).
        weight: :math:`W`, (K, F).
        bias: :math:`b`, (K,) or None.

    Returns:
        (N, K).
    """
    weight = weight.to(points)
    logits = points @ weight.T if bias is None else points @ weight.T + bias.to(points)
    ahead = logits.gather(1, y[:, None]) - logits
    # By differences instead of products of matrices, which lose the digits of rows that are nearly equal.
    apart = torch.cdist(weight, weight, compute_mode="donot_use_mm_for_euclid_dist")[y]
    different = apart > 0
    return torch.where(different, ahead / apart.where(different, torch.ones_like(apart)), torch.inf)


def _share(weights: TermWeights, name: str) -> float:
    half = 0.5 if weights.pooled and name in ("compact", "noisy") else 1.0
    return half * float(getattr(weights, name))
