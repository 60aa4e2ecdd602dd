"""Nearest training images as the robust classifier, alone and mixed with a network, as an analysis measured it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from holdfast.analysis.mixing_plan import planned
from holdfast.analysis.mixing_summary import AtStrength, MixingSummary, Rate, summarise_mixing
from holdfast.report.mixing_figures import strength
from holdfast.report.mixing_tables import rate_cell
from holdfast.report.runs import RunData, measured
from holdfast.show.chart import Chart, Curve
from holdfast.show.figures import Figure, Told, figure
from holdfast.show.numbers import count, percent
from holdfast.show.table import Table

KINDS = {
    "clean": "clean images", "on_standard": "attack on the network", "itself": "attack on the mixture",
    "worst": "worst of all attacks",
}  # fmt: skip


@dataclass(frozen=True)
class Sweep:
    """One network with several numbers of neighbours.

    Args:
        who: its name.
        settings: what was asked, but for the number.
        found: by the number of neighbours, rising.
    """

    who: str
    settings: Any
    found: dict[int, MixingSummary]

    @property
    def title(self) -> str:
        """The network, its neighbours and the attack."""
        asked = self.settings
        return f"{self.who}, {asked['weights_of']} neighbours among {count(asked['images'])} images, {asked['attack']}"


@dataclass(frozen=True)
class NeighbourMixtures:
    """The section on neighbours.

    Args:
        curves: accuracies against strength and against the number of neighbours.
        numbers: the same in tables.
    """

    curves: Sequence[Told]
    numbers: Sequence[Table]

    name: ClassVar[str] = "neighbours"
    title: ClassVar[str] = "Nearest neighbours"

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> NeighbourMixtures:
        """What was measured of these runs."""
        found = sweeps(runs)
        curves = [told for number, sweep in enumerate(found) for told in charts(sweep, number)]
        return cls(curves, [sweep_table(sweep) for sweep in found])

    @property
    def there(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.curves)

    @property
    def figures(self) -> Sequence[Figure]:
        """All charts."""
        return [told.figure for told in self.curves]


def sweeps(runs: Sequence[RunData]) -> list[Sweep]:
    """Answers that differ in the number of neighbours alone stand together."""
    groups: dict[str, Sweep] = {}
    for place, who, one in measured(runs, "neighbours"):
        settings = {name: value for name, value in one.question.settings.items() if name != "k"}
        key = json.dumps([place, who, one.question.weights_hash, settings], sort_keys=True)
        sweep = groups.setdefault(key, Sweep(who, settings, {}))
        sweep.found[one.question.settings["k"]] = summarise_mixing(one.rows, planned(settings))
    return [Sweep(one.who, one.settings, dict(sorted(one.found.items()))) for one in groups.values()]


def charts(sweep: Sweep, number: int) -> list[Told]:
    """Figure 5 or 9, and the same against the number of neighbours."""
    return [
        Told(strength_chart(sweep, f"neighbours-strength-{number}"), strength_words(sweep)),
        Told(count_chart(sweep, f"neighbours-count-{number}"), count_words(sweep)),
    ]


def strength_chart(sweep: Sweep, identifier: str) -> Figure:
    """Accuracy of the mixtures against their strength: a colour for each number of neighbours."""
    places = range(len(planned(sweep.settings).strengths))
    curves = [
        _curve(row, KINDS[kind], places, [getattr(at, kind) for at in found.strengths])
        for row, found in enumerate(sweep.found.values())
        for kind in ("clean", "worst")
    ]
    ticks = tuple(strength(value) for value in planned(sweep.settings).strengths)
    words = "strength α (0: network, ∞: neighbours)"
    chart = Chart(f"Network and neighbours: {sweep.who}", words, tuple(curves), share=True, ticks=ticks)
    return figure(chart, [f"k = {k}" for k in sweep.found], identifier)


def count_chart(sweep: Sweep, identifier: str) -> Figure:
    """Accuracy of the neighbours alone against their number."""
    alone = [found.strengths[-1] for found in sweep.found.values()]
    curves = [
        _curve(0, name, range(len(alone)), [getattr(at, kind) for at in alone])
        for kind, name in {**KINDS, "itself": "attack on the neighbours"}.items()
    ]
    ticks = tuple(str(k) for k in sweep.found)
    chart = Chart(f"Neighbours alone: {sweep.who}", "number of neighbours k", tuple(curves), share=True, ticks=ticks)
    return figure(chart, [sweep.who], identifier)


def strength_words(sweep: Sweep) -> str:
    """The best mixture, beside the network and the neighbours alone."""
    k, top = max(
        ((k, at) for k, found in sweep.found.items() for at in found.strengths),
        key=lambda one: (one[1].worst.value, one[1].clean.value),
    )
    network = next(iter(sweep.found.values())).strengths[0]
    return (
        f"{sweep.title}. The worst case is best with k = {k} at strength {strength(top.mixture)}: {_two(top)}; the "
        f"network alone has {_two(network)}."
    )


def count_words(sweep: Sweep) -> str:
    """The best number of neighbours where nothing else is asked."""
    k, top = max(((k, found.strengths[-1]) for k, found in sweep.found.items()), key=lambda one: one[1].clean.value)
    return (
        f"Without the network most clean images are right with k = {k}: {percent(top.clean.value)}; attacks on the "
        f"network leave {percent(top.on_standard.value)}, attacks on soft neighbours {percent(top.itself.value)}."
    )


def sweep_table(sweep: Sweep) -> Table:
    """Every number of neighbours and strength."""
    rows = [
        (f"k = {k}, strength {strength(at.mixture)}", [rate_cell(getattr(at, kind)) for kind in KINDS])
        for k, found in sweep.found.items()
        for at in found.strengths
    ]
    return Table(
        f"Network and neighbours: {sweep.title}", "Mixture", [name.capitalize() for name in KINDS.values()], rows
    )


def _two(at: AtStrength) -> str:
    return f"{percent(at.worst.value)}, and {percent(at.clean.value)} of the clean images"


def _curve(run: int, kind: str, places: range, rates: Sequence[Rate]) -> Curve:
    y, low, high = (tuple(getattr(rate, end) for rate in rates) for end in ("value", "low", "high"))
    return Curve(run, kind, tuple(map(float, places)), y, low, high)
