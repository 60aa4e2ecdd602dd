"""A verdict on one condition of an honest number, and the flags: which conditions there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Level = Literal["pass", "warn", "fail", "not tested"]
Evidence = Literal["model", "attacks", "ledger"]

FLAGS = {
    "chance": "The network answers better than by guessing",
    "input-range": "Inputs lie in [0, 1]",
    "scaling": "Inputs are scaled as in training",
    "train-mode": "Layers are in evaluation mode",
    "randomness": "The forward pass is deterministic",
    "batch": "An answer depends on its own image alone",
    "probabilities": "The outputs are logits",
    "gradients": "The loss has a gradient",
    "confidence": "A step along the gradient takes more confidence than random noise",
    "eps": "A larger eps breaks more",
    "unbounded": "An unbounded attack breaks everything",
    "convergence": "More steps or restarts break no more",
    "losses": "Other losses and targeted attacks break no more",
    "parts": "Attacks on parts of the network break no more",
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


def judged(
    flag: str, level: Level, finding: str, *, remedy: str, evidence: Evidence, value: float | None, limit: float | None
) -> Verdict:
    """A verdict that states the remedy only where something is wrong."""
    needed = remedy if level in ("warn", "fail") else ""
    return Verdict(flag=flag, level=level, finding=finding, remedy=needed, evidence=evidence, value=value, limit=limit)


CAUSES = frozenset({"chance", "input-range", "scaling", "train-mode"})
"""Conditions of a network at chance level that are read all the same: they may be the reason."""


def meaningless(flag: str, evidence: Evidence) -> Verdict:
    """The verdict on another condition of a network at chance level: nothing can be concluded from it."""
    return Verdict(
        flag=flag,
        level="not tested",
        finding="not interpreted: the network is at chance level",
        remedy="raise the accuracy on clean images first",
        evidence=evidence,
    )


def displayed(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts that a reader is shown, in the order of the flags.

    A flag that no evidence has tested has one line, and one that some evidence has tested only lines of that. Of a
    network at chance level the conditions that presuppose a working one are not interpreted.
    """
    given = list(verdicts)
    if any(verdict.flag == "chance" and verdict.level == "fail" for verdict in given):
        given = [one if one.flag in CAUSES else meaningless(one.flag, one.evidence) for one in given]
    tested = [verdict for verdict in given if verdict.level != "not tested"]
    first = {verdict.flag: verdict for verdict in reversed(given)}
    untested = [verdict for flag, verdict in first.items() if flag not in {one.flag for one in tested}]
    return sorted([*tested, *untested], key=lambda verdict: list(FLAGS).index(verdict.flag))


def failed(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Those that make a number meaningless."""
    return [verdict for verdict in verdicts if verdict.level == "fail"]
