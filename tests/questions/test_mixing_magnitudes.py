"""Sizes of gradients in few numbers."""

import numpy as np
import polars as pl
import pytest

from holdfast.questions.mixing.gradients import correlation, quantiles, ratio_spread, summarise_magnitudes


def numbers(seed=0, shape=(50, 3)):
    return np.random.default_rng(seed).gamma(2.0, size=shape)


def rows(standard, robust):
    return pl.DataFrame({"standard_clean": standard.tolist(), "robust_clean": robust.tolist()})


def test_correlations_are_those_of_numpy():
    values = numbers(shape=(40, 6))
    np.testing.assert_allclose(correlation(values), np.corrcoef(values.T), atol=1e-12)


def test_what_does_not_vary_correlates_with_nothing():
    values = numbers()
    values[:, 1] = 0.1  # whose sum rounds
    found = correlation(values)
    assert np.isnan(found[1]).all()
    assert np.isnan(found[:, 1]).all()
    assert found[0, 2] == pytest.approx(np.corrcoef(values[:, [0, 2]].T)[0, 1])
    assert np.isnan(correlation(values[:1])).all()


def test_blocks_are_told_apart():
    standard = numbers()
    robust = np.stack([standard[:, 0], -standard[:, 0], standard[:, 0]], axis=1) + 20
    found = summarise_magnitudes(rows(standard, robust), "clean")
    whole = np.corrcoef(np.concatenate((standard, robust), axis=1).T)
    assert found.within_robust == pytest.approx((1 - 1 - 1) / 3)  # the diagonal does not count
    assert found.within_standard == pytest.approx(whole[:3, :3][~np.eye(3, dtype=bool)].mean())
    assert found.between == pytest.approx(whole[:3, 3:].mean())
    assert found.means == (pytest.approx(standard.mean()), pytest.approx(robust.mean()))
    np.testing.assert_allclose(np.array(found.correlation), whole, atol=1e-12)


def test_quantiles_of_each_class():
    values = numbers()
    found = quantiles(values, 5)
    assert found == pytest.approx(np.quantile(values, [0, 0.25, 0.5, 0.75, 1], axis=0).T)
    summary = summarise_magnitudes(rows(values, values), "clean")
    assert [column[0] for column in summary.standard] == values.min(axis=0).tolist()
    assert [column[-1] for column in summary.robust] == values.max(axis=0).tolist()


def test_proportional_sizes_have_a_ratio_that_does_not_vary():
    values = numbers()
    assert ratio_spread(3 * values, values) == pytest.approx(0, abs=1e-12)
    ratio = numbers(1)
    assert ratio_spread(ratio * values, values) == pytest.approx(np.median(ratio.std(axis=0) / ratio.mean(axis=0)))
    assert ratio_spread(values, 0 * values) is None
    assert ratio_spread(0 * values, values) is None


def test_one_image_of_constant_networks_says_nothing():
    found = summarise_magnitudes(rows(np.ones((1, 2)), np.ones((1, 2))), "clean")
    assert found.within_standard is None
    assert found.correlation == [[None] * 4] * 4
