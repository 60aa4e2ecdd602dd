"""Confidence in few numbers."""

import polars as pl
import pytest

from holdfast.analysis.confidence_summary import summarise_confidences
from holdfast.statistics import wilson

ROWS = pl.DataFrame({
    "clean_likeliest": [0.9, 0.7], "clean_true": [0.9, 0.2], "clean_right": [True, False],
    "random_likeliest": [[0.8, 0.6], [0.8, 0.6]], "random_true": [[0.8, 0.3], [0.1, 0.3]],
    "random_right": [[True, False], [False, False]],
    "pgd1_likeliest": [[0.5, 0.4], [0.7, 0.4]], "pgd1_true": [[0.5, 0.0], [0.1, 0.0]],
    "pgd1_right": [[True, True], [True, False]],
})  # fmt: skip


def test_every_cell_is_a_mean_over_the_images():
    found = {(one.points, one.eps): one for one in summarise_confidences(ROWS, radii=[0.1, 0.2])}
    assert list(found) == [("clean", 0.0), ("random", 0.1), ("random", 0.2), ("pgd1", 0.1), ("pgd1", 0.2)]
    clean = found["clean", 0.0]
    assert (clean.likeliest.mean, clean.true.mean) == (pytest.approx(0.8), pytest.approx(0.55))
    assert (clean.accuracy, clean.interval, clean.examples) == (0.5, wilson(1, 2), 2)
    assert clean.likeliest.half == pytest.approx(1.959964 * 0.1)
    assert (found["random", 0.1].true.mean, found["random", 0.2].true.mean) == pytest.approx((0.45, 0.3))
    assert [one.accuracy for one in found.values()] == [0.5, 0.5, 0.0, 1.0, 0.5]
    assert [round(one.likeliest.mean, 6) for one in found.values()] == [0.8, 0.8, 0.6, 0.6, 0.4]


def test_radii_are_told_in_growing_order_whatever_that_of_the_lists():
    found = summarise_confidences(ROWS, radii=[0.2, 0.1])
    assert [(one.eps, round(one.likeliest.mean, 6)) for one in found[1:3]] == [(0.1, 0.6), (0.2, 0.8)]
