r"""The accuracy that noise in each band of frequencies takes: a paired query, on the rows of a ledger or on answers.

.. math:: \frac1N \sum_n 1\{f(x_n) = y_n\} - \frac1{NK} \sum_n \sum_k 1\{f(x_n + \delta_{n,k}) = y_n\}

The difference is taken example by example, with the mean over its :math:`K` draws of the noise, so that examples are
the clusters of the interval: draws of one image are not independent, images with noise of their own are.

Reference:
    Ma, Pan, Farahmand, Understanding the Robustness Difference between Stochastic Gradient Descent and Adaptive
    Gradient Methods, TMLR 2023, arXiv:2308.06703. Ma, Understanding Adversarial Robustness in Deep Learning, thesis,
    Toronto 2025, equation 4.5, which gives all images the same ten noises; then images would not be independent.
"""

from __future__ import annotations

import polars as pl

from holdfast.json_text import parse_json_object
from holdfast.statistics import spread
from holdfast.traits import Kind

METHOD = "band_noise"
"""Name of the check whose rows these are."""

FIELDS = {"bands": pl.Int64, "variance": pl.Float64, "rule": pl.String, "clip": pl.Boolean, "band": pl.Int64}
"""Its fields, all but the number of the draw."""

RULE_OF_THREE = 3.0
"""Expected number of an event below which none of many examples shows it with a probability of 5 % or more."""

NETWORK = ("run", "weights")
KEY = (*NETWORK, *FIELDS)
"""What distinguishes one drop from another: run and weights, then the fields of the noise."""


def band_drops(rows: pl.DataFrame) -> pl.DataFrame:
    """Accuracy that noise in each band takes, over the examples that clean images and all draws of the band have.

    Args:
        rows: of a ledger, with clean images.

    Returns:
        What `drops` makes of them.
    """
    return drops(_per_example(rows))


def drops(examples: pl.DataFrame) -> pl.DataFrame:
    """The same from what is known of each example, as ledgers and the question `bands` have it.

    Args:
        examples: a row for each network, setting, band and example, in the order of the networks and bands: the columns
            `KEY`, the number of `draws`, and in which share of them (`noisy`), and on the `clean` image, it is right.

    Returns:
        A row for each network, setting and band: `KEY`, `examples`, `draws`, the accuracies `clean` and `noisy`, their
        difference `drop` and its 95 % interval `low` to `high`, null for a single example. Where all differences
        are equal, the interval is that of an event that none of so many examples has shown.
    """
    bands = examples.group_by(*KEY, maintain_order=True).agg(
        examples=pl.len(),
        draws=pl.col("draws").first(),
        clean=pl.col("clean").mean(),
        noisy=pl.col("noisy").mean(),
        drops=pl.col("clean") - pl.col("noisy"),
    )  # fmt: skip
    spreads = [spread(each) for each in bands["drops"].to_list()]
    drop = pl.Series([each.mean for each in spreads], dtype=pl.Float64)
    half = pl.Series([each.half for each in spreads], dtype=pl.Float64)
    half = pl.select(pl.when(half == 0).then(RULE_OF_THREE / bands["examples"]).otherwise(half)).to_series()
    return bands.drop("drops").with_columns(drop=drop, low=drop - half, high=drop + half)


def _per_example(rows: pl.DataFrame) -> pl.DataFrame:
    """Whether each example is right, and the share of a band's draws in which it is; a row for each band."""
    clean = rows.filter(pl.col("kind") == Kind.CLEAN).select(*NETWORK, "example", clean=pl.col("correct"))
    noisy = rows.filter(pl.col("method") == METHOD).join(_settings(rows), on="params", maintain_order="left")
    examples = noisy.with_columns(draws=pl.col("params").n_unique().over(KEY)).group_by(*KEY, "example").agg(
        pl.col("draws").first(), seen=pl.len(), noisy=pl.col("correct").mean()
    )  # fmt: skip
    return (
        examples.filter(pl.col("seen") == pl.col("draws"))
        .join(clean.with_columns(pl.col("clean").cast(pl.Float64)), on=[*NETWORK, "example"])
        .sort(*KEY, "example")
    )


def _settings(rows: pl.DataFrame) -> pl.DataFrame:
    """The fields of the noise, by their text in the ledger."""
    texts = rows.filter(pl.col("method") == METHOD)["params"].unique(maintain_order=True).to_list()
    settings = [{"params": text, **parse_json_object(text)} for text in texts]
    return pl.DataFrame(settings, schema={"params": pl.String, **FIELDS})
