"""PixMix: pictures of fractals and textures mixed into images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.augment import augmix
from holdfast.augment.operations import Drawn, apply_each, draw, grey
from holdfast.augment.pictures import from_folder, generated
from holdfast.rng import Streams, streams
from holdfast.threat.shape import per_example

DARKEST = 1e-37
"""Smaller values are replaced by it before they are raised to a power that may be negative."""


@dataclass(frozen=True, kw_only=True)
class PixMix:
    r"""Mix an image several times with a picture or with a changed copy of itself, by sums or by products.

    .. math:: z_0 \in \{x, c(x)\}, \qquad z_{t+1} = \mathrm{clip}(z_t \oplus u_t), \quad u_t \in \{p_t, c_t(x)\},
        \quad t < T \sim U\{0, \dots, k\}

    Each alternative has probability 1/2; :math:`p_t` is a random picture, turned or mirrored at random, and :math:`c` a
    simple operation of AugMix. Both mixes have weights :math:`a, b`, half of the time :math:`a \sim
    \mathrm{Beta}(\beta, 1)`, :math:`b \sim \mathrm{Beta}(1, \beta)`, else :math:`a = 1 + \mathrm{Beta}(1, \beta)`,
    :math:`b = -\mathrm{Beta}(1, \beta)`:

    .. math:: \tfrac12\bigl(a (2z - 1) + b (2u - 1) + 1\bigr) \quad\text{and}\quad \tfrac12 (2z)^a (2u)^b

    Args:
        k: largest number of mixes.
        beta: :math:`\beta`; the higher, the more of the image remains.
        severity: strength of the operations, up to 10.
        all_ops: also operations that are near some of the corruptions of tests.
        mixing: directory of pictures, in the current directory or in the data root; None to generate them.
        pictures: number of pictures to generate.

    Reference:
        Hendrycks et al., PixMix: Dreamlike Pictures Comprehensively Improve Safety Measures, CVPR 2022,
        arXiv:2112.05135. Differs: the pictures are generated at the size of the images, instead of collected
        fractals and visualised features.
    """

    k: int = 4
    beta: float = 3.0
    severity: float = 3.0
    all_ops: bool = False
    mixing: str | None = None
    pictures: int = 256

    def __post_init__(self) -> None:
        if self.k < 0:
            raise ValueError(f"k: expected 0 or more mixes, got {self.k}")
        if not 0.01 <= self.beta <= 1e6:
            raise ValueError(f"beta: expected a number in [0.01, 1000000], got {self.beta}")
        if not 0 <= self.severity <= 10:
            raise ValueError(f"severity: expected a number in [0, 10], got {self.severity}")
        if self.pictures < 1:
            raise ValueError(f"pictures: expected at least 1, got {self.pictures}")

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The mixed images, (N, C, H, W) as `x`."""
        rng = streams(rng, x)
        mixes = rng.integers(self.k + 1, device=x.device)
        rows = rng.integers(2, device=x.device).nonzero()[:, 0]
        z = x.clone()
        z[rows] = self._changed(x[rows], rng.split("start")[rows])
        for step in range(self.k):
            rows = (mixes > step).nonzero()[:, 0]
            if len(rows):
                z[rows] = self._mixed_once(z[rows], x[rows], rng[rows].split(f"mix {step}"))
        return z

    def _mixed_once(self, z: Tensor, x: Tensor, rng: Streams) -> Tensor:
        """Mix once; each alternative is computed only for the images that take it."""
        itself, product = (rng.integers(2, device=x.device).nonzero()[:, 0] for _ in range(2))
        a, b = weights(rng, x, self.beta)
        other = self._picture(x, rng.split("picture"))
        other[itself] = self._changed(x[itself], rng.split("change")[itself])
        mixed = added(z, other, a, b)
        mixed[product] = multiplied(z[product], other[product], a[product], b[product])
        return mixed

    def _changed(self, x: Tensor, rng: Streams) -> Tensor:
        """One operation on each image."""
        scales = augmix.SCALES | augmix.CORRUPTING if self.all_ops else augmix.SCALES
        drawn = draw(rng, 1, len(scales), x)
        return apply_each(
            x, scales, Drawn(drawn.choice[:, 0], drawn.strength[:, 0] * (self.severity / 10), drawn.negative[:, 0])
        )

    def _picture(self, x: Tensor, rng: Streams) -> Tensor:
        """A picture for each image, mirrored and, where it is a square, turned at random."""
        C, H, W = x.shape[1:]
        pictures = generated(self.pictures, H, W) if self.mixing is None else from_folder(self.mixing, H, W)
        taken = pictures[rng.integers(len(pictures))].to(x)
        if C != 3:
            taken = grey(taken) if C == 1 else taken[:, [channel % 3 for channel in range(C)]]
        for side in (2, 3):
            taken = torch.where(_coin(rng, x), taken.flip(side), taken)
        return torch.where(_coin(rng, x), taken.transpose(2, 3), taken) if H == W else taken


def weights(rng: Streams, like: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    r""":math:`a` and :math:`b` of each image, (N,).

    Beta variables with a parameter of 1 have the inverse distribution functions :math:`v^{1/\beta}` and
    :math:`1 - (1 - v)^{1/\beta}`.
    """
    one, other = rng.uniform(torch.empty(len(like), 2, dtype=torch.float64, device=like.device)).unbind(1)
    inside = rng.integers(2, device=like.device) == 1
    small, second = 1 - (1 - one) ** (1 / beta), 1 - (1 - other) ** (1 / beta)
    a = torch.where(inside, one ** (1 / beta), 1 + small)
    return a.to(like), torch.where(inside, second, -second).to(like)


def added(z: Tensor, other: Tensor, a: Tensor, b: Tensor) -> Tensor:
    r""":math:`\frac12 (a (2z - 1) + b (2u - 1) + 1)`, clipped."""
    a, b = per_example(a, z), per_example(b, z)
    return ((a * (2 * z - 1) + b * (2 * other - 1) + 1) / 2).clamp_(0, 1)


def multiplied(z: Tensor, other: Tensor, a: Tensor, b: Tensor) -> Tensor:
    r""":math:`\frac12 (2z)^a (2u)^b`, clipped; black stays black where :math:`a > 0`."""
    a, b = per_example(a, z), per_example(b, z)
    return ((2 * z) ** a * (2 * other).clamp_min(DARKEST) ** b / 2).clamp_(0, 1)


def _coin(rng: Streams, like: Tensor) -> Tensor:
    """Heads or tails for each image, as (N, 1, 1, 1)."""
    return per_example(rng.integers(2, device=like.device) == 1, like)
