"""The published parameters of every kind and severity, and the rule for images of other sizes.

The numbers are those of the scripts with which the authors made CIFAR-10-C, Tiny-ImageNet-C and ImageNet-C. The
function of the same name explains each number.

**Sizes.** The side of an image is the shorter of height and width. The table used is that of 32, 64 or 224 pixels, the
nearest by ratio: 32 up to 45 pixels, 64 up to 119, 224 from there on. Lengths in pixels grow in proportion to the side,
with one exception: images below 32 pixels keep the lengths of 32, since a blur by a fraction of a pixel has no effect.
`elastic_transform` is published in shares of the side and scales with it down to the smallest image. Everything else
(amounts of noise, weights, zoom factors, share of pixels kept, JPEG quality, iterations) does not depend on the size.

Reference:
    Hendrycks, Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019,
    arXiv:1903.12261; github.com/hendrycks/robustness, ImageNet-C/create_c: make_cifar_c.py, make_tinyimagenet_c.py,
    make_imagenet_c.py.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

Standard = Literal[
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
]
Extra = Literal["speckle_noise", "gaussian_blur", "spatter", "saturate"]
Kind = Literal[Standard, Extra]

STANDARD: tuple[Kind, ...] = get_args(Standard)
"""The fifteen kinds that the mean corruption error is an average of."""
EXTRA: tuple[Kind, ...] = get_args(Extra)
"""Four more, published for choosing hyper-parameters."""
SEVERITIES = (1, 2, 3, 4, 5)

Parameters = tuple[float, ...]
Table = dict[Kind, tuple[Parameters, Parameters, Parameters, Parameters, Parameters]]

CIFAR: Table = {
    "gaussian_noise": ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)),
    "shot_noise": ((500,), (250,), (100,), (75,), (50,)),
    "impulse_noise": ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    "frost": ((1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "brightness": ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)),
    "contrast": ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)),
    "elastic_transform": ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
    "pixelate": ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)),
    "jpeg_compression": ((80,), (65,), (58,), (50,), (40,)),
    "speckle_noise": ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,)),
    "gaussian_blur": ((0.4,), (0.6,), (0.7,), (0.8,), (1,)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.3, 1, 0.69, 0.5, 0),
        (0.65, 0.1, 0.7, 0.69, 0, 0.6),
        (0.65, 0.1, 0.5, 0.68, 0, 0.6),
    ),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}

TINY_IMAGENET: Table = {
    "gaussian_noise": ((0.04,), (0.08,), (0.12,), (0.15,), (0.18,)),
    "shot_noise": ((250,), (100,), (50,), (30,), (15,)),
    "impulse_noise": ((0.01,), (0.02,), (0.05,), (0.08,), (0.14,)),
    "defocus_blur": ((0.5, 0.6), (1, 0.1), (1.5, 0.1), (2.5, 0.01), (3, 0.1)),
    "glass_blur": ((0.1, 1, 1), (0.5, 1, 1), (0.6, 1, 2), (0.7, 2, 1), (0.9, 2, 2)),
    "motion_blur": ((10, 1), (10, 1.5), (10, 2), (10, 2.5), (12, 3)),
    "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.8),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.8),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.7),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.65),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.6),
    ),
    "frost": ((1, 0.3, 0.3), (0.9, 0.4, 0.3), (0.8, 0.45, 0.3), (0.75, 0.5, 0.3), (0.7, 0.55, 0.3)),
    "fog": ((0.4, 3), (0.7, 3), (1, 2.5), (1.5, 2), (2, 1.75)),
    "brightness": ((0.1,), (0.2,), (0.3,), (0.4,), (0.5,)),
    "contrast": ((0.4,), (0.3,), (0.2,), (0.1,), (0.05,)),
    "elastic_transform": ((0, 0, 0.08), (0.05, 0.3, 0.06), (0.1, 0.08, 0.06), (0.1, 0.03, 0.03), (0.16, 0.03, 0.02)),
    "pixelate": ((0.9,), (0.8,), (0.7,), (0.6,), (0.5,)),
    "jpeg_compression": ((65,), (58,), (50,), (40,), (25,)),
    "speckle_noise": ((0.15,), (0.2,), (0.25,), (0.3,), (0.35,)),
    "gaussian_blur": ((0.5,), (0.75,), (1,), (1.25,), (1.5,)),
    "spatter": (
        (0.62, 0.1, 0.7, 0.7, 0.6, 0),
        (0.65, 0.1, 0.8, 0.7, 0.6, 0),
        (0.65, 0.3, 1, 0.69, 0.6, 0),
        (0.65, 0.1, 0.7, 0.68, 0, 0.6),
        (0.65, 0.1, 0.5, 0.67, 0, 0.6),
    ),
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (30, 0.2)),
}

_WIDE = 244 / 224
"""The ImageNet script multiplies its shares by 244, an error for 224 that its authors kept."""

IMAGENET: Table = {
    "gaussian_noise": ((0.08,), (0.12,), (0.18,), (0.26,), (0.38,)),
    "shot_noise": ((60,), (25,), (12,), (5,), (3,)),
    "impulse_noise": ((0.03,), (0.06,), (0.09,), (0.17,), (0.27,)),
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "brightness": ((0.1,), (0.2,), (0.3,), (0.4,), (0.5,)),
    "contrast": ((0.4,), (0.3,), (0.2,), (0.1,), (0.05,)),
    "elastic_transform": (
        (2 * _WIDE, 0.7 * _WIDE, 0.1 * _WIDE),
        (2 * _WIDE, 0.08 * _WIDE, 0.2 * _WIDE),
        (0.05 * _WIDE, 0.01 * _WIDE, 0.02 * _WIDE),
        (0.07 * _WIDE, 0.01 * _WIDE, 0.02 * _WIDE),
        (0.12 * _WIDE, 0.01 * _WIDE, 0.02 * _WIDE),
    ),
    "pixelate": ((0.6,), (0.5,), (0.4,), (0.3,), (0.25,)),
    "jpeg_compression": ((25,), (18,), (15,), (10,), (7,)),
    "speckle_noise": ((0.15,), (0.2,), (0.35,), (0.45,), (0.6,)),
    "gaussian_blur": ((1,), (2,), (3,), (4,), (6,)),
    "spatter": (
        (0.65, 0.3, 4, 0.69, 0.6, 0),
        (0.65, 0.3, 3, 0.68, 0.6, 0),
        (0.65, 0.3, 2, 0.68, 0.5, 0),
        (0.65, 0.3, 1, 0.65, 0, 1.5),
        (0.67, 0.4, 1, 0.65, 0, 1.5),
    ),
    "saturate": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
}

TABLES: dict[int, Table] = {32: CIFAR, 64: TINY_IMAGENET, 224: IMAGENET}
"""By the side of the images for which they were made."""

LENGTHS: dict[Kind, tuple[int, ...]] = {
    "defocus_blur": (0, 1),
    "glass_blur": (0, 1),
    "motion_blur": (0, 1),
    "snow": (2, 4, 5),
    "frost": (2,),
    "gaussian_blur": (0,),
    "spatter": (2, 5),
}
"""Which parameters are lengths in pixels and grow with the image."""


def table_side(height: int, width: int) -> int:
    """Side of the images whose table is used: the nearest by ratio."""
    side = min(height, width)
    return min(TABLES, key=lambda published: abs(math.log(side / published)))


def parameters(kind: Kind, severity: int, height: int, width: int) -> Parameters:
    """The numbers for images of this size, lengths in pixels."""
    side, published = min(height, width), table_side(height, width)
    row = TABLES[published][kind][severity - 1]
    if kind == "elastic_transform":
        return tuple(side * share for share in row)
    scale = max(side, min(TABLES)) / published
    return tuple(scale * value if place in LENGTHS.get(kind, ()) else value for place, value in enumerate(row))
