"""The kinds of C-bar, and the published level of each severity."""

from __future__ import annotations

from typing import Literal, get_args

Kind = Literal[
    "blue_noise_sample",
    "brownish_noise",
    "checkerboard_cutout",
    "inverse_sparkles",
    "pinch_and_twirl",
    "ripple",
    "circular_motion_blur",
    "lines",
    "sparkles",
    "transverse_chromatic_abberation",
]
"""Names and spelling are the published ones, so that results can be compared by name."""

KINDS: tuple[Kind, ...] = get_args(Kind)

SEVERITIES = (1, 2, 3, 4, 5)

SIDE = 32
"""Pixels of a side for which the levels were chosen."""

LEVELS: dict[Kind, tuple[float, float, float, float, float]] = {
    "blue_noise_sample": (0.7, 1.4, 2.1, 3.5, 4.2),
    "brownish_noise": (2.5, 4.0, 5.5, 6.5, 7.0),
    "checkerboard_cutout": (1.0, 2.0, 3.0, 4.0, 5.0),
    "inverse_sparkles": (1.0, 1.5, 2.5, 4.5, 5.0),
    "pinch_and_twirl": (5.5, 6.0, 6.5, 8.5, 10.0),
    "ripple": (5.5, 6.0, 6.5, 7.5, 8.0),
    "circular_motion_blur": (2.8, 3.6, 4.4, 5.2, 6.0),
    "lines": (0.5, 1.0, 1.5, 2.0, 2.5),
    "sparkles": (0.7, 3.5, 5.6, 6.3, 7.0),
    "transverse_chromatic_abberation": (1.0, 2.0, 5.0, 9.0, 10.0),
}
r"""The level :math:`s` of severities 1 to 5 in CIFAR-10-C-bar, where 10 was meant as the strongest. ImageNet-C-bar has
five of these kinds at other levels; here images of all sizes get the levels of CIFAR."""
