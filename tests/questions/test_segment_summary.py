"""Segments in few numbers."""

import math

import numpy as np
import polars as pl
import pytest

from holdfast.questions.segment.measurement import loss_along_segment, taylor_errors
from holdfast.questions.segment.summary import SegmentSummary, lines
from tests.zoo import images, labels, smooth

ROWS = pl.DataFrame({
    "loss": [[0.0, 1.0, 4.0], [1.0, 1.0, 1.0]], "start": [0.0, 1.0], "slope": [1.0, 0.0], "bend": [2.0, 4.0],
    "first_end": [-3.0, 0.0], "second_end": [-2.0, 2.0], "first_reach": [0.0, 1.0], "second_reach": [0.5, 0.0],
    "right": [True, False], "right_at_end": [False, False],
})  # fmt: skip
"""A loss that grows as t² times 4 from a sure image, and a flat one of an image that is not."""


@pytest.mark.parametrize("around", [0.0, 0.3])
def test_lines_are_those_that_were_measured(around):
    x, z, y = images(5), images(5, seed=1), labels(5, 5)
    way = loss_along_segment(smooth(), x, z, y, points=7, around=around)
    stored = {"loss": way.loss, "start": way.first[:, 0], "slope": way.slope, "bend": way.bend}
    drawn = lines(pl.DataFrame({name: values.tolist() for name, values in stored.items()}), around=around)
    for name in ("places", "loss", "first", "second"):
        np.testing.assert_allclose(getattr(drawn, name), getattr(way, name).numpy(), rtol=1e-9, atol=1e-9)


def test_means_errors_and_shares_of_every_place():
    found = SegmentSummary(ROWS, 0.0)
    assert (found.share("right"), found.share("right_at_end")) == (0.5, 0.0)
    start, middle, end = found.curve
    assert [at.place for at in found.curve] == [0, 0.5, 1]
    assert (start.loss.mean, middle.loss.mean, end.loss.mean) == (0.5, 1.0, 2.5)
    assert (end.first.mean, end.second.mean) == (1.0, 2.5)  # 1 and 1; 1 + 1 and 1 + 2
    assert (end.first_error.mean, end.second_error.mean) == (1.5, 2.0)  # absolute: -2 and +2 do not cancel
    assert (middle.first_within, middle.second_within) == (0.5, 0.5)
    assert (start.first_within, end.first_within, end.second_within) == (1.0, 0.5, 0.0)
    assert middle.loss.half == 0


def test_reach_has_quartiles_and_the_signed_error_at_the_end():
    first, second = SegmentSummary(ROWS, 0.0).reaches
    assert (first.lower, first.median, first.upper) == (0.25, 0.5, 0.75)
    assert (first.to_the_end, second.to_the_end) == (0.5, 0.0)
    assert (first.end.mean, second.end.mean) == (-1.5, 0.0)


def test_what_is_foreseen_is_told_for_sure_images_and_for_the_others():
    everyone, sure, others = SegmentSummary(ROWS, 0.0).groups
    assert (everyone.examples, sure.examples, others.examples) == (2, 1, 1)
    assert (sure.rise.mean, sure.first, sure.second) == (4.0, 0.25, 0.5)
    assert (others.rise.mean, others.first, others.second) == (0.0, None, None)  # nothing to foresee
    assert (everyone.first, everyone.second) == (0.25, 1.0)  # of 2 on average, 0.5 and 2
    near = ROWS.with_columns(loss=pl.Series([[-math.log(0.99) - 1e-9, 1, 4], [-math.log(0.98), 1, 1]]))
    assert [group.examples for group in SegmentSummary(near, 0.0).groups] == [2, 1, 1]
    unsure = ROWS.with_columns(loss=pl.Series([[1.0, 1.0, 4.0], [1.0, 1.0, 1.0]]))
    assert SegmentSummary(unsure, 0.0).groups[1].rise is None


def test_places_of_reaches_are_found_whatever_their_last_digit():
    """A reach is computed by torch in float64 and compared with places of numpy."""
    x, z, y = images(8), images(8, seed=1), labels(8, 5)
    way = loss_along_segment(smooth(), x, z, y, points=21)
    errors = taylor_errors(way, tolerance=0.1)
    rows = pl.DataFrame({
        "loss": way.loss.tolist(), "start": way.first[:, 0].tolist(), "slope": way.slope.tolist(),
        "bend": way.bend.tolist(), "right": [True] * 8, "right_at_end": [True] * 8,
        **{name: getattr(errors, name).tolist() for name in ("first_end", "second_end", "first_reach", "second_reach")},
    })  # fmt: skip
    found = SegmentSummary(rows, 0.0)
    wrong = ((way.first - way.loss).abs() > 0.1).cumsum(1) > 0
    expected = (~wrong).double().mean(0).tolist()
    assert [at.first_within for at in found.curve] == pytest.approx(expected)
    assert 0 < sum(at.first_within < 1 for at in found.curve) < 21
