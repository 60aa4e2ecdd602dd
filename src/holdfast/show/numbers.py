"""How numbers are written on the page: one way for each kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

SPACE = "\u00a0"
MISSING = "not recorded"


def percent(share: float) -> str:
    """A share with one digit after the point: 97.2 %."""
    return f"{100 * share:z.1f}{SPACE}%"


def interval(low: float, high: float) -> str:
    """A 95 % interval of a share, in percent: [96.0, 98.1]."""
    return f"[{100 * low:z.1f},{SPACE}{100 * high:z.1f}]"


def points(difference: float) -> str:
    """A difference of shares in percentage points, with an arrow and a sign so that colour is not needed."""
    value = round(100 * difference, 1)
    if value == 0:
        return f"={SPACE}0.0"
    return f"▲{SPACE}+{value:.1f}" if value > 0 else f"▼{SPACE}−{-value:.1f}"


def p_value(value: float) -> str:
    """A p-value with three digits, or that it is smaller."""
    return f"<{SPACE}0.001" if value < 0.001 else f"{value:.3f}"


def count(value: float) -> str:
    """A whole number with its thousands apart."""
    return f"{value:z,.0f}".replace(",", "\u202f")


def counts(values: Sequence[int]) -> str:
    """One count, or the range when they differ."""
    low, high = min(values), max(values)
    return count(low) if low == high else f"{count(low)} to {count(high)}"


def several(value: int, noun: str) -> str:
    """A count of things: 1 check, 12 checks."""
    return f"{count(value)} {noun}{'' if value == 1 else 's'}"


def decimal(value: float | None, digits: int = 1) -> str:
    """A plain number with a fixed count of digits after the point."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:z.{digits}f}"


def short(value: object) -> str:
    """A number with four significant digits, anything else as it prints."""
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:z.4g}"


def rounded(value: float) -> float:
    """A number with four significant digits, for charts and records: more cannot be seen."""
    return float(f"{value:z.4g}")


def listed(names: Sequence[str], limit: int = 4) -> str:
    """Names in a sentence, at most `limit` of them."""
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")


def give_or_take(half: float | None, write: Callable[[float], str]) -> str:
    """Half an interval as text after a mean; empty for one number, which says nothing of how far its mean is off."""
    return "" if half is None else f"± {write(half)}"
