"""Stability under noise, and what theorem 6.1 makes of it: a part of the section on curvature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.analysis.spread import give_or_take
from holdfast.analysis.stability_bounds import AtDelta, quadratic_share, stability_curve
from holdfast.report.runs import RunData, measured
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import Figure, figures
from holdfast.show.numbers import count, decimal, percent, short
from holdfast.show.table import Cell, Table


@dataclass(frozen=True)
class Moved:
    """Stability of one network.

    Args:
        place: of its run in the report.
        who: its name.
        settings: what was asked.
        longest_row: of the head's matrix.
        largest_logit: that was seen.
        examples: how many.
        quadratic: measured mean squared change of the loss over that of its quadratic part, the median.
        curve: at each distance.
    """

    place: int
    who: str
    settings: Any
    longest_row: float
    largest_logit: float
    examples: int
    quadratic: float | None
    curve: Sequence[AtDelta]


def curves(runs: Sequence[RunData]) -> list[Moved]:
    """What was measured of these runs."""
    found = []
    for place, who, one in measured(runs, "stability"):
        settings, rows, longest = one.question.settings, one.rows, float(one.question.result["longest_row"])
        sigma, largest = settings["sigma"], float(rows["largest_logit"].to_numpy().max())
        curve = stability_curve(
            rows, deltas=settings["deltas"], draws=settings["copies"], sigma=sigma, longest_row=longest
        )
        share = quadratic_share(rows, sigma=sigma)
        found.append(Moved(place, who, settings, longest, largest, len(rows), share, curve))
    names = [moved.who for moved in found]
    return [moved if names.count(moved.who) == 1 else replace(moved, who=_asked(moved)) for moved in found]


def _asked(moved: Moved) -> str:
    """The name of a network that was asked in several ways."""
    settings = moved.settings
    return f"{moved.who}, noise of {short(settings['sigma'])}, {products(settings['step'])}"


def products(step: float | None) -> str:
    """How products with the Hessian were made."""
    return "exact products" if step is None else f"differences at {short(step)}"


def charts(found: Sequence[Moved], labels: Sequence[str]) -> list[Figure]:
    """Stability of features and of the loss over the distance, on a logarithmic axis."""
    if not found:
        return []
    distance = "distance δ of the features"
    drawn = figures(
        (
            Chart("Features that stay within δ", distance, _curves(found, lambda one: one.eta.mean), True),
            Chart("Change of the loss outside δ", distance, _curves(found, _gap), False),
        ),
        labels,
        "stability",
    )
    sizes = sorted({at.delta for moved in found for at in moved.curve if at.delta > 0})
    return [replace(one, spec={**one.spec, "layout": _logarithmic(one.spec["layout"], sizes)}) for one in drawn]


def _logarithmic(layout: dict[str, Any], sizes: Sequence[float]) -> dict[str, Any]:
    ticks = {"tickvals": sizes, "ticktext": [short(size) for size in sizes]} if len(sizes) <= 12 else {}
    return {**layout, "xaxis": {**layout["xaxis"], "type": "log", **ticks}}


def _gap(one: AtDelta) -> float | None:
    return None if one.loss_gap is None else one.loss_gap.mean


def _curves(found: Sequence[Moved], read: Callable[[AtDelta], float | None]) -> tuple[Curve, ...]:
    drawn = []
    for moved in found:
        spots = [(at.delta, read(at)) for at in moved.curve if at.delta > 0]
        known = [(delta, value) for delta, value in spots if value is not None]
        if known:
            x, y = (tuple(values) for values in zip(*known, strict=True))
            drawn.append(Curve(moved.place, f"noise of {short(moved.settings['sigma'])}", x, y))
    return tuple(drawn)


def table(found: Sequence[Moved]) -> Table | None:
    """The curves and the bounds in numbers, a row for each network and distance; None where nobody asked."""
    rows = []
    for moved in found:
        for at in moved.curve:
            gap = (
                Cell("")
                if at.loss_gap is None
                else Cell(short(at.loss_gap.mean), give_or_take(at.loss_gap.half, short))
            )
            cells = [
                Cell(percent(at.eta.mean), give_or_take(at.eta.half, lambda half: decimal(100 * half))), gap,
                Cell(count(at.outside)),
                Cell(percent(at.below_upper)), Cell("" if at.looseness is None else short(at.looseness)),
                Cell(percent(at.above_lower)), Cell(percent(at.vacuous)),
            ]  # fmt: skip
            rows.append((f"{moved.who}, δ = {short(at.delta)}", cells))
    columns = (
        "Copies inside, 95 %", "|ℓ outside − ℓ|, 95 %", "Images with copies outside", "Curvature below the upper bound",
        "Bound over curvature, median", "Above the lower bound", "Lower bound says nothing",
    )  # fmt: skip
    return Table("Stability, and the bounds of theorem 6.1, at each distance", "Run", columns, rows) if rows else None


def bounds_table(found: Sequence[Moved]) -> Table | None:
    """What the bounds of each network rest on; None where nobody asked."""
    rows = [
        (
            moved.who,
            [
                Cell(short(moved.settings["sigma"])), Cell(count(moved.settings["copies"])),
                Cell(count(moved.examples)), Cell(short(moved.largest_logit)), Cell(short(moved.longest_row)),
                Cell("" if moved.quadratic is None else short(moved.quadratic)),
            ],
        )
        for moved in found
    ]  # fmt: skip
    columns = (
        "Noise σ", "Copies", "Images", "Largest logit seen", "Longest row of the head",
        "Change of the loss over its quadratic part, median",
    )  # fmt: skip
    return Table("What the bounds rest on", "Run", columns, rows) if rows else None


def verdict(moved: Moved) -> str:
    """Theorem 6.1 for one network in words."""
    return f"{moved.who}: {_upper(moved.curve)} {_lower(moved.curve)} {_premise(moved)}"


def _upper(curve: Sequence[AtDelta]) -> str:
    share = _between([at.below_upper for at in curve])
    held = f"The measured curvature is below the upper bound for {share} of the images"
    loose = [at.looseness for at in curve if at.looseness is not None]
    if not loose:
        return f"{held}."
    return f"{held}; at its tightest the bound is {short(min(loose))} times the curvature (median)."


def _lower(curve: Sequence[AtDelta]) -> str:
    if min(at.vacuous for at in curve) == 1:
        return "The lower bound is negative for every image at every distance, so that it says nothing."
    above, empty = _between([at.above_lower for at in curve]), _between([at.vacuous for at in curve])
    return f"{above} of the images are above the lower bound; for {empty} it is negative and says nothing."


def _premise(moved: Moved) -> str:
    if moved.quadratic is None:
        return "The loss is flat."
    ratio, sigma = short(moved.quadratic), short(moved.settings["sigma"])
    near = 0.8 <= moved.quadratic <= 1.25
    word = "is close to what the theorem takes it for" if near else "is not what the theorem takes it for"
    return (
        f"Under noise of {sigma} the loss {word}, a quadratic: its mean squared change is {ratio} times that of its "
        "quadratic part (median)."
    )


def _between(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"
