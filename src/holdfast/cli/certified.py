"""What one certifier proved of one network, as a record for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import LedgerError

if TYPE_CHECKING:
    from holdfast.report.unfinished import Gap

CLEAN = "clean"


@dataclass(frozen=True)
class Certified:
    """What a certifier proved of a network.

    Args:
        run: directory of the run.
        weights: which of its weights.
        certificate: as the ledger names it.
        smoothed: whether it speaks of the network averaged over noise.
        clean: accuracy of the network itself with its interval; None if it has not run.
        summary: the row of `average_certified_radius`.
        curve: radius and certified accuracy with its interval, in order.
        refuted: what other checks of the run refute.
        left: what was not run.
        fine: certified radii above 0 and below `STEP`.
        warnings: that the network is at chance level, if it is.
    """

    run: Path
    weights: str
    certificate: str
    smoothed: bool
    clean: dict[str, float] | None
    summary: dict[str, Any]
    curve: Sequence[dict[str, float]]
    refuted: Sequence[dict[str, Any]]
    left: Sequence[Gap]
    fine: int = 0
    warnings: Sequence[str] = ()

    @classmethod
    def of(cls, run: Path, weights: str, certificate: str, radii: Sequence[float] | None) -> Certified:
        """Read it from the ledger of a run; without radii, round ones are shown."""
        import polars as pl

        from holdfast.report import read_run
        from holdfast.report.proofs import STEP
        from holdfast.report.unfinished import gaps
        from holdfast.results import accuracies
        from holdfast.results import certified_radii as analysis
        from holdfast.traits import NETWORK
        from holdfast.trust.chance import chance_warnings

        data = read_run(run)
        rows = data.rows.filter(pl.col("weights") == weights)
        mine = rows.filter(pl.col("check") == certificate)
        if mine.is_empty():
            raise LedgerError(f"{run}: nothing was certified within the budget; allow more time")
        (summary,) = analysis.average_certified_radius(mine).to_dicts()
        shown = analysis.round_radii(summary["largest"]) if radii is None else radii
        curve = analysis.certified_accuracy(mine, shown).sort("at")
        clean = accuracies(rows.filter(pl.col("check") == CLEAN)).select("accuracy", "low", "high").to_dicts()
        refuted = analysis.contradictions(rows).filter(pl.col("check") == certificate)
        return cls(
            run=run,
            weights=weights,
            certificate=certificate,
            smoothed=summary["certifies"] != NETWORK,
            clean=clean[0] if clean else None,
            summary=summary,
            curve=curve.select(pl.col("at").alias("radius"), "accuracy", "low", "high").to_dicts(),
            refuted=refuted.drop("run", "weights", "check").to_dicts(),
            left=[gap for gap in gaps(data) if gap.weights == weights and gap.check in (CLEAN, certificate)],
            fine=mine.filter((pl.col("radius") > 0) & (pl.col("radius") < STEP)).height,
            warnings=chance_warnings(rows),
        )

    def record(self) -> dict[str, Any]:
        """For machines."""
        summary = self.summary
        return {
            "run": str(self.run),
            "weights": self.weights,
            "certificate": self.certificate,
            "norm": summary["norm"],
            "smoothed": self.smoothed,
            "examples": summary["examples"],
            "network": self.clean,
            "at_chance": bool(self.warnings),
            "certified": self._accuracy(),
            "abstained": summary["abstained"],
            "average_radius": {"mean": summary["average"], "low": summary["low"], "high": summary["high"]},
            "largest_radius": summary["largest"],
            "below_8_bit": self.fine,
            "curve": list(self.curve),
            "samples": summary["queries"],
            "seconds": summary["seconds"],
            "refuted": list(self.refuted),
            "not_run": [{"what": gap.what, "examples": gap.examples} for gap in self.left],
        }

    def _accuracy(self) -> dict[str, float]:
        from holdfast.statistics import wilson

        correct, examples = self.summary["correct"], self.summary["examples"]
        ends = wilson(correct, examples)
        return {"accuracy": correct / examples, "low": ends.low, "high": ends.high}

    @property
    def checks(self) -> tuple[str, str]:
        """The checks that it is about."""
        return CLEAN, self.certificate
