"""How an accuracy is written: a number, or an upper bound while something that could lower it has not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.show.numbers import SPACE, interval, percent, several
from holdfast.show.table import Cell
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
        not_attacked: examples that count as right although the attack could not run on them.
        reason: why it could not.
    """

    value: float
    low: float
    high: float
    waiting: int = 0
    absent: int = 0
    not_attacked: int = 0
    reason: str = ""

    @property
    def bound(self) -> bool:
        """Whether the value is only an upper bound."""
        return bool(self.waiting or self.absent or self.not_attacked)

    @property
    def text(self) -> str:
        """The number: 63.0 %, or at most 63.0 %."""
        return f"at{SPACE}most{SPACE}{percent(self.value)}" if self.bound else percent(self.value)

    @property
    def interval(self) -> str:
        """The interval in brackets."""
        return interval(self.low, self.high)

    def cell(self, note: str = "") -> Cell:
        """The number with its interval, which is drawn as well; a bound is no number for machines."""
        return Cell(
            self.text, ", ".join(filter(None, (self.note, note))), span=(self.value, self.low, self.high),
            value=None if self.bound else self.value,
        )  # fmt: skip

    @property
    def note(self) -> str:
        """The interval, and why the number is only a bound."""
        reasons = [f"{several(self.waiting, 'example')} waiting"] if self.waiting else []
        reasons += (
            [f"{several(self.not_attacked, 'example')} not attacked ({self.reason})"] if self.not_attacked else []
        )
        reasons += [f"{several(self.absent, 'check')} not run"] if self.absent else []
        return ", ".join([self.interval, *reasons])


def share_of(row: Mapping[str, Any], *, absent: int = 0) -> Share:
    """The accuracy in a row of `results.accuracies` or `results.worst_case.worst_case`.

    The interval of a bound reaches from that of the worst outcome, in which all examples break that wait or could not
    be attacked, to that of the best; with checks that have not run at all, every example may break. Where nothing is
    right, nothing can.
    """
    correct, examples, unsettled = row["correct"], row["examples"], row["unsettled"]
    absent, missing = absent if correct else 0, row["not_attacked"]
    low = wilson(correct - unsettled, examples).low if unsettled else row["low"]
    low = 0.0 if absent else low
    return Share(row["accuracy"], low, row["high"], unsettled - missing, absent, missing, row["reason"])


def counted_share(number: int, examples: int) -> Share:
    """So many of the examples, with Wilson's interval."""
    ends = wilson(number, examples)
    return Share(number / examples, ends.low, ends.high)


def ends_of(shares: Sequence[Share]) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Values of a curve, and the lower and upper ends of their intervals."""
    return tuple(s.value for s in shares), tuple(s.low for s in shares), tuple(s.high for s in shares)
