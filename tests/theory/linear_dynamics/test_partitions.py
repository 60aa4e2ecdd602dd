"""Propositions 4.D.4 and 4.D.7 over grids of pairs, as they hold and as they are printed."""

import math

import pytest
import torch

from holdfast.rng import Streams
from holdfast.theory.linear_dynamics.descent import descend
from holdfast.theory.linear_dynamics.optimisers import SignGD
from holdfast.theory.linear_dynamics.partitions import (
    STATIONARY,
    end_regions,
    limits,
    pair,
    predicted_moving_steps,
    sign_step,
    start_regions,
)
from holdfast.theory.linear_dynamics.problem import Problem, dct_basis, thesis_problem, thesis_start, vector
from holdfast.theory.linear_dynamics.signs import arrival, moving_steps, sign_terms
from tests import chance

SLOPES = (1.0, 0.5, 0.34)
"""Of the second variance to the first: where the printed partition R has no overlaps."""


def pairs(count, top, seed=0):
    """Uniform A in (-1, 1) and B in (-top, top)."""
    draws = 2 * Streams(seed, "pairs", count).uniform(torch.empty(count, 2, dtype=torch.float64)) - 1
    return draws[:, 0], top * draws[:, 1]


def orbit(a, b, slope, steps):
    path = [(a, b)]
    for _ in range(steps):
        path.append(sign_step(*path[-1], slope))
    return torch.stack([a for a, _ in path]), torch.stack([b for _, b in path])


def share(mask):
    return float(mask.double().mean())


@pytest.mark.parametrize("slope", SLOPES)
def test_every_pair_near_the_end_lies_in_one_region(slope):
    regions = end_regions(*pairs(20_000, 4.0), slope)
    assert list(regions) == ["R11", "R12", "R21", "R22", "R23", "R31", "R32", "R33", "R34"]
    assert bool((torch.stack([*regions.values()]).sum(0) == 1).all())
    assert all(bool(region.any()) for region in regions.values())


@pytest.mark.parametrize("slope", [0.3, 0.25, 0.1])
def test_below_a_third_the_printed_regions_overlap_and_the_last_is_empty(slope):
    regions = end_regions(*pairs(20_000, 4.0), slope)
    assert share(torch.stack([*regions.values()]).sum(0) > 1) > 0.01
    assert not bool(regions["R34"].any())


def test_regions_are_as_printed():
    """By the definitions, with unions over many multiples, at the slope of figure 4.8."""
    a, b = pairs(5000, 4.0, seed=1)
    regions = end_regions(a, b, 1.0)
    inner, x = a.abs() < 1 / 3, a.abs()
    even = torch.stack([x > (b + k).abs() for k in range(-8, 9, 2) if k]).any(0)
    odd = torch.stack([x + (b + k).abs() < 1 / 3 for k in range(-9, 10, 2)]).any(0)
    assert torch.equal(regions["R32"], inner & even)
    assert torch.equal(regions["R33"], inner & odd)
    outside = ((a + 1).abs() < b.abs()) | ((a - 1).abs() < b.abs())
    middle = (x > 1 / 3) & (x < 2 / 3) & (x > b.abs())
    assert torch.equal(regions["R23"], middle & outside)
    assert torch.equal(regions["R22"], middle & ~outside)


@pytest.mark.parametrize("slope", [*SLOPES, 0.1])
def test_a_stationary_region_is_reached_within_three_steps(slope):
    path = orbit(*pairs(20_000, 4.0), slope, 3)
    inside = torch.stack([end_regions(*path, slope)[name] for name in STATIONARY]).any(0)
    assert bool(inside.any(0).all())
    if slope == 1:
        assert not bool(inside[:3].any(0).all())  # and not before


@pytest.mark.parametrize("slope", SLOPES)
def test_from_there_on_each_region_does_what_it_does(slope):
    a, b = pairs(20_000, 4.0)
    regions = end_regions(a, b, slope)
    x, y = orbit(a, b, slope, 40)
    last = end_regions(x[-2:], y[-2:], slope)
    for name in ("R22", "R31"):  # B stays, A alternates
        kept = regions[name]
        torch.testing.assert_close(y[:, kept], b[kept].expand(41, -1))
        torch.testing.assert_close(x[2:, kept], x[:-2, kept])
    for name in ("R32", "R33"):  # they end in R31, or one step of A from it
        assert bool(last["R31"][:, regions[name]].any(0).all())
    assert bool(last["R34"][:, regions["R34"]].all())
    assert float(y[-2:, regions["R34"]].abs().max()) <= slope
    torch.testing.assert_close(x[2:, regions["R34"]], x[:-2, regions["R34"]])


@pytest.mark.parametrize("slope", SLOPES)
def test_stationary_regions_are_not_closed_as_printed(slope):
    a, b = pairs(20_000, 4.0)
    kept = end_regions(a, b, slope)["R31"]
    after = sign_step(a[kept], b[kept], slope)
    assert bool(end_regions(*after, slope)["R12"].all())
    assert float(after[0].abs().min()) > 2 / 3  # the printed bound of |A|


