"""Summaries of the certificates of a ledger: certified accuracy, average radius, area, and who refutes them.

All functions take rows of a ledger and look at those with a radius. An example counts as certified at a radius if the
answer is right and the certificate reaches that far. A certifier that abstains gives no answer, and so no right one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import polars as pl

from holdfast.results.summaries import is_certificate, with_interval
from holdfast.traits import NETWORK

GROUP = ("run", "weights", "check", "method", "norm", "certifies")
"""What tells certificates apart, but for their examples."""

SLACK = 1e-3, 1e-5
"""Share of a radius, and distance, by which rounding may carry an attack inside a certificate that holds."""


NO_SHORTER = {"l1": ("l1",), "l2": ("l1", "l2"), "linf": ("l1", "l2", "linf")}
"""Norms in which no distance is shorter than in the given one: a point found so near in them is so near in it."""


def certified_accuracy(rows: pl.DataFrame, radii: Sequence[float]) -> pl.DataFrame:
    r"""Share of the examples that are right and certified at each radius, with its Wilson interval.

    .. math:: \mathrm{CA}(r) = \frac1n \sum_i \mathbf 1[\hat y_i = y_i,\ R_i \ge r]

    Args:
        rows: of a ledger; those of other checks are ignored.
        radii: :math:`r`, in the norm of the certificate; what comes twice counts once.

    Returns:
        A row for each certificate and radius, with the column `at` for :math:`r`.
    """
    once = list(dict.fromkeys(float(radius) for radius in radii))  # an example twice at a radius would count twice
    at = pl.DataFrame({"at": once}, schema={"at": pl.Float64})
    each = rows.filter(is_certificate()).select(*GROUP, "correct", "radius").join(at, how="cross")
    groups = each.group_by(*GROUP, "at", maintain_order=True).agg(
        examples=pl.len(), correct=(pl.col("correct") & (pl.col("radius") >= pl.col("at"))).sum()
    )
    return with_interval(groups)


def average_certified_radius(rows: pl.DataFrame, *, alpha: float = 0.05) -> pl.DataFrame:
    r"""The mean radius of each certificate, in which wrong and abstaining answers count as 0.

    .. math:: \mathrm{ACR} = \frac1n \sum_i R_i\, \mathbf 1[\hat y_i = y_i]
        \pm z_{1 - \alpha / 2}\, \frac{s}{\sqrt n}

    Returns:
        A row for each certificate: `average` with `low` and `high` (normal interval, cut at 0; null for one example),
        the `largest` radius of a right answer, and how many examples were `correct` and `abstained`.

    Reference:
        Zhai et al., MACER: Attack-free and Scalable Robust Training via Maximizing Certified Radius, ICLR 2020,
        arXiv:2001.02378.
    """
    counted = pl.col("radius") * pl.col("correct")
    half = NormalDist().inv_cdf(1 - alpha / 2) * counted.std() / pl.len().sqrt()
    return (
        rows.filter(is_certificate())
        .group_by(*GROUP, maintain_order=True)
        .agg(
            examples=pl.len(),
            correct=pl.col("correct").sum(),
            abstained=(pl.col("prediction") < 0).sum(),
            average=counted.mean(),
            low=(counted.mean() - half).clip(lower_bound=0.0),
            high=counted.mean() + half,
            largest=counted.max(),
            queries=pl.col("queries").mean(),
            seconds=pl.col("seconds").sum(),
        )
    )


def certified_area(rows: pl.DataFrame, step: float) -> pl.DataFrame:
    r"""Area under the certified accuracy by trapezoids of equal width.

    .. math:: \mathrm{AUC}_{CR} = \tfrac12 \Delta \sum_{j \ge 0} \bigl(\mathrm{CA}((j + 1) \Delta)
        + \mathrm{CA}(j \Delta)\bigr)

    An example with radius :math:`R` stands at :math:`\lfloor R / \Delta \rfloor + 1` of the points, so that it adds
    :math:`\Delta (\lfloor R / \Delta \rfloor + \frac12)`: the area is the average certified radius up to
    :math:`\Delta / 2`. The paper counts examples where this has their share; times :math:`n` it is the paper's.

    Args:
        rows: of a ledger; those of other checks are ignored.
        step: :math:`\Delta`.

    Returns:
        A row for each certificate with its `area`.

    Reference:
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, appendix B.1.
    """
    if not 0 < step < math.inf:
        raise ValueError(f"step must be positive and finite, got {step}")
    each = pl.when("correct").then(step * ((pl.col("radius") / step).floor() + 0.5)).otherwise(0.0)
    return rows.filter(is_certificate()).group_by(*GROUP, maintain_order=True).agg(area=each.mean())


def contradictions(rows: pl.DataFrame) -> pl.DataFrame:
    """Certificates of the network that another check refutes: an error of the certificate or of that check.

    A certificate says that the prediction is the same at every point nearer than its radius. A row of another check
    that has another prediction at a smaller distance cannot be, whether the check is an attack or not. Distances in the
    same norm count, and in norms that are never shorter; 0 is 0 in every norm.

    Returns:
        A row for each such pair, the most glaring first: `run`, `weights`, `check` (the certificate), `norm`,
        `example`, `prediction`, `radius`, and `found_by`, `found` (the other prediction) and `distance` of the point.
    """
    keys = ["run", "weights", "weights_hash", "example"]
    proved = rows.filter(_about_the_network())
    points = rows.filter(~is_certificate()).select(
        *keys, "distance", found_by="check", found="prediction", found_in="norm"
    )
    share, length = SLACK
    refuted = (
        (_no_shorter("found_in", pl.col("norm")) | (pl.col("distance") == 0))
        & (pl.col("found") != pl.col("prediction"))
        & (pl.col("distance") < (1 - share) * pl.col("radius") - length)
    )
    pairs = proved.drop("distance").join(points, on=keys, how="inner", maintain_order="left_right").filter(refuted)
    return pairs.sort(pl.col("distance") - pl.col("radius"), maintain_order=True).select(
        "run", "weights", "check", "norm", "example", "prediction", "radius", "found_by", "found", "distance"
    )


def nearest_breaks(rows: pl.DataFrame, norm: str) -> pl.DataFrame:
    """How near each example of a network is to a wrong answer, as far as the checks in a norm have found out.

    Every wrong answer counts, whatever budget it was found with, at its distance in the norm or in one that is never
    shorter; one to the image itself counts at 0 in every norm, also that of a certificate of the network.

    Returns:
        A row for each run, weights and example: `distance` of the nearest wrong point, null where none was found.
    """
    of_network = ~is_certificate() | _about_the_network()
    wrong = ~pl.col("correct") & (_no_shorter("norm", pl.lit(norm)) | (pl.col("distance") == 0))
    nearest = pl.col("distance").filter(wrong & pl.col("distance").is_finite()).min()
    return rows.filter(of_network).group_by("run", "weights", "example", maintain_order=True).agg(distance=nearest)


def _about_the_network() -> pl.Expr:
    """Rows of certificates that are about the network itself, where they give an answer."""
    return is_certificate() & (pl.col("certifies") == NETWORK) & (pl.col("prediction") >= 0)


def _no_shorter(column: str, norm: pl.Expr) -> pl.Expr:
    """Whether distances in the norms of a column bound those in another norm."""
    bounding = [(norm == name) & pl.col(column).is_in(others) for name, others in NO_SHORTER.items()]
    return pl.any_horizontal(pl.col(column) == norm, *bounding)


def round_step(largest: float, count: int = 8) -> float:
    """The step of 1, 2, 2.5 or 5 times a power of ten that takes about `count` steps to the largest value."""
    if not 0 < largest < math.inf:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest / count))
    return min((factor * power for factor in (1, 2, 2.5, 5, 10)), key=lambda step: abs(largest / step - count))


def round_radii(largest: float, count: int = 8) -> tuple[float, ...]:
    """About `count` round radii from 0 up to the largest one; 0 alone where nothing is certified."""
    if not 0 < largest < math.inf:
        return (0.0,)
    step = round_step(largest, count)
    return tuple(float(f"{number * step:.12g}") for number in range(int(largest / step * (1 + 1e-12)) + 1))
