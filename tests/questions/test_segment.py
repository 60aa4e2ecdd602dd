"""The loss along a segment and its expansions."""

import dataclasses
import math

import pytest
import torch

from holdfast.losses import cross_entropy, margin
from holdfast.questions.segment.measurement import image_numbers, loss_along_segment, taylor_errors
from holdfast.rng import Streams
from tests.objectives.logistic import BEND, WEIGHT, F, Logistic, X, Y
from tests.zoo import Saturated, half_space, half_space_points_at, images, labels, linear, smooth

Z = torch.tensor([[0.1, 0.9]], dtype=torch.float64)


def test_closed_form_of_the_logistic_regression():
    segment = loss_along_segment(Logistic(), X, Z, Y, points=5)
    t, rise = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=torch.float64), float((Z - X)[0] @ WEIGHT)
    score = float(X[0] @ WEIGHT) + t * rise
    torch.testing.assert_close(segment.places, t)
    torch.testing.assert_close(segment.loss[0], torch.log1p(torch.exp(-score)))
    assert float(segment.slope) == pytest.approx((F - 1) * rise, abs=1e-9)
    assert float(segment.bend) == pytest.approx(BEND * rise**2, abs=1e-9)
    first = -math.log(F) + t * (F - 1) * rise
    torch.testing.assert_close(segment.first[0], first, rtol=0, atol=1e-9)
    torch.testing.assert_close(segment.second[0], first + t**2 / 2 * BEND * rise**2, rtol=0, atol=1e-9)


def test_derivatives_are_those_of_the_loss_along_the_segment():
    model, x, y = smooth(), images(6), labels(6, 5)
    z = (x + 0.1 * Streams(0, "", 6).normal(x)).clamp(0, 1)
    h = 1e-4
    for around in (0.0, 0.5, 1.0):
        segment = loss_along_segment(model, x, z, y, around=around)
        low, here, high = (
            cross_entropy(model(x + (around + shift) * (z - x)), y).detach() for shift in (-h, 0.0, h)
        )  # fmt: skip
        torch.testing.assert_close(segment.slope, (high - low) / (2 * h), rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(segment.bend, (high - 2 * here + low) / h**2, rtol=1e-4, atol=1e-5)


def test_a_linear_loss_needs_no_second_order_and_errors_vanish():
    model, x, y = linear(2), images(4), labels(4, 2)
    segment = loss_along_segment(model, x, images(4, seed=3), y, loss=margin)
    errors = taylor_errors(segment, tolerance=1e-9)
    assert float(errors.first.max()) < 1e-12
    assert float(segment.bend.abs().max()) == 0
    assert torch.equal(errors.first_reach, torch.ones(4, dtype=torch.float64))


def test_errors_are_of_the_expansion_over_the_loss():
    segment = loss_along_segment(Logistic(), X, Z, Y, points=3)
    made = dataclasses.replace(
        segment,
        places=torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64),
        loss=torch.tensor([[1.0, 2.0, 5.0]]),
        first=torch.tensor([[1.0, 1.5, 2.0]]),
        second=torch.tensor([[1.0, 2.05, 5.5]]),
    )
    errors = taylor_errors(made, tolerance=0.1)
    assert float(errors.first) == 3
    assert float(errors.first_end) == -3
    assert float(errors.second_end) == pytest.approx(0.5)
    assert float(errors.first_reach) == 0
    assert float(errors.second_reach) == 0.5
    crossing = dataclasses.replace(made, first=torch.tensor([[1.0, 3.0, 5.0]]))  # right again at the end, by chance
    assert float(taylor_errors(crossing, tolerance=0.1).first_reach) == 0


def test_a_sure_network_is_flat_at_the_image_and_not_half_way():
    """Section 3.3.4: expanded at the image, the loss at the other end is missed; from half way it is seen coming."""
    model, distance = half_space(), 0.02
    x, y = half_space_points_at(model, distance, "l2", 5)
    sure, normal = Saturated(model, 200.0), model.weight.detach() / model.weight.detach().norm()
    z = x - 2 * distance * (2 * y - 1)[:, None] * normal  # the image in the mirror of the boundary
    here = loss_along_segment(sure, x, z, y)
    assert float(here.slope.abs().max()) < 1e-3
    assert bool((taylor_errors(here).second_end < -10).all())
    later = taylor_errors(loss_along_segment(sure, x, z, y, around=0.5))
    assert bool((later.first_end.abs() < taylor_errors(here).first_end.abs()).all())
    assert bool((later.second_end > 0).all())  # it overshoots, which a bound may


def test_expansions_touch_the_loss_where_they_are_made():
    model, x, y = smooth(), images(4), labels(4, 5)
    segment = loss_along_segment(model, x, images(4, seed=1), y, points=5, around=0.25)
    for expansion in (segment.first, segment.second):
        torch.testing.assert_close(expansion[:, 1], segment.loss[:, 1])


def test_results_do_not_depend_on_the_batch_and_nothing_is_left_behind():
    model, x, y = smooth(), images(7), labels(7, 5)
    z = images(7, seed=2)
    whole = loss_along_segment(model, x, z, y, points=6)
    few = loss_along_segment(model, x, z, y, points=6, batch=8)
    torch.testing.assert_close(whole.loss, few.loss)
    parts = [loss_along_segment(model, *(values[at : at + 3] for values in (x, z, y)), points=6) for at in (0, 3, 6)]
    for name in ("loss", "first", "second", "slope", "bend"):
        torch.testing.assert_close(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_number_of_an_image_is_its_own_in_every_batch_and_precision():
    x = images(6).float()
    numbers = image_numbers(x)
    assert len(set(numbers.tolist())) == 6
    assert torch.equal(image_numbers(x[2:3].double()), numbers[2:3])
    assert image_numbers(x + 1e-6)[0] != numbers[0]
    assert 0 <= int(numbers.min()) <= int(numbers.max()) < 2**53  # exact in JSON


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="points must be at least 2, got 1"):
        loss_along_segment(Logistic(), X, Z, Y, points=1)
    with pytest.raises(ValueError, match=r"around must lie in \[0, 1\], got 2"):
        loss_along_segment(Logistic(), X, Z, Y, around=2.0)
    with pytest.raises(ValueError, match="tolerance must be positive"):
        taylor_errors(loss_along_segment(Logistic(), X, Z, Y), tolerance=0.0)
