"""AugMix: mixtures of chains of simple operations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.augment.draws import beta, dirichlet
from holdfast.augment.operations import Drawn, Scale, apply_each, draw
from holdfast.rng import Streams, streams
from holdfast.threat.shape import per_example

LONGEST = 3
"""Operations of the longest chain where the depth is drawn."""

SCALES = {
    "autocontrast": Scale(),
    "equalize": Scale(),
    "posterize": Scale(4, 0),
    "rotate": Scale(0, 30, signed=True),
    "solarize": Scale(256 / 255, 0),
    "shear_x": Scale(0, 0.3, signed=True),
    "shear_y": Scale(0, 0.3, signed=True),
    "translate_x": Scale(0, 1 / 3, signed=True),
    "translate_y": Scale(0, 1 / 3, signed=True),
}
"""Operations that share nothing with the common corruptions, with their amounts at severity 0 and 10."""

CORRUPTING = {name: Scale(0.1, 1.9) for name in ("colour", "contrast", "brightness", "sharpness")}
"""Operations that are near some of the corruptions used for tests."""


@dataclass(frozen=True, kw_only=True)
class AugMix:
    r"""Mix an image with a mixture of `width` copies, each changed by a chain of random operations.

    .. math:: z = (1 - m)\,x + m \sum_{i=1}^{k} w_i\, c_i(x), \qquad
        w \sim \mathrm{Dirichlet}(\alpha), \quad m \sim \mathrm{Beta}(\alpha, \alpha)

    Every chain :math:`c_i`, its operations and their strengths, uniform up to the severity, are drawn for each image.
    The consistency loss that goes with it is the objective `jensen_shannon`.

    Args:
        width: :math:`k`, chains per image.
        depth: operations per chain; -1 draws 1, 2 or 3 for each.
        severity: largest strength, up to 10.
        alpha: :math:`\alpha`.
        all_ops: also colour, contrast, brightness and sharpness, which are near some of the corruptions of tests.

    Reference:
        Hendrycks et al., AugMix: A Simple Data Processing Method to Improve Robustness and Uncertainty, ICLR 2020,
        arXiv:1912.02781. Differs: angles and distances are not rounded to whole degrees and pixels, so that small
        images move too; strengths start at 0, not at a hundredth.
    """

    width: int = 3
    depth: int = -1
    severity: float = 3.0
    alpha: float = 1.0
    all_ops: bool = False

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ValueError(f"width: expected at least 1, got {self.width}")
        if self.depth < 1 and self.depth != -1:
            raise ValueError(f"depth: expected at least 1, or -1 for 1 to {LONGEST}, got {self.depth}")
        if not 0 <= self.severity <= 10:
            raise ValueError(f"severity: expected a number in [0, 10], got {self.severity}")
        if not 1e-3 <= self.alpha <= 1e6:
            raise ValueError(f"alpha: expected a number in [0.001, 1000000], got {self.alpha}")

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The mixed images, (N, C, H, W) as `x`."""
        rng = streams(rng, x)
        weights = dirichlet(rng, self.alpha, self.width).to(x)
        m = beta(rng, self.alpha, self.alpha).to(x)
        chains = self._chains(x, rng).view(len(x), self.width, *x.shape[1:])
        mixture = torch.zeros_like(x)
        for number in range(self.width):  # one after another: the order of a sum is part of its rounding
            mixture += per_example(weights[:, number], x) * chains[:, number]
        return (x + per_example(m, x) * (mixture - x)).clamp_(0, 1)

    def _chains(self, x: Tensor, rng: Streams) -> Tensor:
        """The changed copies, (N width, C, H, W): those of the first image, then of the second, ..."""
        scales = SCALES | CORRUPTING if self.all_ops else SCALES
        longest = LONGEST if self.depth == -1 else self.depth
        drawn = draw(rng, self.width * longest, len(scales), x)
        choice, strength, negative = (
            part.view(-1, longest) for part in (drawn.choice, drawn.strength * (self.severity / 10), drawn.negative)
        )
        depth = rng.integers(longest, (self.width,), x.device).flatten() + 1 if self.depth == -1 else None
        z = x.repeat_interleave(self.width, dim=0)
        for step in range(longest):
            going = torch.arange(len(z), device=x.device) if depth is None else (depth > step).nonzero()[:, 0]
            taken = Drawn(choice[going, step], strength[going, step], negative[going, step])
            z[going] = apply_each(z[going], scales, taken)
        return z
