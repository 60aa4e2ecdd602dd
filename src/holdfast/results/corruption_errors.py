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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from holdfast.errors import RecipeError
from holdfast.json_text import parse_json_object
from holdfast.results.ledger import is_graded
from holdfast.statistics import spread

ALEXNET = {
    "gaussian_noise": 0.886428, "shot_noise": 0.894468, "impulse_noise": 0.922640, "defocus_blur": 0.819880,
    "glass_blur": 0.826268, "motion_blur": 0.785948, "zoom_blur": 0.798360, "snow": 0.866816, "frost": 0.826572,
    "fog": 0.819324, "brightness": 0.564592, "contrast": 0.853204, "elastic_transform": 0.646056, "pixelate": 0.717840,
    "jpeg_compression": 0.606500,
}  # fmt: skip
"""Published errors of AlexNet on ImageNet-C, means over the severities."""

STANDARD = tuple(ALEXNET)
"""The 15 kinds that the mean is over."""

BAR = (
    "blue_noise_sample", "brownish_noise", "checkerboard_cutout", "inverse_sparkles", "pinch_and_twirl", "ripple",
    "circular_motion_blur", "lines", "sparkles", "transverse_chromatic_abberation",
)  # fmt: skip
"""The ten kinds of C-bar, which have a mean of their own."""

ALL = (1, 2, 3, 4, 5)
MCE = "mean corruption error"


@dataclass(frozen=True)
class Corrupted:
    """How one network fares under one family of corruptions.

    Args:
        run: its name.
        weights: which of its weights.
        family: name of the method.
        called: what people call it.
        source: directory of stored ones, else empty.
        errors: share of wrong answers by kind and severity, over the examples that all of these saw.
        examples: how many.
        half: half of the 95 % interval of the mean error, as examples vary; None for one example.
    """

    run: str
    weights: str
    family: str
    called: str
    source: str
    errors: Mapping[tuple[str, int], float]
    examples: int
    half: float | None

    @property
    def title(self) -> str:
        """What a report calls the family."""
        return f"{self.called} ({self.source})" if self.source else self.called

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those that were run, in their published order."""
        return _ordered(kind for kind, _ in self.errors)

    @property
    def severities(self) -> tuple[int, ...]:
        """Those that were run on every kind that the mean is over, as far as it was run."""
        return _shared(self.errors, self.family)

    def of_kind(self, kind: str, severities: Sequence[int] | None = None) -> float:
        """Mean error of a kind, over the shared severities that it has, or over those given."""
        chosen = [s for s in self.severities if (kind, s) in self.errors] if severities is None else severities
        return sum(self.errors[kind, severity] for severity in chosen) / len(chosen)

    def by_kind(self) -> dict[str, float]:
        """Mean error of each kind that was run in a shared severity."""
        measured = [kind for kind in self.kinds if any((kind, s) in self.errors for s in self.severities)]
        return {kind: self.of_kind(kind) for kind in measured}

    def mean(self, reference: Corrupted | Mapping[str, float] | None = None) -> float | None:
        """The mean corruption error over the standard kinds, or over those of C-bar.

        Args:
            reference: errors to divide each kind's by: of another network, or `ALEXNET`.

        Returns:
            None where a kind is missing or no severity was run on all; beside `ALEXNET`, whose errors are means over
            all five, also where one of these is missing.
        """
        wanted = _averaged(self.family, self.kinds)
        if not self.severities or not set(wanted) <= set(self.kinds):
            return None
        if reference is None:
            return sum(map(self.of_kind, wanted)) / len(wanted)
        pairs = self._beside(reference, wanted)
        if not all(base > 0 for _, base in pairs):
            raise RecipeError(f"{MCE}: the reference makes no error on some kind, so that nothing divides")
        return sum(error / base for error, base in pairs) / len(pairs) if pairs else None

    def _beside(self, reference: Corrupted | Mapping[str, float], wanted: Sequence[str]) -> list[tuple[float, float]]:
        """The error of each kind with that of the reference; none where the two cannot be compared."""
        if isinstance(reference, Corrupted):
            shared = [s for s in self.severities if s in reference.severities]
            if not shared or not set(wanted) <= set(reference.kinds):
                return []
            return [(self.of_kind(kind, shared), reference.of_kind(kind, shared)) for kind in wanted]
        if self.severities != ALL or not set(wanted) <= set(reference):
            return []
        return [(self.of_kind(kind), reference[kind]) for kind in wanted]


WANTED = {"common": STANDARD, "stored": STANDARD, "bar": BAR}
"""The kinds that the mean of a published family is over."""


def _averaged(family: str, kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds that the mean of a family is over: the published ones, or all that were run."""
    return WANTED.get(family, tuple(sorted(kinds)))


def grade_of(params: str) -> dict[str, Any]:
    """Kind, severity and source (a directory, or empty) of a graded check, from its parameters in the ledger."""
    fields = parse_json_object(params)  # with kind and severity, as reading a ledger makes sure
    return {"kind": fields["kind"], "severity": fields["severity"], "source": str(fields.get("path", ""))}


def corrupted(rows: pl.DataFrame) -> tuple[Corrupted, ...]:
    """The errors of every run, weights and family in a ledger; of stored ones for every directory."""
    chosen = rows.filter(is_graded())
    if chosen.is_empty():
        return ()
    grades = {params: grade_of(params) for params in chosen["params"].unique()}
    added = {name: {params: grade[name] for params, grade in grades.items()} for name in ("kind", "severity", "source")}
    chosen = chosen.with_columns(**{name: pl.col("params").replace_strict(of) for name, of in added.items()})
    groups = chosen.group_by("run", "weights", "method", "family", "source", maintain_order=True)
    return tuple(_corrupted(part, *map(str, key)) for key, part in groups)


def _corrupted(rows: pl.DataFrame, run: str, weights: str, family: str, called: str, source: str) -> Corrupted:
    seen = pl.col("params").n_unique().over("example")
    rows = rows.filter(seen == pl.col("params").n_unique())  # examples that all checks saw
    errors = {
        (str(kind), int(severity)): float(wrong)
        for kind, severity, wrong in rows.group_by("kind", "severity", maintain_order=True)
        .agg(wrong=(~pl.col("correct")).mean())
        .iter_rows()
    }
    averaged = rows
    kinds = {kind for kind, _ in errors}
    if set(wanted := _averaged(family, kinds)) <= kinds:
        averaged = rows.filter(pl.col("kind").is_in(wanted) & pl.col("severity").is_in(_shared(errors, family)))
    per_example = averaged.group_by("example").agg(wrong=(~pl.col("correct")).mean())["wrong"].to_list()
    half = spread(per_example).half if per_example else None
    return Corrupted(run, weights, family, called, source, errors, rows["example"].n_unique(), half)


def _shared(errors: Mapping[tuple[str, int], float], family: str) -> tuple[int, ...]:
    """Severities that all kinds of the mean have, or all kinds where none is of the mean."""
    kinds = {kind for kind, _ in errors}
    counted = kinds & set(_averaged(family, kinds)) or kinds
    return tuple(s for s in ALL if kinds and all((kind, s) in errors for kind in counted))


def _ordered(kinds: Iterable[str]) -> tuple[str, ...]:
    order = (*STANDARD, *BAR)
    return tuple(sorted(dict.fromkeys(kinds), key=lambda kind: order.index(kind) if kind in order else len(order)))
