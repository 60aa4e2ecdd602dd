"""Boundary thickness: the closed form on linear networks, and the promises of an analysis."""

import math

import pytest
import torch
from torch import nn

from holdfast.attacks import PGD
from holdfast.questions.thickness.measurement import boundary_thickness
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from holdfast.threat import L2
from tests.zoo import images, smooth

DIMENSIONS = 400


def two_logits(slope):
    """Logits 0 and u, where u rises by `slope` along the diagonal and is 0 in the middle of the cube."""
    model = nn.Linear(DIMENSIONS, 2).double()
    with torch.no_grad():
        model.weight.zero_()
        model.weight[1] = slope / math.sqrt(DIMENSIONS)
        model.bias.copy_(torch.tensor([0.0, -slope * math.sqrt(DIMENSIONS) / 2]))
    return model


def off_centre(distance):
    """A point on the diagonal, this far from the boundary on the side of class 1."""
    return torch.full((1, DIMENSIONS), 0.5 + distance / math.sqrt(DIMENSIONS), dtype=torch.float64)


def across(length):
    """An attack that goes straight for this length."""
    return PGD(threat=L2(length), steps=5, step_size=length, random_start=False, until_lost=False)


@pytest.mark.parametrize(("slope", "exact", "count"), [(2, 0.97295507, 41), (4, 0.48647754, 21), (8, 0.24323877, 10)])
def test_a_linear_network_has_the_closed_form(slope, exact, count):
    # Independent values in float64: ln 7 / |w|, and the count of 128 points on a segment of length 3.
    found = boundary_thickness(two_logits(slope), off_centre(1.5), attack=across(3.0))
    assert found.length.item() == pytest.approx(3)
    assert found.value.item() == pytest.approx(3 * count / 128)
    assert (found.source.item(), found.target.item(), found.reached.item()) == (1, 0, True)
    fine = boundary_thickness(two_logits(slope), off_centre(1.5), attack=across(3.0), points=50_000)
    assert fine.value.item() == pytest.approx(exact, abs=2e-4)
    assert exact == pytest.approx(math.log(7) / slope, abs=1e-8)


def test_a_band_longer_than_the_way_is_cut():
    found = boundary_thickness(two_logits(0.5), off_centre(1.5), attack=across(3.0), points=10_000)
    assert found.value.item() == pytest.approx(1.5, abs=1e-3)  # half of the segment, less than ln 7 / 0.5
    short = boundary_thickness(two_logits(2), off_centre(1.5), attack=across(0.5), points=1000)
    assert short.value.item() == 0.0  # it ends before the band begins
    assert not short.reached.item()


def test_other_bands_have_their_own_widths():
    found = boundary_thickness(two_logits(4), off_centre(1.5), alpha=-0.5, beta=0.5, attack=across(3.0), points=20_000)
    assert found.value.item() == pytest.approx(4 * math.atanh(0.5) / 4, abs=1e-3)


def test_targets_are_all_other_classes_equally_often():
    found = boundary_thickness(smooth(4), images(300), points=2, attack=across(0.1))
    assert not (found.target == found.source).any()
    steps = ((found.target - found.source) % 4).bincount(minlength=4)
    assert steps[0] == 0
    assert steps[1:].min() > 70


def test_no_segment_is_thicker_than_long_and_parts_of_segments_do_not_matter():
    model, x, rng = smooth(), images(7), Streams(1, "thickness", 7)
    whole = boundary_thickness(model, x, rng=rng)
    assert bool((whole.value <= whole.length).all())
    assert bool((whole.length <= 1 + 1e-9).all())
    small = boundary_thickness(model, x, batch=2, rng=Streams(1, "thickness", 7))
    torch.testing.assert_close(small.value, whole.value)


def test_leaves_everything_alone():
    model, x = smooth(), images(3)
    with same_random_states(), same_module(model), same_tensors(x):
        boundary_thickness(model, x)


def test_bands_that_hold_nothing_are_refused():
    for alpha, beta in ((0.5, 0.5), (-2, 0), (0, 1.1)):
        with pytest.raises(ValueError, match="expected -1 <= alpha < beta <= 1, got"):
            boundary_thickness(smooth(), images(1), alpha=alpha, beta=beta)
    with pytest.raises(ValueError, match="points must be at least 2, got 1"):
        boundary_thickness(smooth(), images(1), points=1)
