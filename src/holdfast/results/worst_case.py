"""The worst case of a threat: which examples survive every attack with at most its budget.

An attacker picks, for each image, whatever works within the budget; so an example survives a threat (a norm with an
eps) if no check that counts there breaks it:

- clean images count in every threat;
- an attack counts in its own norm, from its own eps on: what it finds lies in every larger ball of this norm;
- an attack that minimises a distance also counts below its eps, by the distance it needed for each example.

Noise, corruptions and certificates are no attacks and count nowhere; neither do attacks in other norms, although some
of their balls lie inside one another. A network has a worst case only at an eps that one of its attacks covers: at its
own eps, or at any smaller one if it minimises a distance.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.earlier import with_traits
from holdfast.results.recorded_checks import Budget, fraction
from holdfast.results.summaries import not_attacked, reasons, unsettled, with_interval
from holdfast.traits import Kind

WORST = "worst case"

ORDER = ("linf", "l2", "l1", "l0")
"""Norms as tables list them; others follow by name."""

ROUNDING = 1e-6
"""By how much the rounding of float32 images may lengthen a distance that is within eps."""

NETWORK = ("run", "weights")


def title(threat: Budget) -> str:
    """What tables and records call the worst case of a threat."""
    return f"{WORST}, {threat.axis} eps={fraction(threat.size)}"


def attempts(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of clean images and attacks: all that count in some threat.

    Functions here take the rows of a ledger; to ask several about the same rows, give them this, which is made once.

    Returns:
        The rows with `threat_norm` and `threat_eps` of each attack, null for clean images, and whether it `minimises` a
        distance.
    """
    if "threat_norm" in rows.columns:
        return rows
    rows, bounded = with_traits(rows), (pl.col("kind") == Kind.ATTACK) & pl.col("axis").is_not_null()
    return rows.filter((pl.col("kind") == Kind.CLEAN) | bounded).with_columns(
        threat_norm=pl.when(bounded).then(pl.col("axis")),
        threat_eps=pl.when(bounded).then(pl.col("size")),
        minimises=bounded & pl.col("minimises").fill_null(value=False),
    )


def threats(rows: pl.DataFrame) -> tuple[Budget, ...]:
    """Every norm and eps that an attack in the rows of a ledger has, by norm and from small to large."""
    pairs = attempts(rows).select("threat_norm", "threat_eps").drop_nulls().unique().iter_rows()
    return tuple(sorted((Budget(*pair) for pair in pairs), key=_place))


def largest(rows: pl.DataFrame) -> tuple[Budget, ...]:
    """The largest budget of each norm; eps of an attack that minimises a distance is one only if there is no other."""
    attacks = attempts(rows).filter(pl.col("threat_norm").is_not_null())
    fixed = attacks.filter(~pl.col("minimises"))
    others = attacks.filter(~pl.col("threat_norm").is_in(fixed["threat_norm"].unique().implode()))
    sizes = pl.concat([fixed, others]).group_by("threat_norm").agg(pl.col("threat_eps").max())
    return tuple(sorted((Budget(*pair) for pair in sizes.iter_rows()), key=_place))


def within(rows: pl.DataFrame, threat: Budget) -> pl.DataFrame:
    """The rows that count in a threat; `correct` says whether the example survives that check within the budget.

    Networks without an attack that covers the threat are left out.
    """
    eps = threat.size
    own, nearest = pl.col("threat_eps") <= eps, pl.col("minimises")
    near = pl.col("distance").fill_nan(0.0).fill_null(0.0) <= eps + ROUNDING
    covers = (pl.col("threat_eps") == eps) | (nearest & (pl.col("threat_eps") >= eps))
    clean = pl.col("threat_norm").is_null()
    return (
        attempts(rows)
        .filter(clean | ((pl.col("threat_norm") == threat.axis) & (own | nearest)))
        .filter(covers.any().over(*NETWORK))
        .with_columns(correct=pl.col("correct") | ~(clean | own | near))
        .select(rows.columns)
    )


def survivors(rows: pl.DataFrame, threat: Budget) -> pl.DataFrame:
    """One row per network and example that all checks of a threat saw.

    Returns:
        `run`, `weights`, `example`; `correct` if it survives all of them; `unsettled` if it survives so far and one of
        them, or a component, has not run on it; `not_run`, why one could not.
    """
    counted = within(rows, threat).with_columns(checks=pl.col("check").n_unique().over(*NETWORK))
    examples = counted.group_by(*NETWORK, "example", maintain_order=True).agg(
        pl.col("correct").all(),
        pl.col("checks").first(),
        seen=pl.col("check").n_unique(),
        unsettled=unsettled().any(),
        not_run=pl.col("not_run").drop_nulls().first(),
    )
    unsettled_so_far, reason = pl.col("correct") & pl.col("unsettled"), pl.when("correct").then("not_run")
    return examples.filter(pl.col("seen") == pl.col("checks")).select(
        *NETWORK, "example", "correct", unsettled=unsettled_so_far, not_run=reason
    )


def worst_case(rows: pl.DataFrame, among: Sequence[Budget] | None = None) -> pl.DataFrame:
    """The share of the examples that survives each threat, with its Wilson interval: the headline of a ledger.

    Args:
        rows: of a ledger.
        among: the threats; None for all that an attack in the rows has.

    Returns:
        A row per network and threat: `run`, `weights`, `norm`, `eps`, `check` (its title), `examples` that all checks
        of the threat saw, `correct`, `checks` (names of those that count, clean images included), `unsettled`,
        `not_attacked`, `reason`, `accuracy`, `low`, `high`. Where `unsettled` is not zero, the accuracy is only an
        upper bound.
    """
    tried = attempts(rows)
    chosen = threats(tried) if among is None else among
    return with_interval(pl.concat([_counted(tried, threat) for threat in chosen or [Budget("", 0.0)]]))


def _counted(rows: pl.DataFrame, threat: Budget) -> pl.DataFrame:
    name = {"norm": pl.lit(threat.axis), "eps": pl.lit(threat.size), "check": pl.lit(title(threat))}
    checks = within(rows, threat).group_by(*NETWORK).agg(checks=pl.col("check").unique().sort())
    counts = survivors(rows, threat).group_by(*NETWORK, maintain_order=True)
    sums = counts.agg(
        examples=pl.len(),
        correct=pl.col("correct").sum(),
        unsettled=pl.col("unsettled").sum(),
        not_attacked=not_attacked().sum(),
        reason=reasons(),
    )
    order = ("examples", "correct", "checks", "unsettled", "not_attacked", "reason")
    return sums.join(checks, on=list(NETWORK), maintain_order="left").select(
        *NETWORK, **name, **{column: pl.col(column) for column in order}
    )


def _place(threat: Budget) -> tuple[int, str, float]:
    order = ORDER.index(threat.axis) if threat.axis in ORDER else len(ORDER)
    return order, threat.axis, threat.size
