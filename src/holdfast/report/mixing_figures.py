"""Charts of mixtures of two networks: accuracy against strength, aim and radius."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from holdfast.analysis.mixing_plan import POLICY, Aim, Plan
from holdfast.analysis.mixing_summary import AtStrength, MixingSummary, Rate
from holdfast.report.curves import NORMS
from holdfast.show.chart import Chart, Curve, Mark
from holdfast.show.figures import Figure, figure
from holdfast.show.numbers import short

ATTACKS = {
    "clean": "clean images", "on_standard": "attack on the standard network",
    "on_robust": "attack on the robust network", "itself": "attack on the mixture", "worst": "worst of all attacks",
}  # fmt: skip
"""Accuracies of a mixture, by the fields of `AtStrength`."""


@dataclass(frozen=True)
class Asked:
    """The mixtures of two networks.

    Args:
        place: of the run in the report.
        standard: name of the accurate network.
        robust: of the robust one.
        settings: what was asked.
        plan: the same, as the rows have it.
        rows: of each image.
        found: the same in few numbers.
        classes: their names.
        crossing: the aim up to which the robust network is better; None while not all images were asked about.
    """

    place: int
    standard: str
    robust: str
    settings: Any
    plan: Plan
    rows: pl.DataFrame
    found: MixingSummary
    classes: Sequence[str]
    crossing: float | None

    @property
    def who(self) -> str:
        """Both networks and how they are mixed."""
        return f"{self.standard} and {self.robust}, {self.settings['mixing']}"

    @property
    def title(self) -> str:
        """The same with the attack."""
        return f"{self.who}, {self.settings['attack']}"

    @property
    def names(self) -> dict[str, str]:
        """What each of the compared classifiers is called, by the fields of `AtAim`."""
        names = {"standard": "standard", "robust": "robust", "mixture": f"mixture of strength {strength(self.plan.at)}"}
        return {**names, "adaptive": "mixture with policy"} if self.plan.adaptive else names

    @property
    def norm(self) -> str:
        """Of the attack."""
        name: str = self.settings["norm"]
        return name

    @property
    def axis(self) -> str:
        """The radius in words."""
        return f"largest change ε in {NORMS.get(self.norm, self.norm)}"


def strength(mixture: Aim) -> str:
    """A strength as charts and tables have it."""
    if isinstance(mixture, str):
        return mixture
    return "∞" if math.isinf(mixture) else f"{mixture:.0f}" if mixture >= 1000 else f"{mixture:.3g}"


def strength_chart(one: Asked, identifier: str) -> Figure:
    """Figure 6: accuracy of the mixtures against their strength, clean and under every kind of attack."""
    chart = Chart(
        f"Mixtures of {one.standard} and {one.robust}",
        "strength α (0: standard, ∞: robust)",
        tuple(_curve(name, one.found.strengths, kind) for kind, name in ATTACKS.items()),
        share=True,
        ticks=tuple(strength(at.mixture) for at in one.found.strengths),
    )
    return policy_apart(figure(chart, [one.who], identifier), one)


def aim_chart(one: Asked, identifier: str) -> Figure:
    """Figures 4 and 7: accuracy of both networks and of mixtures against the strength that the attack aims at."""
    chart = Chart(
        f"Attacks that aim at mixtures of {one.standard} and {one.robust}",
        "strength αₜ that the attack aims at",
        tuple(_curve(name, one.found.aims, who) for who, name in one.names.items()),
        share=True,
        mark=crossing_mark(one),
        ticks=tuple(strength(at.aim).removesuffix(" policy") for at in one.found.aims),
    )
    return policy_apart(figure(chart, [one.who], identifier), one)


def radius_chart(one: Asked, identifier: str) -> Figure:
    """Figure 8: accuracy in the worst of the same attacks against their radius."""
    places = tuple(at.eps for at in one.found.radii)
    curves = [_curve(name, one.found.radii, who) for who, name in one.names.items()]
    chart = Chart(
        f"Worst case of {one.standard}, {one.robust} and their mixture",
        one.axis,
        tuple(replace(curve, x=places) for curve in curves),
        share=True,
    )
    return figure(chart, [one.who], identifier)


def crossing_mark(one: Asked) -> Mark | None:
    """Where the two networks change places on the axis of aims; None where they do not."""
    crossing = one.crossing
    if crossing is None or not 0 < crossing < math.inf:
        return None
    position = place_of(crossing, one.plan.strengths)
    low, part = (
        min(int(position), len(one.plan.strengths) - 2),
        position - min(int(position), len(one.plan.strengths) - 2),
    )
    ends = [at.robust.value for at in one.found.aims[low : low + 2]]
    return Mark(f"α₀ = {short(crossing)}", position, ends[0] + part * (ends[1] - ends[0]))


def place_of(value: float, strengths: Sequence[float]) -> float:
    """Where a strength stands between those that are marked, in the scale that `crossing` interpolates in."""
    number = max(place for place, strength in enumerate(strengths[:-1]) if strength <= value)
    low, high = strengths[number], strengths[number + 1]
    if low > 0:
        return number + (1 - low / value if math.isinf(high) else math.log(value / low) / math.log(high / low))
    return number + (value / (1 + value) if math.isinf(high) else value / high)


def policy_apart(made: Figure, one: Asked) -> Figure:
    """The chart with a gap after the strengths, if there is a policy, which is no strength of the line."""
    if not one.plan.adaptive:
        return made
    after = len(one.plan.strengths)
    return replace(made, spec={**made.spec, "data": [_with_gap(trace, after) for trace in made.spec["data"]]})


def _with_gap(trace: dict[str, Any], after: int) -> dict[str, Any]:
    error = {name: _gap(trace["error_y"][name], after) for name in ("array", "arrayminus")}
    lists = {name: _gap(trace[name], after) for name in ("x", "y", "text")}
    return {**trace, **lists, "error_y": {**trace["error_y"], **error}}


def _gap(values: Sequence[Any], after: int) -> list[Any]:
    return [*values[:after], None, *values[after:]]


def _curve(kind: str, points: Sequence[Any], field: str) -> Curve:
    rates: list[Rate] = [getattr(at, field) for at in points]
    y, low, high = (tuple(getattr(rate, end) for rate in rates) for end in ("value", "low", "high"))
    return Curve(0, kind, tuple(float(place) for place in range(len(rates))), y, low, high)


def best(found: MixingSummary) -> AtStrength:
    """The mixture of fixed strength with the best worst case; of equals the one with more clean images right."""
    fixed = [at for at in found.strengths if at.mixture != POLICY]
    return max(fixed, key=lambda at: (at.worst.value, at.clean.value))
