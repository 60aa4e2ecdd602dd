"""The radius of mixed probabilities: values computed apart, and never more than the true radius."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.certify.mixture_radii import margin_mixture_radius


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=5), st.floats(0.5, 1.0), st.floats(0.1, 5))
def test_margins_hold_in_the_worst_case(logits, share, growth):
    """All margins shrink as fast as they may, and the accurate classifier is sure of another class."""
    h = tensor([logits])
    radius = margin_mixture_radius(h, growth, share)
    assert radius.item() >= 0
    if radius.item() == 0:
        return
    c = h.argmax(1).item()
    for part in (0.25, 0.5, 1 - 1e-9):
        moved = h.clone()
        moved[0, c] -= growth * part * radius.item()
        p = moved.softmax(1)[0]
        for j in set(range(len(logits))) - {c}:
            mixed = share * p
            mixed[j] += 1 - share
            assert mixed[c] >= mixed[j]


@pytest.mark.parametrize("growth", [0.25, 3.0])
@pytest.mark.parametrize("share", [0.6, 0.9])
def test_the_radius_of_two_margins_is_that_of_the_hyperbolic_tangent(growth, share):
    # Of two classes p_c - p_j = tanh(t / 2), so that a (p_c - p_j) = 1 - a at t = 2 artanh((1 - a) / a).
    h, off = tensor([[5.0, -1.0], [0.0, 4.0]]), 0.1
    margins = (h[:, 0] - h[:, 1]).abs() - off - 2 * math.atanh((1 - share) / share)
    radius = margin_mixture_radius(h, growth, share, off)
    torch.testing.assert_close(radius, margins / growth, rtol=1e-9, atol=0)
    assert bool((radius < margins / growth).all())  # rounded down
    assert bool((margin_mixture_radius(h, growth, share) > radius).all())  # nothing is off by default
    by_pairs = margin_mixture_radius(h, tensor([[0.0, growth], [2 * growth, 0.0]]), share, off)
    torch.testing.assert_close(by_pairs, radius / tensor([1.0, 2.0]), rtol=1e-9, atol=0)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_growth_is_refused(value):
    with pytest.raises(ValueError, match="growth must be positive and finite"):
        margin_mixture_radius(tensor([[1.0, 0.0]]), value, 0.9)


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_shares_are_shares(share):
    with pytest.raises(ValueError, match=r"share must lie in \(0, 1\]"):
        margin_mixture_radius(tensor([[1.0, 0.0]]), 1.0, share)


@pytest.mark.parametrize("share", [0.6, 0.9])
def test_rounding_is_counted_for_every_class_and_the_radius_rounded_down(share, monkeypatch):
    # With a unit of rounding that can be seen: of two classes gamma of 8 (2 + 32) is needed beyond (1 - a) / a.
    unit = 2.0**-24
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", unit)
    needed = (1 - share) / share + 272 * unit / (1 - 272 * unit)
    radius = margin_mixture_radius(tensor([[5.0, 1.0], [0.0, 4.0]]), 2.0, share)
    expected = (4 - 2 * math.atanh(needed)) / 2.0 * (1 - 32 * unit / (1 - 32 * unit))
    assert radius.tolist() == pytest.approx([expected] * 2, rel=1e-10)


def test_a_class_that_never_comes_nearer_does_not_decide():
    growth = tensor([[0.0, 0.0, 2.0], [0.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    found = margin_mixture_radius(tensor([[40.0, 0.0, 36.0]]), growth, 0.9)
    torch.testing.assert_close(found, margin_mixture_radius(tensor([[40.0, 36.0]]), 2.0, 0.9), rtol=1e-6, atol=0)
