import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.lipschitz.convolution_norms import Convolution, absolute_sums, convolution_norm
from holdfast.lipschitz.norms import (
    NO_SUMS,
    CircularPadding,
    Dense,
    Diagonal,
    OperatorNorm,
    Sums,
    concatenated,
    exactly,
    largest_singular_values,
    power_iteration,
    repeated,
)
from holdfast.lipschitz.rules.pooling import windows_sharing
from holdfast.lipschitz.slopes import ACTIVATIONS, GELU, SILU
from holdfast.lipschitz.symbols import symbol_norm
from holdfast.rng import Streams

ORDERS = {"l1": 1, "l2": 2, "linf": torch.inf}
NORMS = list(ORDERS)


def normal(*shape, seed=0):
    return Streams(seed, "norms", 1).normal(torch.empty(1, *shape, dtype=torch.float64))[0]


def operator(apply, *shape):
    """The matrix of a linear map, from what it makes of all unit vectors."""
    units = torch.eye(math.prod(shape), dtype=torch.float64)
    return apply(units.view(-1, *shape)).flatten(1).mT


def true_norm(matrix, norm):
    return torch.linalg.matrix_norm(matrix, ORDERS[norm]).item()


def torch_layer(layer):
    """The same convolution by torch's own layers, with another way to pad."""

    def apply(x):
        (top, bottom), (left, right) = layer.margins
        if layer.circular:
            rows = torch.arange(-top, layer.size[0] + bottom) % layer.size[0]
            columns = torch.arange(-left, layer.size[1] + right) % layer.size[1]
            wider = x[:, :, rows][:, :, :, columns]
        else:
            wider = nn.ZeroPad2d((left, right, top, bottom))(x)
        return F.conv2d(wider, layer.weight, None, layer.stride, 0, layer.dilation, layer.groups)

    return operator(apply, layer.weight.shape[1] * layer.groups, *layer.size)


def row(taps, size, **options):
    """A kernel along the width."""
    weight = torch.tensor(taps, dtype=torch.float64).view(1, 1, 1, -1)
    return Convolution(weight=weight, size=(1, size), **options)


@pytest.mark.parametrize("norm", NORMS)
def test_dense_norm_is_that_of_the_matrix(norm):
    for shape in ((3, 7), (7, 3), (5, 5), (1, 4)):
        weight = normal(*shape)
        found = Dense(weight).norm(norm)
        assert found.exact
        assert found.upper == found.estimate == pytest.approx(true_norm(weight, norm), rel=1e-12)


