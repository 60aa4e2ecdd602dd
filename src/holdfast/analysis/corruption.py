r"""Errors under common corruptions, by kind and severity, and their mean (mCE).

.. math:: \mathrm{CE}_c = \frac15 \sum_{s=1}^5 E_{c,s}, \qquad
          \mathrm{mCE} = \frac1{15} \sum_c \mathrm{CE}_c
          \quad\text{or}\quad \frac1{15} \sum_c \frac{\mathrm{CE}_c}{\mathrm{CE}_c^{\mathrm{ref}}}

The plain mean is what papers on CIFAR and Tiny-ImageNet call mCE; on ImageNet every kind is divided by the error of a
reference network, AlexNet. Severities that were not run are left out of the means, the same for all kinds.

Reference:
    Hendrycks, Dietterich, Benchmarking Neural Network Robustness to Common Corruptions and Perturbations, ICLR 2019,
    arXiv:1903.12261, section 4.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from holdfast.analysis.spread import spread
from holdfast.errors import RecipeError

ALEXNET = {
    "gaussian_noise": 0.886428, "shot_noise": 0.894468, "impulse_noise": 0.922640, "defocus_blur": 0.819880,
    "glass_blur": 0.826268, "motion_blur": 0.785948, "zoom_blur": 0.798360, "snow": 0.866816, "frost": 0.826572,
    "fog": 0.819324, "brightness": 0.564592, "contrast": 0.853204, "elastic_transform": 0.646056, "pixelate": 0.717840,
    "jpeg_compression": 0.606500,
}  # fmt: skip
"""Published errors of AlexNet on ImageNet-C, means over the severities."""

STANDARD = tuple(ALEXNET)
"""The 15 kinds that the mean is over."""

FAMILIES = {"common": "common corruptions", "stored": "stored corruptions", "bar": "C-bar"}
"""Methods that have kinds and severities, with what a report calls them."""

MCE = "mean corruption error"


@dataclass(frozen=True)
class Corrupted:
    """How one network fares under one family of corruptions.

    Args:
        run: its name.
        weights: which of its weights.
        family: a name of `FAMILIES`.
        errors: share of wrong answers by kind and severity.
        examples: how many.
        half: half of the 95 % interval of the mean error over all kinds and severities, as examples vary.
    """

    run: str
    weights: str
    family: str
    errors: Mapping[tuple[str, int], float]
    examples: int
    half: float

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that were run, in their published order."""
        there = dict.fromkeys(kind for kind, _ in self.errors)
        return tuple(sorted(there, key=lambda kind: STANDARD.index(kind) if kind in STANDARD else len(STANDARD)))

    @property
    def severities(self) -> tuple[int, ...]:
        """Those that were run on every kind."""
        return tuple(s for s in range(1, 6) if all((kind, s) in self.errors for kind in self.kinds))

    def of_kind(self, kind: str, severities: Sequence[int] | None = None) -> float:
        """Mean error of a kind, over the severities that every kind has or those given."""
        chosen = self.severities if severities is None else severities
        return sum(self.errors[kind, severity] for severity in chosen) / len(chosen)

    def mean(self, reference: Corrupted | Mapping[str, float] | None = None) -> float | None:
        """The mean corruption error over the standard kinds, or over all kinds of C-bar.

        Args:
            reference: errors to divide each kind's by: of another network, or `ALEXNET`.

        Returns:
            None where a kind is missing or no severity was run on all.
        """
        wanted = self.kinds if self.family == "bar" else STANDARD
        if not self.severities or not set(wanted) <= set(self.kinds):
            return None
        if reference is None:
            return sum(map(self.of_kind, wanted)) / len(wanted)
        if isinstance(reference, Corrupted):
            shared = [s for s in self.severities if s in reference.severities]
            if not shared or not set(wanted) <= set(reference.kinds):
                return None
            pairs = [(self.of_kind(kind, shared), reference.of_kind(kind, shared)) for kind in wanted]
        else:
            pairs = [(self.of_kind(kind), reference[kind]) for kind in wanted]
        if not all(base > 0 for _, base in pairs):
            raise RecipeError(
                "mean corruption error: the reference makes no error on some kind, so that nothing divides"
            )
        return sum(error / base for error, base in pairs) / len(pairs)


def corrupted(rows: pl.DataFrame) -> tuple[Corrupted, ...]:
    """The errors of every run, weights and family in a ledger."""
    chosen = rows.filter(pl.col("method").is_in(list(FAMILIES)))
    if chosen.is_empty():
        return ()
    found = []
    for (run, weights, family), part in chosen.group_by("run", "weights", "method", maintain_order=True):
        errors = {}
        for (params,), check in part.group_by("params", maintain_order=True):
            said = json.loads(str(params))
            errors[said["kind"], int(said["severity"])] = 1 - float(check["correct"].mean())  # type: ignore[arg-type]
        per_example = part.group_by("example").agg(wrong=(~pl.col("correct")).mean())["wrong"].to_list()
        names = (str(run), str(weights), str(family))
        found.append(Corrupted(*names, errors, len(per_example), spread(per_example).half))
    return tuple(found)
