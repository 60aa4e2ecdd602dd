"""RandAugment and TrivialAugment: simple operations without a policy to learn."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.augment.operations import Drawn, Scale, apply_each, draw
from holdfast.rng import Streams, streams

SCALES = {
    "identity": Scale(),
    "autocontrast": Scale(),
    "equalize": Scale(),
    "posterize": Scale(8, 4),
    "rotate": Scale(0, 30, signed=True),
    "solarize": Scale(1, 0),
    "shear_x": Scale(0, 0.3, signed=True),
    "shear_y": Scale(0, 0.3, signed=True),
    "translate_x": Scale(0, 150 / 331, signed=True),
    "translate_y": Scale(0, 150 / 331, signed=True),
    "colour": Scale(1, 1.9, signed=True),
    "contrast": Scale(1, 1.9, signed=True),
    "brightness": Scale(1, 1.9, signed=True),
    "sharpness": Scale(1, 1.9, signed=True),
}
"""Amounts at magnitudes 0 and 10."""

WIDE = {
    **SCALES,
    "posterize": Scale(8, 2),
    "rotate": Scale(0, 135, signed=True),
    "shear_x": Scale(0, 0.99, signed=True),
    "shear_y": Scale(0, 0.99, signed=True),
    **{name: Scale(1, 1.99, signed=True) for name in ("colour", "contrast", "brightness", "sharpness")},
}
"""Amounts at strengths 0 and 30 of TrivialAugment's wide space."""

FARTHEST = 32
"""Pixels of the farthest translation in the wide space; the whole side of smaller images."""

STRENGTHS = 31
"""Number of strengths that TrivialAugment draws from."""


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """Some random operations one after another, all at the same magnitude.

    The operations include changes of contrast and brightness, which are near some of the corruptions used for tests;
    `augmix` leaves them out.

    Args:
        count: operations per image.
        magnitude: their strength, from 0 to 10.

    Reference:
        Cubuk et al., RandAugment: Practical Automated Data Augmentation with a Reduced Search Space, NeurIPS 2020,
        arXiv:1909.13719.
    """

    count: int = 2
    magnitude: float = 5.0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count: expected at least 1, got {self.count}")
        if not 0 <= self.magnitude <= 10:
            raise ValueError(f"magnitude: expected a number in [0, 10], got {self.magnitude}")

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The changed images, (N, C, H, W) as `x`."""
        drawn = draw(streams(rng, x), self.count, len(SCALES), x)
        strength = x.new_full((len(x),), self.magnitude / 10)
        for step in range(self.count):
            x = apply_each(x, SCALES, Drawn(drawn.choice[:, step], strength, drawn.negative[:, step]))
        return x


@dataclass(frozen=True, kw_only=True)
class TrivialAugment:
    """One random operation per image, at a random strength of the wide space. There is nothing to tune.

    Reference:
        Müller, Hutter, TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation, ICCV 2021,
        arXiv:2103.10158, table 1 (wide).
    """

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The changed images, (N, C, H, W) as `x`."""
        drawn = draw(streams(rng, x), 1, len(WIDE), x)
        H, W = x.shape[2:]
        far = {"translate_x": min(1.0, FARTHEST / W), "translate_y": min(1.0, FARTHEST / H)}
        scales = {name: replace(scale, high=far.get(name, scale.high)) for name, scale in WIDE.items()}
        strength = torch.floor(drawn.strength[:, 0] * STRENGTHS) / (STRENGTHS - 1)
        return apply_each(x, scales, Drawn(drawn.choice[:, 0], strength, drawn.negative[:, 0]))
