"""Conditions of the images."""

from __future__ import annotations

from torch import Tensor

from holdfast.verdicts import Level, Verdict

DARK = 2 / 255
"""Images whose brightest value is below this were probably divided by 255 twice."""


def input_range(x: Tensor) -> Verdict:
    """Do the images lie in [0, 1], and do they use it?"""
    low, high = float(x.min()), float(x.max())
    outside = float(((x < 0) | (x > 1) | x.isnan()).double().mean())
    finding = f"values from {low:zg} to {high:zg}, {100 * outside:.1f} % of them outside of [0, 1]"
    remedy = ""
    if outside:
        remedy = "scale images to [0, 1] and let the network normalise them (--mean, --std): eps is in these units"
    elif high < DARK:
        remedy = "the images are almost black: check that they were not divided by 255 twice"
    level: Level = "fail" if outside else "warn" if remedy else "pass"
    return Verdict(
        flag="input-range", level=level, finding=finding, remedy=remedy, evidence="model", value=outside, limit=0.0
    )
