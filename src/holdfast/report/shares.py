"""How an accuracy is said: a number, or an upper bound while something that could lower it has not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.report.numbers import SPACE, interval, percent, several
from holdfast.statistics import wilson


@dataclass(frozen=True)
class Share:
    """An accuracy with its 95 % interval.

    Args:
        value: share of the examples that are right so far.
        low: lower end of the interval, whatever becomes of the examples that wait.
        high: upper end.
        waiting: examples that count as right although a component of the attack has not run on them.
        absent: checks that could lower the number and have not run at all.
    """

    value: float
    low: float
    high: float
    waiting: int = 0
    absent: int = 0

    @property
    def bound(self) -> bool:
        """Whether the value is only an upper bound."""
        return bool(self.waiting or self.absent)

    @property
    def text(self) -> str:
        """The number: 63.0 %, or at most 63.0 %."""
        return f"at{SPACE}most{SPACE}{percent(self.value)}" if self.bound else percent(self.value)

    @property
    def interval(self) -> str:
        """The interval in brackets."""
        return interval(self.low, self.high)

    @property
    def note(self) -> str:
        """The interval, and why the number is only a bound."""
        reasons = [f"{several(self.waiting, 'example')} waiting"] if self.waiting else []
        reasons += [f"{several(self.absent, 'check')} not run"] if self.absent else []
        return ", ".join([self.interval, *reasons])


def share_of(row: Mapping[str, Any], *, absent: int = 0) -> Share:
    """The accuracy in a row of `results.accuracies` or `analysis.worst_case.worst_case`.

    The interval of a bound reaches from that of the worst outcome, in which all waiting examples fall, to that of the
    best; with checks that have not run at all, everything may fall. Where nothing is right, nothing can fall.
    """
    correct, examples, waiting = row["correct"], row["examples"], row["unsettled"]
    absent = absent if correct else 0
    low = wilson(correct - waiting, examples).low if waiting else row["low"]
    return Share(row["accuracy"], 0.0 if absent else low, row["high"], waiting, absent)
