"""Bounds of convolutions that are parts of cyclic ones, in closed form; `test_norms` tries them on random layers."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from holdfast.lipschitz.convolution_norms import Convolution, Transposed, convolution_norm
from tests.lipschitz.test_norms import normal, row, torch_layer, true_norm
from tests.lipschitz.test_symbols import UNIT, bound, gamma


def column(taps, size, **options):
    """The kernel along the height, in images of another width."""
    weight = torch.tensor(taps, dtype=torch.float64).view(1, 1, -1, 1)
    options = {name: pair[::-1] if isinstance(pair, tuple) else pair for name, pair in options.items()}
    return Convolution(weight=weight, size=(size, 8), **options)


def without_matrix(layer):
    return convolution_norm(layer, explicit=0)


@pytest.mark.parametrize("along", [row, column])
@pytest.mark.parametrize(
    ("taps", "size", "margins", "expected"),
    [
        ([-1.0, 2.0, -1.0], 3, (1, 1), 4),  # on four places, with the frequency pi
        ([-1.0, 1.0], 2, (3, 3), 2 * math.sin(3 * math.pi / 7)),  # on seven, one for each output
        ([-1.0, 1.0], 4, (0, 2), 2),
        ([-1.0, 1.0], 4, (1, 0), 2 * math.sin(2 * math.pi / 5)),
    ],
)
def test_zeros_at_the_border_are_on_the_smallest_torus_that_keeps_windows_apart(along, taps, size, margins, expected):
    layer = along(taps, size, margins=((0, 0), margins))
    found = without_matrix(layer)
    assert found.upper == pytest.approx(expected, rel=1e-12)
    assert found.upper >= true_norm(torch_layer(layer), "l2")
    assert not found.exact


@pytest.mark.parametrize("along", [row, column])
def test_the_torus_is_a_whole_number_of_strides(along):
    # Of 4 and a margin 5 places: on 6 the phases (1, -1) and (1) have 3 places each, the largest at 1/3 of a turn.
    found = without_matrix(along([1.0, 1.0, -1.0], 4, margins=((0, 0), (1, 1)), stride=(1, 2)))
    assert found.upper == pytest.approx(math.sqrt(abs(1 - np.exp(2j * np.pi / 3)) ** 2 + 1), rel=1e-12)


@pytest.mark.parametrize("along", [row, column])
def test_a_stride_that_does_not_divide_a_cyclic_image_is_bounded_by_all_places(along):
    # |1 + w - w^2| = sqrt(1 + 4 sin^2), on five places.
    layer = along([1.0, 1.0, -1.0], 5, margins=((0, 0), (1, 1)), stride=(1, 2), circular=True)
    assert without_matrix(layer).upper == pytest.approx(math.sqrt(1 + 4 * math.sin(2 * math.pi / 5) ** 2), rel=1e-12)


@pytest.mark.parametrize("along", [row, column])
def test_wide_cyclic_margins_count_as_copies(along):
    # Ten places with two copies of each value.
    layer = along([1.0, 1.0, -1.0], 5, margins=((0, 0), (0, 5)), circular=True)
    turns = np.exp(2j * np.pi * np.arange(10) / 10)
    assert without_matrix(layer).upper == pytest.approx(math.sqrt(2) * np.abs(1 + turns - turns**2).max(), rel=1e-12)


@pytest.mark.parametrize("along", [row, column])
@pytest.mark.parametrize(("margin", "stride"), [(1, 1), (4, 2), (4, 1)])
def test_outputs_that_come_again_on_the_torus_are_longer(along, margin, stride):
    layer = along([1.0], 4, margins=((0, 0), (0, margin)), stride=(1, stride), circular=True)
    assert true_norm(torch_layer(layer), "l2") == pytest.approx(math.sqrt(2))
    assert without_matrix(layer).upper == pytest.approx(math.sqrt(2), rel=1e-12)


@pytest.mark.parametrize("circular", [False, True])
@pytest.mark.parametrize("size", [(10, 9), (8, 8)])
def test_patches_that_do_not_overlap_have_the_norm_of_one(size, circular):
    layer = Convolution(weight=normal(5, 3, 4, 4), size=size, stride=(4, 4), circular=circular)
    found = without_matrix(layer)
    assert found.exact
    assert found.upper == pytest.approx(true_norm(layer.weight.flatten(1), "l2"), rel=1e-12)


@pytest.mark.parametrize(
    ("stride", "margins"), [((3, 2), (0, 0)), ((2, 3), (0, 0)), ((3, 3), (1, 0)), ((3, 3), (0, 1))]
)
def test_windows_that_share_a_value_or_reach_into_the_margin_are_not_patches(stride, margins):
    layer = Convolution(weight=normal(2, 2, 3, 3), size=(7, 7), stride=stride, margins=(margins, (0, 0)))
    assert not without_matrix(layer).exact


def test_defaults_are_those_of_torch():
    weight, x = normal(4, 3, 2, 3), normal(5, 3, 6, 7, seed=1)
    torch.testing.assert_close(Convolution(weight=weight, size=(6, 7))(x), F.conv2d(x, weight))


def test_matrices_of_up_to_1024_rows_and_columns_are_written_out():
    assert convolution_norm(row([1.0, 1.0], 1024)).exact
    found = convolution_norm(row([1.0, 1.0], 1025))
    assert not found.exact
    assert found.estimate is None


def test_a_transposed_layer_is_estimated_only_if_asked_for():
    layer = Transposed(Convolution(weight=normal(3, 3, 3, 3), size=(20, 20), margins=((1, 1), (1, 1))))
    assert layer.norm("l2").estimate is None
    assert 0 < layer.norm("l2", steps=2).estimate < layer.norm("l2").upper


# The rounding, with a unit that can be seen.


@pytest.fixture
def _visible(monkeypatch):
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", UNIT)


@pytest.mark.usefixtures("_visible")
@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_sums_of_absolute_values_are_rounded_for_each_weight(norm):
    layer = Convolution(weight=torch.ones(2, 2, 1, 3, dtype=torch.float64), size=(1, 5))
    assert layer.norm(norm).upper == 6
    assert layer.norm(norm).rounding == pytest.approx(gamma(12) * 6, rel=1e-12)


@pytest.mark.usefixtures("_visible")
def test_a_written_matrix_is_rounded_as_its_singular_values_and_where_taps_meet():
    # (3, 4) on two values, of sums 4 and 7 of absolute values.
    found = convolution_norm(row([3.0, 4.0], 2))
    sums = math.sqrt(4 * 7)
    met = gamma(2 + 32) * sums * (1 + gamma(2 + 32)) * (1 + gamma(4))
    assert found.upper == pytest.approx(5, rel=1e-12)
    assert found.rounding == pytest.approx(bound(25, 1, 2) - 5 + met, rel=1e-9)


@pytest.mark.usefixtures("_visible")
def test_the_bound_by_sums_is_rounded_for_each_weight_and_the_roots():
    # Of (2, 2) on three values rows and columns have sums of 4; the torus has the same norm and more rounding.
    layer = Convolution(weight=torch.full((1, 1, 1, 2), 2.0, dtype=torch.float64), size=(1, 3))
    found = without_matrix(layer)
    assert found.upper == pytest.approx(4, rel=1e-12)
    assert found.rounding == pytest.approx(gamma(2 + 32) * 4, rel=1e-9)
