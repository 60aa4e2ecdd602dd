"""Accuracy that noise in bands of frequencies takes, from ledgers."""

import json
import math

import polars as pl
import pytest

from holdfast.corruptions import BandNoise
from holdfast.earlier import with_traits
from holdfast.recipe.plain import plain
from holdfast.results import SCHEMA
from holdfast.results.band_drops import FIELDS, METHOD, band_drops
from holdfast.types import Corruption


def rows(correct, *, band=None, draw=0, run="a", weights="best", first=0, **fields):
    """Rows of one check, one per entry of `correct`: of clean images without a band."""
    check = None if band is None else BandNoise(band=band, draw=draw, **fields)
    ((method, params),) = {"clean": {}}.items() if check is None else plain(check, Corruption).items()
    return with_traits(pl.DataFrame(
        [
            {
                "run": run, "weights": weights, "weights_hash": "0", "check": f"{method} {band} {draw} {fields}",
                "method": method, "params": json.dumps(params, sort_keys=True), "example": first + i, "label": 0,
                "prediction": 0 if right else 1, "correct": bool(right), "loss": 0.5, "norm": "l2", "distance": 0.0,
                "queries": 1, "seconds": 0.1, "seed": 0,
            }
            for i, right in enumerate(correct)
        ],
        schema=SCHEMA,
    ))  # fmt: skip


def test_the_fields_are_those_of_the_noise():
    ((name, fields),) = plain(BandNoise(band=3), Corruption).items()
    assert name == METHOD
    assert fields.keys() == {*FIELDS, "draw"}


def test_the_drop_is_clean_minus_the_mean_over_draws():
    ledger = pl.concat([
        rows([1, 1, 1, 0]),
        rows([1, 1, 0, 0], band=0),
        rows([1, 0, 0, 1], band=0, draw=1),
        rows([1, 1, 1, 0], band=1),
        rows([1, 1, 1, 0], band=1, draw=1),
    ])  # fmt: skip
    low, high = band_drops(ledger).iter_rows(named=True)
    assert (low["band"], low["examples"], low["draws"]) == (0, 4, 2)
    assert (low["clean"], low["noisy"], low["drop"]) == (0.75, 0.5, 0.25)
    # Differences of the examples: 0, 0.5, 1 and -0.5, whose variance is 1.25 / 3.
    half = 1.959964 * math.sqrt(1.25 / 3 / 4)
    assert (low["low"], low["high"]) == (pytest.approx(0.25 - half), pytest.approx(0.25 + half))
    assert (high["band"], high["drop"], high["low"], high["high"]) == (1, 0, -0.75, 0.75)  # none of four


def test_draws_of_an_example_are_no_further_examples():
    # The same answers in every draw: twice as many draws say nothing more.
    clean, noisy = rows([1] * 10), [1, 0] * 5
    once = band_drops(pl.concat([clean, rows(noisy, band=0)]))
    twice = band_drops(pl.concat([clean, *[rows(noisy, band=0, draw=draw) for draw in range(4)]]))
    assert once.drop("draws").equals(twice.drop("draws"))
    assert twice["draws"].to_list() == [4]


def test_only_examples_that_clean_images_and_all_draws_have_count():
    ledger = pl.concat([
        rows([1, 1, 1, 1], first=1),
        rows([0, 0, 1, 0, 0], band=0),
        rows([0, 0, 1, 0], band=0, draw=1),
        rows([0, 0, 0, 0, 0], band=1),
    ])  # fmt: skip
    low, high = band_drops(ledger).iter_rows(named=True)
    assert (low["examples"], low["drop"]) == (3, pytest.approx(2 / 3))  # examples 1, 2 and 3
    assert (high["examples"], high["drop"]) == (4, 1)  # a draw that another band lacks


def test_networks_and_settings_are_kept_apart():
    ledger = pl.concat([
        *[rows([1, 1], run=run, weights=weights) for run, weights in (("b", "best"), ("a", "last"), ("a", "best"))],
        rows([1, 1], band=0),
        rows([0, 0], band=0, run="b"),
        rows([0, 1], band=0, weights="last"),
        rows([0, 0], band=0, variance=0.5),
        rows([0, 0], band=0, bands=4),
        rows([0, 0], band=0, clip=True),
        rows([0, 0], band=0, rule="radius"),
    ])  # fmt: skip
    drops = band_drops(ledger)
    assert len(drops) == 7
    assert drops["draws"].to_list() == [1] * 7
    plain_noise = drops.filter(bands=10, variance=0.01, clip=False, rule="rank")
    assert plain_noise.select("run", "weights", "drop").rows() == [
        ("a", "best", 0),
        ("a", "last", 0.5),
        ("b", "best", 1),
    ]


def test_bands_are_in_order_and_one_example_has_no_interval():
    ledger = pl.concat([rows([1]), *[rows([0], band=band) for band in (9, 2, 0)]])
    drops = band_drops(ledger)
    assert drops["band"].to_list() == [0, 2, 9]
    assert drops["low"].null_count() == 3


@pytest.mark.parametrize("ledger", [rows([1, 1]), rows([1, 1], band=0), rows([])])
def test_rows_without_noise_or_without_clean_images_have_no_drops(ledger):
    assert band_drops(ledger).is_empty()
