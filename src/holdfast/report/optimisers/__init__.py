"""Does the choice of the optimiser cost robustness? Runs that differ in it, compared on equal terms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from holdfast.errors import LedgerError, unknown
from holdfast.questions.question import Needs
from holdfast.report.optimisers.comparing import (
    Estimate,
    Fit,
    Matched,
    at_each_rate,
    best_rates,
    correlations,
    fit,
    matched,
    same_accuracy,
    same_loss,
)
from holdfast.report.optimisers.points import MEASURES, Point, Study, Trained, studies
from holdfast.report.runs import RunData
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Heading, Item, Note
from holdfast.show.numbers import SPACE, count, interval, percent, points, short
from holdfast.show.table import Cell, Table

GUIDE = (
    "Runs that differ in optimiser, learning rate and seed alone; ± is the standard deviation over seeds, brackets "
    "hold 95 % intervals. “Robust” is the mean accuracy over the checks beside clean images. How "
    "far training has gone explains much of robustness: a difference between optimisers counts where it remains at the "
    "same training loss or the same clean accuracy."
)
NO_VALIDATION = "No validation accuracy is recorded, so that no rate can be chosen without looking at test images."
MATCHED = (
    "All networks after all epochs with results, beside those of {reference} that match; a pair of runs counts with "
    "its mean. Percentage points of robust accuracy, optimiser minus {reference}; intervals resample learning rates "
    "or, where an optimiser has one, runs, and are those of Student’s t, as there are few of them."
)
RATES = 3
"""Learning rates of each optimiser from which on a best one is chosen among several."""
FITTED = (
    "Robust accuracy as a linear function of the logarithm of the training loss, over {networks} networks: the slope, "
    "the share of the variance that it explains, and the same with a constant for each optimiser, relative to "
    "{reference}. A constant whose interval contains 0 shows no difference beyond that explained by the training loss."
)


@dataclass(frozen=True, kw_only=True)
class Optimisers:
    """Optimisers compared at their best rates, at matched training loss and at matched clean accuracy.

    Args:
        reference: the optimiser that others are compared with (default: the first).
    """

    title: ClassVar = "Optimisers"
    needs: ClassVar = Needs.ROWS

    reference: str | None = None

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Tables 4.1 and 4.3 of the thesis with their controls, for each group of runs that can be compared."""
        some = studies(runs)
        if some:
            yield GUIDE
        for study in some:
            if study.title:
                yield Heading(study.title)
            yield from _presented(study, self._reference(study))

    def _reference(self, study: Study) -> str:
        """The optimiser of that name, or the only one whose name begins with it."""
        if self.reference is None:
            return study.optimisers[0]
        of_name = [name for name in study.optimisers if self.reference in (name, name.partition(" ")[0])]
        if len(of_name) != 1:
            raise LedgerError(f"reference: {unknown(self.reference, study.optimisers)}")
        return of_name[0]


def _presented(study: Study, reference: str) -> Iterator[Item]:
    rates = best_rates(study)
    every = at_each_rate(study)
    chosen = {key: networks for key, networks in every.items() if rates.get(key[0]) == key[1]}
    if chosen:
        yield _accuracies(study, chosen, "At the rate with the best validation accuracy")
    else:
        yield Note(NO_VALIDATION, "missing")
    yield from (Note(line, "doubt") for line in _cautions(every, rates))
    if any(run.measures for run in study.runs):
        yield _steepness(study, chosen or every)
    yield from _charts(study)
    if study.followed:
        yield MATCHED.format(reference=reference)
        yield _matches(study, reference)
        if (fitted := fit(study, reference)) is not None:
            yield FITTED.format(networks=fitted.networks, reference=reference)
            yield _fitted(fitted)
    if measured := correlations(study):
        yield _correlations(measured)
    yield Details("Every optimiser at every rate", [_accuracies(study, every, "Every rate")])


def _cautions(every: Networks, chosen: Mapping[str, float]) -> Iterator[str]:
    """What makes a comparison at the best rates unfair."""
    tried: dict[str, list[float]] = {}
    for optimiser, rate in every:
        tried.setdefault(optimiser, []).append(rate)
    few = [name for name, rates in tried.items() if len(rates) < RATES]
    if few:
        yield f"Fewer than {RATES} learning rates: {', '.join(few)}; another rate may change the comparison."
    edge = [name for name, rates in tried.items() if name not in few and chosen.get(name) in (min(rates), max(rates))]
    if edge:
        yield f"The best learning rate is the lowest or highest one tried: {', '.join(edge)}."
    if len({len(networks) for networks in every.values()}) > 1:
        yield "Not all learning rates have as many seeds."


Networks = dict[tuple[str, float], list[tuple[Trained, Point]]]


def _accuracies(study: Study, networks: Networks, caption: str) -> Table:
    """Accuracies beside the training loss that they belong to."""
    columns = ("Seeds", "Training loss", "Final training loss", "Validation", "Clean", *study.checks, "Robust")
    rows = []
    for (optimiser, rate), some in networks.items():
        each = [point for _, point in some]
        validation = [point.validation for point in each if point.validation is not None]
        cells = [
            Cell(count(len(each)), value=len(each)), _over(tuple(point.loss for point in each), short),
            _over([run.final_loss for run, _ in some if run.final_loss is not None], short),
            _over(validation, percent), _over([point.clean for point in each], percent),
            *(_over([point.robust[check] for point in each], percent) for check in study.checks),
            _over([point.mean(study.checks) for point in each], percent),
        ]  # fmt: skip
        rows.append((f"{optimiser}, {short(rate)}", cells))
    return Table(caption, "Optimiser and rate", columns, rows, style="headline")


