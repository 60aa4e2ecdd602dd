"""The corruptions of C-bar as one method with a kind and a severity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.corruptions.bar import distortion, lens, obscuring, sparkle, spectral
from holdfast.corruptions.bar.tables import KINDS, LEVELS, SEVERITIES, Kind
from holdfast.corruptions.images import check_images
from holdfast.errors import unknown
from holdfast.rng import Streams, streams

FUNCTIONS: dict[Kind, Callable[[Tensor, float, Streams], Tensor]] = {
    "blue_noise_sample": spectral.blue_noise_sample,
    "brownish_noise": spectral.brownish_noise,
    "checkerboard_cutout": obscuring.checkerboard_cutout,
    "inverse_sparkles": sparkle.inverse_sparkles,
    "pinch_and_twirl": distortion.pinch_and_twirl,
    "ripple": distortion.ripple,
    "circular_motion_blur": lens.circular_motion_blur,
    "lines": obscuring.lines,
    "sparkles": sparkle.sparkles,
    "transverse_chromatic_abberation": lens.transverse_chromatic_abberation,
}
"""Images (N, 1 or 3, H, W) in [0, 1], the level and streams to images: pure functions that return a new tensor."""

_CHUNK = 1 << 20
"""Values worked on at a time: bounds the memory of fields in float64."""


@dataclass(frozen=True)
class Bar:
    """A corruption of C-bar: one of ten kinds that are far from the common corruptions, in one of five severities.

    Settings chosen by these are independent of the 15 common corruptions, which remain a fair test.

    A severity sets the level of its kind; places, angles, phases and other free parameters are drawn for each image.
    The published formulas are in terms of the image's side and are used here for every size, with the shorter side
    where an image is not square. Numbers of lines and sparkles grow with the area. Where the published formula has a
    bound of one pixel, it shrinks with images of less than 32 pixels. Images have one channel or three, and sides of at
    least 8 pixels.

    The reference works on 8-bit images and truncates its results to 8 bits; here they stay in floating point.

    Args:
        kind: which corruption.
        severity: 1 to 5.

    Reference:
        Mintun, Kirillov, Xie, On Interaction Between Augmentations and Corruptions in Natural Corruption Robustness,
        NeurIPS 2021, arXiv:2102.11273, the version for CIFAR-10. Differs: no rounding to 8 bits, and as the functions
        of each kind state.
    """

    family: ClassVar = "C-bar"

    kind: Kind
    severity: int = 3

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: {unknown(self.kind, KINDS)}")
        if self.severity not in SEVERITIES or isinstance(self.severity, bool):
            raise ValueError(f"severity: expected 1, 2, 3, 4 or 5, got {self.severity!r}")

    @torch.no_grad()
    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The corrupted images, in [0, 1]; shape, dtype and device of `x`."""
        check_images(x, "bar")
        # Keyed by the next number of each example's stream, which advances by one whatever a kind draws.
        own = Streams(0, f"bar {self.kind}", streams(rng, x).bits(1)[:, 0])
        function, level = FUNCTIONS[self.kind], LEVELS[self.kind][self.severity - 1]
        wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
        size = max(1, _CHUNK // x.shape[1:].numel())
        parts = [function(wide[i : i + size], level, own[i : i + size]) for i in range(0, len(x), size)]
        return torch.cat(parts).to(x.dtype) if parts else x.clone()
