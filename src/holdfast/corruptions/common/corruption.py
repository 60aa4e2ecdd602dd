"""The common corruptions as one method with a kind and a severity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.corruptions.common import blur, digital, noise, spatter, weather
from holdfast.corruptions.common.tables import EXTRA, SEVERITIES, STANDARD, Kind, Parameters, parameters
from holdfast.corruptions.images import check_images
from holdfast.rng import Streams, streams

FUNCTIONS: dict[Kind, Callable[[Tensor, Parameters, Streams], Tensor]] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": weather.brightness,
    "contrast": digital.contrast,
    "elastic_transform": digital.elastic_transform,
    "pixelate": digital.pixelate,
    "jpeg_compression": digital.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": spatter.spatter,
    "saturate": digital.saturate,
}
"""Images (N, C, H, W) in [0, 1], parameters and streams to images: pure functions that return a new tensor."""

_CHUNK = 1 << 18
"""Values worked on at a time on the CPU: about as many as its caches hold."""


@dataclass(frozen=True)
class Common:
    """A common corruption of Hendrycks and Dietterich: one of 19 kinds, in one of five severities.

    Parameters are the published ones of CIFAR-10-C, Tiny-ImageNet-C and ImageNet-C; `tables.py` chooses among them for
    images of other sizes. Images have one channel or three, and sides of at least 8 pixels.

    The reference works on 8-bit images and truncates its results to 8 bits. Here images stay in floating point before,
    between and after the steps; only `jpeg_compression` rounds, since JPEG has 8 bits. So results are brighter than the
    reference's by about half of 1/255.

    Args:
        kind: which corruption.
        severity: 1 to 5.

    Reference:
        Hendrycks, Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR
        2019, arXiv:1903.12261. Differs: no rounding to 8 bits, and frost is generated instead of cut from photographs.
    """

    family: ClassVar = "common corruptions"

    kind: Kind
    severity: int = 3

    def __post_init__(self) -> None:
        if self.kind not in FUNCTIONS:
            raise ValueError(f"kind must be one of {', '.join(STANDARD + EXTRA)}; got {self.kind!r}")
        if self.severity not in SEVERITIES or isinstance(self.severity, bool):
            raise ValueError(f"severity must be 1, 2, 3, 4 or 5, got {self.severity!r}")

    @torch.no_grad()
    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The corrupted images, in [0, 1]; shape, dtype and device of `x`."""
        check_images(x, "common")
        # Keyed by the next number of each example's stream, which advances by one whatever a kind draws.
        own = Streams(0, self.kind, streams(rng, x).bits(1, x.device)[:, 0])
        function, values = FUNCTIONS[self.kind], parameters(self.kind, self.severity, *x.shape[-2:])
        wide = (x if x.dtype in (torch.float32, torch.float64) else x.float()).contiguous()
        size = max(1, _CHUNK // x[0].numel()) if len(x) and x.device.type == "cpu" else max(1, len(x))
        if len(x) <= size:
            return function(wide, values, own).to(x.dtype).contiguous() if len(x) else x.clone()
        z = torch.empty_like(x, memory_format=torch.contiguous_format)
        for part in (slice(start, start + size) for start in range(0, len(x), size)):
            z[part] = function(wide[part], values, own[part])
        return z