def _over(values: Sequence[float], write: Callable[[float], str]) -> Cell:
    """The mean over seeds with its standard deviation."""
    if not values:
        return Cell("")
    mean = statistics.fmean(values)
    spread = f"± {write(statistics.stdev(values)).removesuffix(f'{SPACE}%')}" if len(values) > 1 else ""
    return Cell(write(mean), spread, value=mean)


def _steepness(study: Study, networks: Networks) -> Table:
    """Table 4.1: robust accuracy beside bounds and slopes."""
    rows = []
    for (optimiser, rate), some in networks.items():
        cells = [_over([point.mean(study.checks) for _, point in some], percent)]
        for name in MEASURES:
            cells.append(_over([run.measures[name] for run, _ in some if name in run.measures], short))
        rows.append((f"{optimiser}, {short(rate)}", cells))
    columns = ("Robust", *(text[:1].upper() + text[1:] for text in MEASURES.values()))
    caption = f"Robust accuracy, Lipschitz constants and slopes; {study.measured}"
    return Table(caption, "Optimiser and rate", columns, rows)


def _charts(study: Study) -> Iterator[Chart]:
    """Figure 4.1, and robust accuracy against the training loss over all epochs."""
    main = study.main()
    plane = [
        _dots(optimiser, [(point.mean(study.checks), point.clean) for run, point in main if run.optimiser == optimiser])
        for optimiser in study.optimisers
    ]
    yield Chart(
        "Clean accuracy against robust accuracy", "robust accuracy", tuple(plane), True, whole=False, from_zero=False,
        x_share=True, alone=True,
    )  # fmt: skip
    if not study.followed:
        return
    courses = [
        _dots(
            optimiser,
            [
                (point.loss, point.mean(study.followed))
                for run in study.runs
                if run.optimiser == optimiser
                for point in run.points
                if point.loss > 0
            ],
        )
        for optimiser in study.optimisers
    ]
    yield Chart(
        "Robust accuracy against training loss", "training loss", tuple(courses), True, whole=False, from_zero=False,
        log_x=True, alone=True,
    )  # fmt: skip


def _dots(kind: str, places: Sequence[tuple[float, float]]) -> Curve:
    x, y = zip(*sorted(places), strict=True) if places else ((), ())
    return Curve(0, kind, tuple(x), tuple(y), form="points")


def _matches(study: Study, reference: str) -> Table:
    rows: dict[str, list[Cell]] = {}
    for by in (same_accuracy, same_loss):
        for one in matched(study, reference, by):
            rows.setdefault(one.optimiser, []).extend(_match(one))
    columns = ("Same clean accuracy", "Networks", "Same training loss", "Networks")
    return Table(f"Robust accuracy at equal terms, beside {reference}", "Optimiser", columns, list(rows.items()))


def _match(one: Matched) -> Iterator[Cell]:
    yield Cell("no match") if not one.pairs else _difference(one.difference)
    yield Cell(count(one.points), value=one.points)


def _difference(estimate: Estimate) -> Cell:
    """Percentage points with their interval."""
    ends = estimate.interval
    return Cell(points(estimate.value), interval(ends.low, ends.high) if ends else "", value=estimate.value)


def _fitted(fitted: Fit) -> Table:
    """Slopes in percentage points per halving of the loss, which reads easier than per factor of e."""
    halving = -math.log(2)
    rows = [
        ("per halving of the training loss", [_scaled(fitted.slope, halving), _scaled(fitted.own_slope, halving)]),
        *((f"constant of {name}", [Cell(""), _difference(effect)]) for name, effect in fitted.effects.items()),
        ("variance explained", [_share(fitted.explained), _share(fitted.own_explained)]),
    ]
    columns = ("Training loss alone", "With a constant for each optimiser")
    return Table("Robust accuracy by training loss and optimiser, in percentage points", "Term", columns, rows)


def _scaled(estimate: Estimate, factor: float) -> Cell:
    ends = estimate.interval
    turned = None if ends is None else sorted((ends.low * factor, ends.high * factor))
    value = estimate.value * factor
    return Cell(f"{100 * value:+z.1f}", interval(*turned) if turned else "", value=value)


def _share(value: float) -> Cell:
    return Cell(percent(value), value=value) if math.isfinite(value) else Cell("")


def _correlations(measured: dict[str, tuple[Estimate, int]]) -> Table:
    rows = []
    for name, (estimate, runs) in measured.items():
        ends = estimate.interval
        text = f"[{ends.low:z.2f},{SPACE}{ends.high:z.2f}]" if ends else ""
        rows.append((name, [Cell(f"{estimate.value:z.2f}", text, value=estimate.value), Cell(count(runs), value=runs)]))
    return Table("Spearman’s correlation with robust accuracy over runs", "Measure", ("Correlation", "Runs"), rows)