def test_pairs_of_r32_and_r33_alternate_only_after_they_enter_r31():
    a, b = pairs(20_000, 4.0)
    regions = end_regions(a, b, 1.0)
    x, _ = orbit(a, b, 1.0, 40)
    for name in ("R32", "R33"):
        change = (x[2:, regions[name]] - x[:-2, regions[name]]).abs()
        assert float(change.max()) > 0.5
        assert float(change[-10:].max()) < 1e-9


@pytest.mark.parametrize("slope", [1.0, 0.5, 0.25])
def test_limits_hold_and_the_printed_ones_are_exceeded(slope):
    """Remark 4.D.5, for starts far from 0: all pairs that R34 does not keep end in R31 or R12, beyond 2/3."""
    a, b = pairs(20_000, 4.0, seed=2)
    x, y = orbit(a, b + 100 * slope * b.sign(), slope, 140)
    e0, e1 = x[-2:].abs().amax(0) * math.sqrt(3), y[-2:].abs().amax(0) * math.sqrt(2) / slope
    first, second = limits(slope)
    assert 0.95 * first < float(e0.max()) <= first + 1e-9
    assert float(e1.max()) <= second + 1e-9
    expected = min(1.0, 1 / (3 * slope))
    assert share(e0 > 2 * math.sqrt(3) / 3) == pytest.approx(expected, abs=chance.share_error(20_000, expected))


def test_the_printed_limit_of_the_second_error_is_exceeded():
    a, b = pairs(20_000, 0.5, seed=2)
    kept = end_regions(a, b, 0.25)["R22"]
    _, y = orbit(a[kept], b[kept], 0.25, 2)
    assert limits(0.25)[1] == pytest.approx(2 * math.sqrt(2))
    assert 0.9 * limits(0.25)[1] < float(y[-1].abs().max()) * math.sqrt(2) / 0.25 <= limits(0.25)[1]


def random_paths(slope, *, problems=400, rate=0.02, seed=0):
    """Random problems trained to the end: targets 3 N(0, I), starts N(0, I)."""
    draws = Streams(seed, "problems", problems).normal(torch.empty(problems, 2, 3, dtype=torch.float64))
    target = 3 * draws[:, 0]
    target[:, 2] = 0
    problem = Problem(variances=vector(0.01, 0.01 * slope, 0), target=target)
    return problem, descend(problem, SignGD(rate=rate), draws[:, 1], steps=500, basis=dct_basis(3))


@pytest.mark.parametrize("slope", [0.05, 0.25, 0.4, 1.0, 2.0])
def test_moving_steps_are_predicted_from_the_start(slope):
    problem, path = random_paths(slope)
    a, b = pair(problem, path[0], 0.02)
    low, high = predicted_moving_steps(a, b, slope)
    count = moving_steps(problem, path, 0.02)
    assert bool(((low <= count) & (count <= high)).all())
    assert float((high - low).max()) <= max(4.0, 1 / slope + 1) + 1e-9
    regions = start_regions(a, b, slope)
    assert bool((torch.stack([*regions.values()]).sum(0) == 1).all())
    alone = regions["P3" if slope > 1 / 3 else "P5"]
    assert bool((count == arrival(problem, path, 0.02))[alone].all())
    assert not bool(count[regions["P1"] | regions["P2"]].any())


def test_the_printed_interval_of_p4_misses_the_last_step():
    problem, path = random_paths(1.0)
    a, b = pair(problem, path[0], 0.02)
    kept = start_regions(a, b, 1.0)["P4"]
    count, printed = moving_steps(problem, path, 0.02), b.abs() - 1
    assert 0.3 < share((count > printed)[kept]) < 0.7
    assert bool((count < printed + 1)[kept].all())


def test_above_a_slope_of_2_the_count_of_p4_has_no_such_bound():
    problem, path = random_paths(4.0)
    a, b = pair(problem, path[0], 0.02)
    kept = start_regions(a, b, 4.0)["P4"]
    excess = moving_steps(problem, path, 0.02) - ((b.abs() - 1) / 4 + 1)
    assert float(excess[kept].max()) > 1
    with pytest.raises(ValueError, match="at most twice the first, got 4 times"):
        predicted_moving_steps(a, b, 4.0)


def test_the_start_of_the_thesis_lies_in_p6():
    a, b = pair(thesis_problem(), thesis_start(), 0.01)
    assert [name for name, inside in start_regions(a, b, 0.25).items() if bool(inside)] == ["P6"]
    low, high = predicted_moving_steps(a, b, 0.25)
    assert float(low) < 526 < float(high)


def test_a_step_is_that_of_training():
    problem, path = random_paths(0.7, problems=50)
    a, b = pair(problem, path, 0.02)
    x, y = sign_step(a[:-1], b[:-1], 0.7)
    clear = (a.abs() - b.abs()).abs()[:-1] > 1e-6
    torch.testing.assert_close(x[clear], a[1:][clear], rtol=0, atol=1e-6)
    torch.testing.assert_close(y[clear], b[1:][clear], rtol=0, atol=1e-6)
    torch.testing.assert_close(sign_terms(problem, path)[0], a * 0.01 * 0.02)
