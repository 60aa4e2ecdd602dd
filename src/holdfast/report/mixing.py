"""Mixtures of an accurate and a robust network, as an analysis measured them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.analysis.magnitude_summary import MagnitudeSummary, summarise_magnitudes
from holdfast.analysis.mixing_plan import POLICY, planned
from holdfast.analysis.mixing_summary import AtStrength, summarise_mixing
from holdfast.report.magnitude_figures import correlation_chart, violin_chart
from holdfast.report.mixing_figures import Asked, aim_chart, best, radius_chart, strength, strength_chart
from holdfast.report.mixing_tables import (
    POINTS,
    aim_table,
    correlation_text,
    gradient_tables,
    radius_table,
    strength_table,
)
from holdfast.report.runs import RunData, measured
from holdfast.show.figures import Figure, Told
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Table


@dataclass(frozen=True)
class Mixtures:
    """The section on mixtures.

    Args:
        curves: accuracies against strength, aim and radius.
        gradients: distributions and correlations.
        numbers: the same in tables.
    """

    curves: Sequence[Told]
    gradients: Sequence[Told]
    numbers: Sequence[Table]

    name: ClassVar[str] = "mixing"
    title: ClassVar[str] = "Mixtures of two networks"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Mixtures:
        """What was measured of these runs."""
        found = asked(runs)
        curves = [told for number, one in enumerate(found) for told in curve_charts(one, number)]
        numbers = [table for one in found for table in (strength_table(one), aim_table(one), radius_table(one))]
        gradients: list[Told] = []
        for number, one in enumerate(gradients_of(found)):
            sizes = {points: summarise_magnitudes(one.rows, points) for points in POINTS}
            gradients += gradient_charts(one, sizes, number)
            numbers += gradient_tables(one, sizes)
        return cls(curves, gradients, numbers)

    @property
    def there(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.curves)

    @property
    def figures(self) -> Sequence[Figure]:
        """All charts."""
        return [told.figure for told in (*self.curves, *self.gradients)]


def asked(runs: Sequence[RunData]) -> list[Asked]:
    """What was measured of mixtures."""
    found = []
    for place, who, one in measured(runs, "mixing"):
        settings, run = one.question.settings, runs[place]
        plan = planned(settings)
        # a composite has both networks inside
        standard, robust = (who, robust_name(runs, settings)) if settings["robust"] else (f"g of {who}", "its h")
        classes = [run.class_name(label) for label in range(len(one.rows["standard_clean"][0]))]
        summary = summarise_mixing(one.rows, plan)
        crossing = one.question.result.get("crossing")
        known = None if crossing is None else float(crossing)
        found.append(Asked(place, standard, robust, settings, plan, one.rows, summary, classes, known))
    return found


def robust_name(runs: Sequence[RunData], settings: Any) -> str:
    """The robust network as the report calls it, if it is there too, else its run."""
    for run in runs:
        for weights, facts in run.section("weights").items():
            if isinstance(facts, dict) and str(facts.get("sha256", "")).startswith(settings["robust_hash"]):
                return f"{run.label} ({weights})"
    name: str = settings["robust"]
    return name


def gradients_of(found: Sequence[Asked]) -> list[Asked]:
    """One for each pair of networks and attack: ways to mix do not change gradients of the two."""
    kept: dict[tuple[str, ...], Asked] = {}
    for one in found:
        kept.setdefault((one.standard, one.robust, one.settings["robust_hash"], one.settings["params"]), one)
    return [*kept.values()]


def curve_charts(one: Asked, number: int) -> list[Told]:
    """Accuracy against strength, aim and radius."""
    return [
        Told(strength_chart(one, f"mixing-strength-{number}"), strength_words(one)),
        Told(aim_chart(one, f"mixing-aim-{number}"), aim_words(one)),
        Told(radius_chart(one, f"mixing-radius-{number}"), radius_words(one)),
    ]


def strength_words(one: Asked) -> str:
    """Which strength holds best, and what it costs."""
    top, found = best(one.found), one.found
    ends = [at for at in found.strengths if at.mixture != POLICY]
    words = (
        f"{one.settings['mixing'].capitalize()}, {one.settings['attack']}, {count(found.examples)} images. Worst case "
        f"and clean accuracy are {_two(top)} at strength {strength(top.mixture)}, where the worst case is best; the "
        f"robust network alone has {_two(ends[-1])}, the standard one {_two(ends[0])}"
    )
    return f"{words}, the policy {_two(found.strengths[-1])}." if one.plan.adaptive else f"{words}."


def _two(at: AtStrength) -> str:
    return f"{percent(at.worst.value)} and {percent(at.clean.value)}"


def aim_words(one: Asked) -> str:
    """Who answers better where, and which attack hurts the mixture most."""
    who = "adaptive" if one.plan.adaptive else "mixture"
    least = min(one.found.aims, key=lambda at: getattr(at, who).value)
    rest = percent(getattr(least, who).value)
    most = f"The {one.names[who]} suffers most from the aim {strength(least.aim)}: {rest} right."
    return " ".join(filter(None, (crossing_words(one.crossing), most)))


def crossing_words(crossing: float | None) -> str:
    """Where the networks change places."""
    if crossing is None:
        return ""
    if crossing in (0, math.inf):
        who = "robust network answers at least as well" if crossing else "standard network answers better"
        return f"The {who} over all aims together."
    return f"Up to an aim of {short(crossing)} the robust network answers better, beyond it the standard one."


def radius_words(one: Asked) -> str:
    """All at the main radius, in the worst of the same attacks."""
    here = next(at for at in one.found.radii if at.eps == one.plan.eps)
    parts = [f"{percent(getattr(here, who).value)} for the {name}" for who, name in one.names.items()]
    return f"At ε = {short(one.plan.eps)}, with the same attacks tried on all: {', '.join(parts)}."


def gradient_charts(one: Asked, sizes: dict[str, MagnitudeSummary], number: int) -> list[Told]:
    """Distributions and correlations at every kind of points."""
    drawn = []
    for points, name in POINTS.items():
        found = sizes[points]
        title = f"{one.standard} and {one.robust}, {name}"
        violins = violin_chart(found, one.classes, f"Gradient sizes, {title}", f"mixing-size-{points}-{number}")
        matrix = correlation_chart(
            found, one.classes, f"Correlations, {title}", f"mixing-correlation-{points}-{number}"
        )
        drawn += [Told(violins, size_words(found)), Told(matrix, correlation_words(found))]
    return drawn


def size_words(found: MagnitudeSummary) -> str:
    """How far apart the sizes are, and how much their ratio varies."""
    standard, robust = found.means
    words = f"Mean sizes are {short(standard)} and {short(robust)}"
    ratio = f"; their ratio varies by {percent(found.ratio)} of its mean over the images" if found.ratio else ""
    return f"{words}{ratio} (median class)." if ratio else f"{words}."


def correlation_words(found: MagnitudeSummary) -> str:
    """Mean correlations within and between."""
    within = [correlation_text(value) for value in (found.within_standard, found.within_robust)]
    return (
        f"Two classes of the standard network correlate by {within[0]} on average, of the robust one by {within[1]}; a "
        f"class of one and a class of the other by {correlation_text(found.between)}."
    )
