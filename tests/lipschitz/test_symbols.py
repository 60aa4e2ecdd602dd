"""Symbols of cyclic convolutions: how many there are, and the rounding of their norm in closed form."""

import math

import pytest
import torch

from holdfast.lipschitz import symbols
from holdfast.lipschitz.norms import largest_singular_values
from holdfast.lipschitz.symbols import symbol_norm

UNIT = 2.0**-24


def gamma(terms):
    return terms * UNIT / (1 - terms * UNIT)


def kernel(*shape):
    return torch.arange(1.0, 1 + math.prod(shape), dtype=torch.float64).view(shape)


def seen(monkeypatch, weight, grid, stride=(1, 1), groups=1):
    """Shapes of the symbols whose norms are looked for at once, (frequencies, groups, outputs, inputs and phases)."""
    shapes = []
    monkeypatch.setattr(
        symbols,
        "largest_singular_values",
        lambda each: shapes.append(tuple(each.shape)) or largest_singular_values(each),
    )
    symbol_norm(weight, grid, stride=stride, dilation=(1, 1), groups=groups)
    return shapes


@pytest.mark.parametrize(
    ("weight", "grid", "stride", "expected"),
    [
        (kernel(2, 3, 3, 3), (6, 8), (1, 1), (4 * 8, 1, 2, 3)),  # frequencies 0 to 3 of 6
        (kernel(2, 3, 3, 3), (7, 8), (1, 1), (4 * 8, 1, 2, 3)),
        (kernel(2, 3, 3, 3), (6, 8), (2, 2), (2 * 4, 1, 2, 12)),
        (kernel(2, 3, 1, 3), (6, 8), (1, 1), (8, 1, 2, 3)),  # nothing changes along the height
        (kernel(2, 3, 3, 1), (6, 8), (1, 1), (4, 1, 2, 3)),
        (kernel(2, 3, 1, 1), (6, 8), (1, 1), (1, 1, 2, 3)),
    ],
)
def test_half_of_the_frequencies_are_looked_at_and_one_where_there_are_no_taps(
    weight, grid, stride, expected, monkeypatch
):
    assert seen(monkeypatch, weight, grid, stride) == [expected]


@pytest.mark.parametrize(("most", "expected"), [(100, [2] * 4), (1, [1] * 8), (143, [2] * 4), (144, [3, 3, 2])])
def test_no_more_numbers_are_held_at_once_than_allowed_but_one_frequency(most, expected, monkeypatch):
    # 4 outputs, 3 inputs and 4 phases are 48 numbers for each of eight frequencies.
    monkeypatch.setattr(symbols, "BLOCK", most)
    assert [shape[0] for shape in seen(monkeypatch, kernel(4, 3, 3, 3), (6, 8), (2, 2))] == expected


def test_symbols_held_at_once_take_64_mebibytes():
    assert symbols.BLOCK * torch.empty(0, dtype=torch.complex128).element_size() == 64 * 2**20


def bound(square, size, length):
    """Of a singular value whose square, and the trace of all, is known without error."""
    proved = 1 + gamma(8 * size * (size + 8))
    return math.sqrt((proved**2 + gamma(4 * (length + 8))) * square * (1 + gamma(16)))


@pytest.mark.parametrize(
    ("taps", "shape", "stride", "norm", "length", "terms", "absolute"),
    [
        # norm of the only symbol that counts, numbers in a row of it, taps and turns of the waves, absolute taps
        ([3.0, 4.0], (1, 1, 1, 2), (1, 1), 7.0, 1, 2 + 32 * 2, 7.0),
        ([3.0, 4.0], (1, 1, 1, 2), (1, 2), 5.0, 2, 2 + 32 * 1, 5.0),  # two phases, and no wave turns
        ([1.0, 2.0, 1.0], (1, 1, 1, 3), (1, 2), math.sqrt(8), 2, 3 + 32 * 2, math.sqrt(8)),
        ([1.0, 2.0, 3.0, 4.0], (1, 1, 2, 2), (1, 1), 10.0, 1, 4 + 32 * 3, 10.0),
        ([3.0, 4.0], (2, 1, 1, 1), (1, 1), 5.0, 2, 1 + 32 * 1, 5.0),  # two outputs
        ([0.03, 0.04], (1, 2, 1, 1), (1, 1), 0.05, 2, 1 + 32 * 1, 0.05),
    ],
)
def test_the_rounding_of_a_symbol_is_that_of_its_taps_and_waves(
    taps, shape, stride, norm, length, terms, absolute, monkeypatch
):
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", UNIT)
    weight = torch.tensor(taps, dtype=torch.float64).view(shape)
    found = symbol_norm(weight, (2, 4), stride=stride, dilation=(1, 1), groups=1)
    assert found.upper == pytest.approx(norm, rel=1e-12)
    assert found.rounding == pytest.approx(bound(norm**2, 1, length) - norm + gamma(terms) * absolute, rel=1e-7)
