"""What one attack did to one network, as a record for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.show.numbers import short

if TYPE_CHECKING:
    import polars as pl

    from holdfast.report.shares import Share
    from holdfast.report.unfinished import Gap

CLEAN = "clean"


@dataclass(frozen=True)
class Outcome:
    """What an attack did to a network.

    Args:
        run: directory of the run.
        weights: which of its weights.
        attack: as the ledger names it.
        shares: accuracy on clean images and under the attack; None where it has not run.
        numbers: examples, broken, distances of successes, queries and seconds.
        components: what each component of a composed attack did.
        left: what was not run.
        warnings: that the network is at chance level, if it is.
    """

    run: Path
    weights: str
    attack: str
    shares: dict[str, Share | None]
    numbers: dict[str, Any]
    components: Sequence[dict[str, Any]]
    left: Sequence[Gap]
    warnings: Sequence[str] = ()

    @classmethod
    def of(cls, run: Path, weights: str, attack: str) -> Outcome:
        """Read it from the ledger of a run."""
        import polars as pl

        from holdfast.report import read_run
        from holdfast.report.shares import share_of
        from holdfast.report.unfinished import gaps
        from holdfast.results import accuracies, yields
        from holdfast.trust.chance import chance_warnings

        data = read_run(run)
        rows = data.rows.filter((pl.col("weights") == weights) & pl.col("check").is_in([CLEAN, attack]))
        shares = {row["check"]: share_of(row) for row in accuracies(rows).iter_rows(named=True)}
        mine = rows.filter(pl.col("check") == attack)
        left = [gap for gap in gaps(data) if gap.weights == weights and gap.check in (CLEAN, attack)]
        return cls(
            run=run,
            weights=weights,
            attack=attack,
            shares={check: shares.get(check) for check in (CLEAN, attack)},
            numbers=_numbers(mine, rows.filter((pl.col("check") == CLEAN) & ~pl.col("correct"))["example"]),
            components=yields(mine).drop("run", "weights", "check").to_dicts(),
            left=left,
            warnings=chance_warnings(rows),
        )

    def record(self) -> dict[str, Any]:
        """For machines."""
        return {
            "run": str(self.run),
            "weights": self.weights,
            "attack": self.attack,
            "clean": self._accuracy(CLEAN),
            "attacked": self._accuracy(self.attack),
            "at_chance": bool(self.warnings),
            **self.numbers,
            "yield": list(self.components),
            "not_run": [{"what": gap.what, "examples": gap.examples} for gap in self.left],
        }

    def _accuracy(self, check: str) -> dict[str, Any] | None:
        """An accuracy with its interval; null, with what is known of it, where the check is unfinished."""
        share = self.shares[check]
        if share is None:
            return None
        whole = not any(gap.check == check for gap in self.left)
        bound = {"at_most": share.value} if share.bound else {}
        return {"accuracy": share.value if whole else None, **bound, "low": share.low, "high": share.high}

    @property
    def checks(self) -> tuple[str, str]:
        """The checks that it is about."""
        return CLEAN, self.attack

    @property
    def distance(self) -> str:
        """How many images were broken, and how far they had to be changed."""
        text = f"{self.numbers['broken']} images broken"
        if (distance := self.numbers["distance"]) is None:
            return text
        far = f"mean {short(distance['mean'])}, median {short(distance['median'])}"
        return f"{text}; {distance['norm']} distance {far}"


def _numbers(rows: pl.DataFrame, wrong: pl.Series) -> dict[str, Any]:
    """Counts and sums; successes are examples that only the attack made wrong."""
    import polars as pl

    lost = rows.filter(~pl.col("correct") & (pl.col("by").is_null() | (pl.col("by") != CLEAN)))
    broken = lost.filter(~pl.col("example").is_in(wrong.implode()))
    distance = None
    if len(broken):
        far = broken["distance"]
        distance = {"norm": broken["norm"][0], "mean": far.mean(), "median": far.median()}
    return {
        "examples": len(rows),
        "broken": len(broken),
        "distance": distance,
        "queries": int(rows["queries"].sum()),
        "seconds": float(rows["seconds"].sum()),
    }