def test_weights_in_float32_are_measured_in_float64():
    weight = normal(200, 300).float()
    assert Dense(weight).norm("l2").upper == pytest.approx(true_norm(weight.double(), "l2"), rel=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_diagonal_norm_is_its_largest_factor(norm):
    assert Diagonal(torch.tensor([[0.5], [-3.0]])).norm(norm).upper == 3


@pytest.mark.parametrize(("size", "expected"), [(6, 2.0), (5, 2 * math.sin(2 * math.pi / 5)), (2, 2.0), (1, 0.0)])
def test_a_cyclic_difference_grows_by_the_largest_of_its_symbols(size, expected):
    # The symbol of (1, -1) is 2 |sin(pi f / n)|.
    layer = row([1.0, -1.0], size, margins=((0, 0), (0, 1)), circular=True)
    assert convolution_norm(layer).upper == pytest.approx(expected, abs=1e-12)


def test_a_cyclic_mean_of_stride_two_has_the_norm_of_its_phases():
    # Phases of (1, 1, 1): the first sees two taps, the second one; at frequency 0 the norm is sqrt(2^2 + 1).
    layer = row([1.0, 1.0, 1.0], 6, margins=((0, 0), (1, 1)), stride=(1, 2), circular=True)
    assert convolution_norm(layer).upper == pytest.approx(math.sqrt(5), rel=1e-12)


def test_with_zeros_at_the_border_the_neighbour_sum_is_a_tridiagonal_matrix():
    # Its eigenvalues are 2 cos(pi j / (n + 1)); the torus of n + 1 has 2.
    layer = row([1.0, 0.0, 1.0], 5, margins=((0, 0), (1, 1)))
    assert convolution_norm(layer).upper == pytest.approx(math.sqrt(3), rel=1e-12)
    bounded = convolution_norm(layer, explicit=0, steps=500)
    assert not bounded.exact
    assert bounded.upper == pytest.approx(2, rel=1e-12)
    assert bounded.estimate == pytest.approx(math.sqrt(3), rel=1e-5)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("groups", [1, 2])
def test_cyclic_norms_are_exact(kernel, stride, groups):
    before = (kernel - 1) // 2
    margins = ((before, kernel - 1 - before),) * 2
    weight = normal(6, 4 // groups, kernel, kernel, seed=kernel)
    layer = Convolution(weight=weight, size=(6, 8), margins=margins, stride=(stride,) * 2, groups=groups, circular=True)
    matrix = torch_layer(layer)
    for norm in NORMS:
        found = layer.norm(norm)
        assert found.exact
        assert found.upper == pytest.approx(true_norm(matrix, norm), rel=1e-12)


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_sums_of_absolute_values_are_exact_at_borders_of_zeros(norm, stride):
    for padding, dilation, groups in ((0, 1, 1), (1, 1, 2), (2, 2, 1), (4, 1, 4)):
        layer = Convolution(
            weight=normal(4, 4 // groups, 3, 2),
            size=(7, 5),
            margins=((padding, padding), (padding, 0)),
            stride=(stride, 1),
            dilation=(dilation, 1),
            groups=groups,
        )
        found = layer.norm(norm)
        assert found.exact
        assert found.upper == pytest.approx(true_norm(torch_layer(layer), norm), rel=1e-12)


@st.composite
def convolutions(draw):
    groups = draw(st.sampled_from([1, 1, 2]))
    channels = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 3))
    kernel = [draw(st.integers(1, 5)) for _ in range(2)]
    dilation = [draw(st.sampled_from([1, 1, 2])) for _ in range(2)]
    size = [draw(st.integers(2, 7)) for _ in range(2)]
    circular = draw(st.booleans())
    margins = []
    for side, taps, apart in zip(size, kernel, dilation, strict=True):
        missing = max(0, (taps - 1) * apart + 1 - side)
        before = draw(st.integers(0, min(4, side)))
        after = draw(st.integers(max(0, missing - before), max(4, missing)))
        margins.append((before, min(after, side) if circular else after))
    layer = Convolution(
        weight=normal(channels[1], channels[0] // groups, *kernel, seed=draw(st.integers(0, 99))),
        size=tuple(size),
        margins=tuple(margins),
        stride=tuple(draw(st.integers(1, 3)) for _ in range(2)),
        dilation=tuple(dilation),
        groups=groups,
        circular=circular,
    )
    wide = all(
        side + sum(around) > (taps - 1) * apart
        for side, around, taps, apart in zip(size, margins, kernel, dilation, strict=True)
    )
    return layer if wide else dataclasses.replace(layer, weight=layer.weight[..., :1, :1])


@given(convolutions())
@settings(max_examples=120, deadline=None)
def test_no_convolution_is_longer_than_its_bound_nor_shorter_than_its_estimate(layer):
    matrix = torch_layer(layer)
    true = {norm: true_norm(matrix, norm) for norm in NORMS}
    for found, truth in (
        (layer.norm("l1"), true["l1"]),
        (layer.norm("linf"), true["linf"]),
        (layer.norm("l2"), true["l2"]),
        (convolution_norm(layer, explicit=0, steps=10), true["l2"]),
    ):
        assert found.upper >= truth * (1 - 1e-12)
        if found.exact:
            assert found.upper == pytest.approx(truth, rel=1e-10)
        elif found.estimate is not None:
            assert found.estimate <= truth * (1 + 1e-12)


def test_the_bound_of_a_padded_convolution_is_near_its_norm():
    layer = Convolution(weight=normal(8, 6, 3, 3), size=(12, 12), margins=((1, 1), (1, 1)))
    truth = true_norm(torch_layer(layer), "l2")
    found = convolution_norm(layer, explicit=0, steps=1000)
    assert truth <= found.upper <= 1.1 * truth
    assert found.estimate == pytest.approx(truth, rel=1e-4)


def test_nothing_is_estimated_unless_asked_for():
    layer = Convolution(weight=normal(24, 24, 3, 3), size=(16, 16), margins=((1, 1), (1, 1)))
    assert not layer.norm("l2").exact
    assert layer.norm("l2").estimate is None
    assert layer.norm("l2", steps=1).estimate is not None


@pytest.mark.parametrize(("outputs", "stride"), [(1, 2), (16, 1)])
def test_a_matrix_is_written_out_only_if_both_sides_are_small(outputs, stride):
    layer = Convolution(weight=normal(outputs, 2, 3, 3), size=(7, 7), stride=(stride, stride))
    sides = sorted((2 * 49, outputs * len(range(0, 5, stride)) ** 2))
    assert not convolution_norm(layer, explicit=sides[1] - 1).exact
    assert convolution_norm(layer, explicit=sides[1]).exact


def test_a_circular_image_that_the_stride_does_not_divide_is_bounded_and_not_called_exact():
    layer = Convolution(weight=normal(2, 2, 3, 3), size=(5, 7), margins=((1, 1), (1, 1)), stride=(2, 2), circular=True)
    found = convolution_norm(layer, explicit=0)
    assert not found.exact
    assert found.upper >= true_norm(torch_layer(layer), "l2")


def test_blocks_of_frequencies_do_not_change_the_norm(monkeypatch):
    weight = normal(4, 3, 3, 3)

    def measured():
        return symbol_norm(weight, (8, 6), stride=(2, 2), dilation=(1, 1), groups=1).upper

    whole = measured()
    monkeypatch.setattr("holdfast.lipschitz.symbols.BLOCK", 1)
    assert measured() == pytest.approx(whole, rel=1e-13)


def test_a_kernel_that_meets_itself_on_the_torus_is_not_called_exact():
    layer = row([1.0, 0.0, -1.0], 2, margins=((0, 0), (1, 1)), circular=True)  # both ends see the same value
    assert true_norm(torch_layer(layer), "linf") == 0
    assert layer.norm("linf").upper == 2
    assert not layer.norm("linf").exact
    assert layer.norm("l2").upper == pytest.approx(0, abs=1e-12)


def counted_iterations(apply, size, **options):
    """The result of power iteration and the number of its steps."""
    calls = []
    shape, like = (1, size), torch.zeros((), dtype=torch.float64)
    reached = power_iteration(lambda v: calls.append(1) or apply(v), shape, like, steps=2000, **options)
    return reached, len(calls)


def test_power_iteration_of_nothing_is_zero_at_once():
    layer = Convolution(weight=torch.zeros(1, 1, 3, 3, dtype=torch.float64), size=(4, 4), margins=((1, 1), (1, 1)))
    assert power_iteration(layer, (1, 1, 4, 4), layer.weight, steps=5) == 0
    assert absolute_sums(layer) == {"l1": 0, "linf": 0}
    assert counted_iterations(lambda v: 0 * v, 3) == (0, 1)


@pytest.mark.parametrize("options", [{}, {"tolerance": 1e-3}])
def test_power_iteration_stops_when_a_step_raises_its_value_by_less_than_the_tolerance(options):
    # Of a diagonal matrix, whose powers are known.
    factors = torch.tensor([1.0, 0.99, 0.5], dtype=torch.float64)
    start = Streams(0, "power iteration", 1).normal(torch.empty(1, 3, dtype=torch.float64))[0]
    powers = [factors ** (2 * k) * start for k in range(2000)]
    values = [float((factors * v).norm() / v.norm()) for v in powers]
    steps = next(k for k in range(1, 2000) if values[k] <= values[k - 1] * (1 + options.get("tolerance", 1e-7)))
    reached, calls = counted_iterations(lambda v: factors * v, 3, **options)
    assert calls == steps + 1
    assert reached == pytest.approx(values[steps], rel=1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("margins", [((0, 0), (0, 0)), ((1, 0), (0, 0)), ((1, 2), (3, 3)), ((3, 2), (0, 1))])
def test_circular_padding_grows_by_its_copies(norm, margins):
    (top, bottom), (left, right) = margins
    matrix = operator(nn.CircularPad2d((left, right, top, bottom)), 1, 3, 4)
    found = CircularPadding((3, 4), margins).norm(norm)
    assert found.upper == pytest.approx(true_norm(matrix, norm), rel=1e-12)


def test_rounding_of_margins_is_that_of_sums_of_copies():
    padding = CircularPadding((3, 4), ((1, 2), (3, 2)))
    assert padding.terms == 0
    assert padding.absolute() == Sums(2 * 3, 1)


def test_bounds_grow_with_a_factor_and_are_rounded_up():
    one = exactly(2.0, 0.5)
    assert one.exact
    assert one.certain == pytest.approx(2.5)
    assert one.certain >= 2.5 * (1 + 2.0**-52)
    assert not (one * 3.0).exact
    assert ((one * 3.0).upper, (one * 3.0).rounding) == pytest.approx((6.0, 1.5))
    assert OperatorNorm(upper=2.0).rounding == exactly(2.0).rounding == 0
    assert not OperatorNorm(upper=2.0).exact
    assert not OperatorNorm(upper=2.0, estimate=1.9).exact


def test_sums_of_products_and_of_sums_of_matrices():
    first, then = Sums(2.0, 8.0), Sums(3.0, 5.0)
    assert [first.of(norm) for norm in NORMS] == pytest.approx([2, 4, 8])
    assert then.after(first) == (6, 40)
    assert then.after(first, 0.5) == (3, 20)
    assert then.plus(first) == (5, 13)
    assert then.plus(NO_SUMS) == then


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (2, 4, 5, 3), (2, 4, 3, 5), (4, 2, 1, 6)])
def test_singular_values_come_from_the_smaller_square(shape, monkeypatch):
    seen, eigvalsh = [], torch.linalg.eigvalsh
    monkeypatch.setattr(torch.linalg, "eigvalsh", lambda square: seen.append(square.shape) or eigvalsh(square))
    largest_singular_values(normal(*shape))
    assert seen == [(*shape[:-2], min(shape[-2:]), min(shape[-2:]))]


@pytest.mark.parametrize("leading", [(), (2, 3)])
def test_the_slack_of_a_singular_value_is_that_of_its_proof(leading, monkeypatch):
    # With a unit of rounding that can be seen, and values that float64 computes without error.
    unit = 2.0**-24
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", unit)

    def gamma(terms):
        return terms * unit / (1 - terms * unit)

    matrix = torch.zeros(4, 6, dtype=torch.float64)
    matrix.diagonal().copy_(torch.tensor([4.0, 2.0, 1.0, 0.5]))
    squares = [16.0, 16 + 4 + 1 + 0.25]
    proved = (1 + gamma(8 * 4 * (4 + 8))) ** 2 * squares[0]
    expected = math.sqrt((proved + gamma(4 * (6 + 8)) * squares[1]) * (1 + gamma(16)))
    for each in (matrix, matrix.mT):
        value, upper = largest_singular_values(each.expand(*leading, *each.shape))
        assert value.shape == upper.shape == leading
        torch.testing.assert_close(value, torch.full(leading, 4.0, dtype=torch.float64), rtol=1e-15, atol=0)
        torch.testing.assert_close(upper, torch.full(leading, expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_the_slack_of_nothing_is_what_may_underflow():
    _, upper = largest_singular_values(torch.zeros(2, 3, dtype=torch.float64))
    assert float(upper) == pytest.approx(1e-150 + math.sqrt(torch.finfo(torch.float64).tiny), rel=1e-9)


def test_sums_of_a_matrix_are_rounded_for_each_weight(monkeypatch):
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", 2.0**-24)
    for norm, largest in (("l1", 2), ("linf", 3)):
        found = Dense(torch.ones(2, 3)).norm(norm)
        assert found.upper == largest
        assert found.rounding == pytest.approx(6 * 2.0**-24 * largest / (1 - 6 * 2.0**-24), rel=1e-12)


def test_copies_and_concatenation_are_norms_of_vectors():
    assert [repeated(4, norm) for norm in NORMS] == [4, 2, 1]
    assert [concatenated([3.0, 4.0], norm) for norm in NORMS] == [7, 5, 4]


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation"), [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2)])
def test_windows_sharing_a_value_are_counted(kernel, stride, padding, dilation):
    pooled = F.max_pool1d(torch.zeros(1, 1, 9), kernel, stride, padding, dilation)
    ones = torch.ones(1, 1, 9, requires_grad=True)
    total = F.conv1d(ones, torch.ones(1, 1, kernel), None, stride, padding, dilation).sum()
    (count,) = torch.autograd.grad(total, ones)
    found = windows_sharing(9, pooled.shape[-1], kernel=kernel, stride=stride, padding=padding, dilation=dilation)
    assert found == int(count.max())


OPTIONS = {"prelu": (torch.tensor([0.25]),), "clamp": (-1.0, 1.0)}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_as_steep_as_said_and_no_steeper(name):
    x = torch.linspace(-9, 9, 180_001, dtype=torch.float64)
    options = OPTIONS.get(name, ())
    call = getattr(F, name, None) or getattr(torch, name)
    values = call(x, *(option.double() if torch.is_tensor(option) else option for option in options))
    steepest = (values.diff() / x.diff()).abs().max()
    stated = ACTIVATIONS[name](*options)
    assert stated * (1 - 2e-4) <= steepest <= stated + 1e-10


def test_options_make_activations_steeper():
    assert ACTIVATIONS["leaky_relu"](-2.0) == 2
    assert ACTIVATIONS["elu"](3.0) == 3
    assert ACTIVATIONS["prelu"](torch.tensor([0.1, -4.0])) == 4
    assert ACTIVATIONS["gelu"]("tanh") == pytest.approx(1.12899307, abs=1e-8)
    assert ACTIVATIONS["celu"](-1.0) == ACTIVATIONS["celu"](0.0) == math.inf
    assert ACTIVATIONS["softplus"](beta=0.0) == math.inf


def test_constants_of_gelu_and_silu_are_rounded_up_at_the_tenth_digit():
    assert 0 <= GELU - (0.5 * (1 + math.erf(1)) + math.exp(-1) / math.sqrt(math.pi)) < 1e-9
    steepest = 2.3993572805154675  # root of x tanh(x / 2) = 2
    gate = 1 / (1 + math.exp(-steepest))
    assert steepest * math.tanh(steepest / 2) == pytest.approx(2, abs=1e-12)
    assert 0 <= SILU - (gate + steepest * gate * (1 - gate)) < 1e-9
