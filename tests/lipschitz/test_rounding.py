"""The unit of rounding and what follows from it."""

from fractions import Fraction

import pytest
import torch

from holdfast.lipschitz.rounding import EXACT, Rounding, double, gamma, outward


@pytest.mark.parametrize("terms", [1, 3, 32, 1000, 2**50])
def test_gamma_is_that_of_higham(terms):
    exact = Fraction(terms, 2**53) / (1 - Fraction(terms, 2**53))
    assert gamma(terms) == pytest.approx(float(exact), rel=1e-15)


def test_sums_of_products_are_no_farther_off_than_gamma():
    values = torch.linspace(0.1, 1, 1001, dtype=torch.float64).square().tolist()
    total, exact = 0.0, sum((Fraction(a) * Fraction(a) for a in values), Fraction(0))
    for a in values:
        total += a * a
    assert 0 < abs(Fraction(total) - exact) <= Fraction(gamma(len(values))) * exact


def test_outward_is_up_by_more_than_so_many_roundings():
    assert outward(1.0) == 1 + 4 * 2.0**-53
    assert outward(3.0, 2.0**50) == pytest.approx(3 * 8 / 7, rel=1e-15)


def test_errors_add_and_grow_with_the_length_of_the_image():
    one = Rounding(1.0, 2.0) * 3.0 + Rounding(0.5, 0.25)
    assert one == Rounding(3.5, 6.25)
    lengths = torch.tensor([0.0, 2.0], dtype=torch.float64)
    torch.testing.assert_close(one.at(lengths), 1.01 * torch.tensor([3.5, 16.0], dtype=torch.float64))
    assert EXACT == Rounding() == Rounding(0.0, 0.0)


def test_tensors_stay_where_they_are_if_float64_exists_there():
    tensor = torch.ones(2, device="meta", requires_grad=True)  # a device that nothing can be copied from
    assert double(tensor).device == tensor.device
    assert double(tensor).dtype == torch.float64
    assert not double(torch.ones(2, requires_grad=True)).requires_grad
