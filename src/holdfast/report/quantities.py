"""One number per run and quantity, and the best run among those that are about as accurate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from holdfast.errors import RecipeError, unknown
from holdfast.json_text import parse_json_object
from holdfast.results.certified_radii import average_certified_radius
from holdfast.results.corruption_errors import MCE, corrupted
from holdfast.results.summaries import accuracies
from holdfast.results.worst_case import WORST, worst_case
from holdfast.show.numbers import percent, short
from holdfast.statistics import noise_area
from holdfast.trust.chance import at_chance

CLEAN, NOISE = "clean accuracy", "noise area"


@dataclass(frozen=True)
class Measured:
    """What was measured of one run.

    Args:
        run: its name.
        weights: which of its weights.
        values: by quantity: `clean accuracy`, the worst case of each threat (`worst case, linf eps=8/255`), `noise
            area`, `mean corruption error` and the average radius of each certificate.
        checks: what each worst case is over.
        at_chance: whether it answers no better than by guessing.
    """

    run: str
    weights: str
    values: Mapping[str, float] = field(default_factory=dict)
    checks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    at_chance: bool = False


def is_share(name: str) -> bool:
    """Whether a quantity is a share of the examples that are right."""
    return name == CLEAN or name.startswith(WORST)


def writer(name: str) -> Callable[[float], str]:
    """How values of a quantity are written, wherever they are shown."""
    return percent if is_share(name) else short


Network = tuple[str, str]
"""Run and weights."""


def measured(rows: pl.DataFrame) -> tuple[Measured, ...]:
    """The quantities of every run and weights in a ledger.

    The noise area (AUC_GN) is that of the accuracies under Gaussian noise, from the clean images on, if there is noise
    of two strengths or more; clipped and unclipped noise are told apart. A worst case of which only an upper bound is
    known is left out.
    """
    values: dict[Network, dict[str, float]] = {
        (row["run"], row["weights"]): {} for row in accuracies(rows).iter_rows(named=True)
    }
    checks: dict[Network, dict[str, tuple[str, ...]]] = {}
    for row in accuracies(rows).filter(pl.col("method") == "clean").iter_rows(named=True):
        values[row["run"], row["weights"]][CLEAN] = row["accuracy"]
    for row in worst_case(rows).filter(pl.col("unsettled") == 0).iter_rows(named=True):
        values[row["run"], row["weights"]][row["check"]] = row["accuracy"]
        checks.setdefault((row["run"], row["weights"]), {})[row["check"]] = tuple(row["checks"])
    for errors in corrupted(rows):
        if (mean := errors.mean()) is not None:
            name = MCE if errors.family == "common" else f"{MCE}, {errors.title}"
            values[errors.run, errors.weights][name] = mean
    for row in average_certified_radius(rows).iter_rows(named=True):
        values[row["run"], row["weights"]][f"average radius, {row['check']}"] = row["average"]
    for network, name, area in _noise_areas(rows, values):
        values[network][name] = area
    guessing = at_chance(rows)
    return tuple(Measured(*key, quantities, checks.get(key, {}), key in guessing) for key, quantities in values.items())


def _noise_areas(
    rows: pl.DataFrame, values: Mapping[Network, Mapping[str, float]]
) -> Iterator[tuple[Network, str, float]]:
    """The area under accuracy against noise of each network with two strengths or more, clipped and unclipped."""
    curves: dict[tuple[Network, str], dict[float, float]] = {}
    noisy = rows.filter((pl.col("method") == "gaussian_noise") & pl.col("size").is_not_null())
    sigmas_of = dict(noisy.select("params", "size").iter_rows())
    for row in accuracies(noisy).iter_rows(named=True):
        network, clipped = (row["run"], row["weights"]), parse_json_object(row["params"]).get("clip", True)
        name = NOISE if clipped else f"{NOISE}, unclipped"
        curves.setdefault((network, name), {})[sigmas_of[row["params"]]] = row["accuracy"]
    for (network, name), points in curves.items():
        curve = {**points, **({0.0: values[network][CLEAN]} if CLEAN in values[network] else {})}
        if len(curve) > 2:
            sigmas = sorted(curve)
            yield network, name, noise_area([curve[sigma] for sigma in sigmas], sigmas)


def select(runs: Sequence[Measured], *, by: str, accuracy: float, within: float) -> tuple[Measured, ...]:
    """Runs whose clean accuracy lies in a band, the best first; networks at chance level come last.

    Robust classifiers pay with clean accuracy, so that robustness is compared among those that pay alike.

    Args:
        runs: what was measured of them.
        by: the quantity that decides, or a part of its name that belongs to one alone.
        accuracy: centre of the band.
        within: half its width, ends included.

    Reference:
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, section 4.3.
    """
    if not (0 <= accuracy <= 1 and within >= 0):
        raise RecipeError(f"select: expected an accuracy in [0, 1] and a width; got {accuracy} and {within}")
    name = quantity(runs, by)
    inside = [
        run for run in runs if name in run.values and abs(run.values.get(CLEAN, -1.0) - accuracy) <= within + 1e-12
    ]
    sign = 1 if name.startswith(MCE) else -1  # of errors less is better
    return tuple(sorted(inside, key=lambda run: (run.at_chance, sign * run.values[name])))


def quantity(runs: Sequence[Measured], name: str) -> str:
    """The quantity of that name, the average radius of that check, or the only one whose name has it as a part."""
    available = list(dict.fromkeys(quantity for run in runs for quantity in run.values))
    for whole in (name, f"average radius, {name}"):
        if whole in available:
            return whole
    parts = [one for one in available if name in one]
    if len(parts) == 1:
        return parts[0]
    if parts:
        raise RecipeError(
            f"select: '{name}' matches several quantities: {'; '.join(parts)}; give one of these names in full"
        )
    raise RecipeError(f"select: {unknown(name, available)}")
