"""One number per run and quantity, and the best run among those that are about as accurate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from holdfast.analysis.certified import average_certified_radius
from holdfast.analysis.corruption import MCE, corrupted
from holdfast.analysis.worst_case import worst_case
from holdfast.errors import RecipeError, unknown
from holdfast.results import accuracies
from holdfast.statistics import noise_area
from holdfast.verdicts import at_chance

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


def measured(rows: pl.DataFrame) -> tuple[Measured, ...]:
    """The quantities of every run and weights in a ledger.

    The noise area (AUC_GN) is that of the accuracies under Gaussian noise, from the clean images on, if there is noise
    of two strengths or more; clipped and unclipped noise are told apart. A worst case of which only an upper bound is
    known is left out.
    """
    values: dict[tuple[str, str], dict[str, float]] = {}
    checks: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    noisy: dict[tuple[str, str], dict[str, dict[float, float]]] = {}
    for row in accuracies(rows).iter_rows(named=True):
        key, params = (row["run"], row["weights"]), json.loads(row["params"])
        found = values.setdefault(key, {})
        if row["method"] == "clean":
            found[CLEAN] = row["accuracy"]
        elif row["method"] == "gaussian_noise":
            sigma = params["variance"] ** 0.5 if params.get("sigma") is None else params["sigma"]
            name = NOISE if params.get("clip", True) else f"{NOISE}, unclipped"
            noisy.setdefault(key, {}).setdefault(name, {})[sigma] = row["accuracy"]
    for row in worst_case(rows).filter(pl.col("unsettled") == 0).iter_rows(named=True):
        values[row["run"], row["weights"]][row["check"]] = row["accuracy"]
        checks.setdefault((row["run"], row["weights"]), {})[row["check"]] = tuple(row["checks"])
    for found_errors in corrupted(rows):
        mean = found_errors.mean()
        if mean is not None:
            name = MCE if found_errors.family == "common" else f"{MCE}, {found_errors.title}"
            values[found_errors.run, found_errors.weights][name] = mean
    for row in average_certified_radius(rows).iter_rows(named=True):
        values[row["run"], row["weights"]][f"average radius, {row['check']}"] = row["average"]
    for key, curves in noisy.items():
        for name, points in curves.items():
            curve = {**points, **({0.0: values[key][CLEAN]} if CLEAN in values[key] else {})}
            if len(curve) > 2:
                sigmas = sorted(curve)
                values[key][name] = noise_area([curve[sigma] for sigma in sigmas], sigmas)
    guessing = at_chance(rows)
    return tuple(Measured(*key, quantities, checks.get(key, {}), key in guessing) for key, quantities in values.items())


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
    known = list(dict.fromkeys(quantity for run in runs for quantity in run.values))
    for whole in (name, f"average radius, {name}"):
        if whole in known:
            return whole
    parts = [one for one in known if name in one]
    if len(parts) == 1:
        return parts[0]
    if parts:
        raise RecipeError(
            f"select: '{name}' matches several quantities: {'; '.join(parts)}; give one of these names in full"
        )
    raise RecipeError(f"select: {unknown(name, known)}")
