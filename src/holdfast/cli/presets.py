"""What the presets of `--checks` hold and cost, for `--help`; without torch, so that help is instant."""

from __future__ import annotations

from dataclasses import dataclass

PASS, GRADIENT = 5.8, 10.9
"""Milliseconds of processor time of `resnet18` on one 32x32 image, without and with the image's gradient.

By `benchmarks/presets.py`, with one thread of one core.
"""


@dataclass(frozen=True)
class Preset:
    """A preset in words and numbers.

    Args:
        holds: what it consists of.
        passes: forward passes for an image that nothing breaks, without a gradient.
        gradients: and those with one.
        images: milliseconds for changing an image, where that counts.
        limits: what its strongest check leaves open; empty where nothing stronger is usual.
    """

    holds: str
    passes: int
    gradients: int
    images: float = 0.0
    limits: str = ""

    @property
    def time(self) -> str:
        """For 1,000 images of a ResNet-18, at most."""
        minutes = (self.passes * PASS + self.gradients * GRADIENT + self.images) / 60
        return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.0f} h"


PRESETS = {
    "quick": Preset(
        "clean; noise 0.1; FGSM and PGD-10 at linf 8/255", 6, 11,
        limits="its strongest check is PGD with 10 steps from one start: a first look, and an upper bound",
    ),
    "standard": Preset(
        "clean; noise; FGSM; PGD-20 at linf 2, 4, 8/255 and l2 0.25, 0.5, 1; PGD-50 at l1 12", 27, 171,
        limits="its strongest check is PGD with 20 steps from one start on the cross-entropy: an upper bound of robust "
        "accuracy, which AutoAttack (--checks autoattack) often lowers",
    ),
    "full": Preset(
        "clean; more noise; PGD-50 with 5 restarts at 12 budgets in three norms, once with the DLR loss", 98, 3504,
        limits="its strongest check is PGD with 50 steps and 5 restarts, white-box only: an upper bound of robust "
        "accuracy, which AutoAttack (--checks autoattack) may lower",
    ),
    "autoattack-linf": Preset("clean; AutoAttack at linf 8/255", 5019, 1910),
    "autoattack-l2": Preset("clean; AutoAttack at l2 0.5", 5019, 1910),
    "autoattack": Preset("both of these", 10037, 3820),
    "common": Preset("clean; 15 kinds of common corruptions at 5 severities", 76, 0, images=3.0),
}  # fmt: skip


HOW = "(counted where nothing breaks, so at most; times are those of 32x32 images on one CPU core):"


def table() -> str:
    """The presets for `--help`, one line each."""
    width = max(map(len, PRESETS))
    lines = [
        f"  {name:{width}}  {one.passes + one.gradients:>6,} passes, {one.time:>6}: {one.holds}"
        for name, one in PRESETS.items()
    ]
    head = ["Presets of --checks, with passes per image and time for 1,000 images of a ResNet-18", HOW]
    return "\n".join(["\b", *head, *lines])


def limits(checks: str | None) -> str | None:
    """What to say beside the results of a preset."""
    one = PRESETS.get(checks or "")
    return f"{checks}: {one.limits}" if one and one.limits else None
