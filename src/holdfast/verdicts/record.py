"""One verdict, and the flags there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Level = Literal["pass", "warn", "fail", "not tested"]
Evidence = Literal["model", "attacks", "ledger"]

FLAGS = {
    "input-range": "Inputs lie in [0, 1]",
    "train-mode": "Layers are in evaluation mode",
    "randomness": "The forward pass is deterministic",
    "batch": "An answer depends on its own image alone",
    "probabilities": "The outputs are logits",
    "gradients": "The loss has a gradient",
    "confidence": "A step along the gradient takes more confidence than random noise",
    "eps": "A larger eps breaks more",
    "unbounded": "An unbounded attack breaks everything",
    "convergence": "More steps or restarts break no more",
    "black-box": "Black-box attacks break no more than white-box ones",
    "transfer": "Transferred attacks break no more than white-box ones",
}
"""What must hold for the number of an attack to mean something, in the order of testing."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether one condition of an honest number holds.

    Args:
        flag: which condition, a key of `FLAGS`.
        level: pass, warn, fail, or not tested.
        finding: what was seen, in one sentence.
        remedy: what to do about it; empty where nothing is wrong.
        evidence: where it was seen: in the model without an attack, in the audit's attacks, or in the ledger.
        value: the number that was judged, None where there is none.
        limit: the number it was judged by.
    """

    flag: str
    level: Level
    finding: str
    remedy: str = ""
    evidence: Evidence
    value: float | None = None
    limit: float | None = None

    def __post_init__(self) -> None:
        if self.flag not in FLAGS:
            raise ValueError(f"flag: expected one of {', '.join(FLAGS)}; got {self.flag!r}")
        if self.level not in get_args(Level) or self.evidence not in get_args(Evidence):
            raise ValueError(f"expected a known level and evidence, got {self.level!r} and {self.evidence!r}")
        if self.level in ("warn", "fail") and not self.remedy:
            raise ValueError(f"{self.flag}: a verdict of {self.level} needs a remedy")

    @property
    def condition(self) -> str:
        """What should hold, in words."""
        return FLAGS[self.flag]


def spoken(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """In the order of the flags, without those not tested on a flag that other evidence has tested."""
    given = list(verdicts)
    tested = {verdict.flag for verdict in given if verdict.level != "not tested"}
    left = [verdict for verdict in given if verdict.level != "not tested" or verdict.flag not in tested]
    return sorted(left, key=lambda verdict: list(FLAGS).index(verdict.flag))


def failed(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Those that make a number meaningless."""
    return [verdict for verdict in verdicts if verdict.level == "fail"]
