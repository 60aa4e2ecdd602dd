"""How rounding and bounds pass through the operations of a network, in closed form.

With a unit of rounding of 2^-12, even the rounding of bounds of rounding can be seen. Values are single numbers where
nothing else is said, so that all norms are absolute values.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz import Householder
from holdfast.lipschitz.bound import followed, lipschitz_bound
from holdfast.lipschitz.norms import Dense
from holdfast.lipschitz.tally import Tally
from holdfast.lipschitz.values import Step, Value
from tests.lipschitz.test_bound import Function

UNIT = 2.0**-12


@pytest.fixture(autouse=True)
def _visible_rounding(monkeypatch):
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", UNIT)


def gamma(terms):
    return terms * UNIT / (1 - terms * UNIT)


def up(value, terms=4):
    return value * (1 + gamma(terms))


def walked(model, *shape, norm="l1"):
    """The value of the output and its tally, for images of a shape."""
    tally = Tally(norm)
    return followed(tally, model.double(), torch.ones(1, *shape, dtype=torch.float64)), tally


def dense(rows, bias):
    layer = nn.Linear(len(rows[0]), len(rows)).double()
    with torch.no_grad():
        (
            layer.weight.copy_(torch.tensor(rows, dtype=torch.float64)),
            layer.bias.copy_(torch.tensor(bias, dtype=torch.float64)),
        )
    return layer


def number(factor, shift):
    return dense([[factor]], [shift])


def certain(factor):
    """The norm of a matrix of one number, rounded up."""
    return up(factor * (1 + gamma(1)))


def close(value, bound, constant, slope):
    assert value.bound == pytest.approx(bound, rel=1e-12)
    assert value.rounding.constant == pytest.approx(constant, rel=1e-12)
    assert value.rounding.slope == pytest.approx(slope, rel=1e-12)


# Chains of layers.


def test_the_rounding_of_layers_around_an_activation():
    value, _ = walked(nn.Sequential(number(3.0, 2.0), nn.ReLU(), number(-0.5, 0.25)), 1)
    k = up(certain(3.0), 32)
    a, b = gamma(33) * 2, gamma(33) * 2 * 3  # the output for zero, and twice the absolute values that are added up
    a, b = (  # 32 roundings of input, output and 1
        up(a, 32) + gamma(32) * ((2 + 2 * a) + 1 + 2),
        up(b, 32) + gamma(32) * (k + 2 * b),
    )
    last = certain(0.5)
    close(
        value,
        up(k * last, 32),
        a * last + gamma(33) * (2 * 0.5 * (2 + 2 * a) + 0.75),
        b * last + gamma(33) * 2 * 0.5 * (k + 2 * b),
    )


def test_the_rounding_of_layers_that_count_as_one():
    value, tally = walked(nn.Sequential(number(3.0, 2.0), number(-0.5, 0.25)), 1)
    a, b = gamma(33) * 2, gamma(33) * 2 * 3
    both = up(1.5 + gamma(1) * 1.5 + gamma(33) * 1.5)  # and what the product of the matrices was rounded by
    close(
        value,
        up(both, 32),
        a * 0.5 + gamma(33) * (2 * 0.5 * (2 + 2 * a) + 0.75),
        b * 0.5 + gamma(33) * 2 * 0.5 * (up(3.0, 32) + 2 * b),
    )
    assert [(layer.name, layer.kind, layer.norm) for layer in tally.layers] == [("0 + 1", "Linear", 1.5)]


def test_the_rounding_of_three_layers_that_count_as_one_behind_an_activation():
    value, _ = walked(nn.Sequential(nn.ReLU(), number(3.0, 2.0), number(-0.5, 0.25), number(4.0, 0.0)), 1)
    a0, b0 = gamma(32), gamma(32)  # of the activation: 1, and input with a bound of 1
    gains = [1.0, up(3.0, 32), up(up(3.0, 32) * 0.5, 32)]
    a, b = gamma(33) * (2 * 3 * 2 * a0 + 2), gamma(33) * 2 * 3 * (1 + 2 * b0)
    for gain, factor, before, after in ((gains[1], 0.5, 2.0, 0.75), (gains[2], 4.0, 0.75, 3.0)):
        a, b = (
            a * factor + gamma(33) * (2 * factor * (before + 2 * (a0 * gain + a)) + after),
            b * factor + gamma(33) * 2 * factor * (gain + 2 * (b0 * gain + b)),
        )
    # The slack of the first product goes through the last matrix, which adds its own.
    slack = gamma(33) * 6 + 4 * gamma(33) * 1.5
    norm = up(6 + gamma(1) * 6 + slack)
    close(value, up(norm, 32), a0 * norm + a, b0 * norm + b)


def test_a_sum_of_branches_adds_their_rounding_and_its_own():
    model = Function(lambda self, x: self.one(x) - self.two(x), one=number(3.0, 2.0), two=number(0.5, -1.0))
    value, tally = walked(model, 1)
    k = [up(certain(factor), 32) for factor in (3.0, 0.5)]
    a, b = gamma(33) * (2 + 1), gamma(33) * 2 * 3.5
    size = (3 + 2 * a, sum(k) + 2 * b)
    growth = sum(k) / k[0]
    total = up(k[0] * up(growth), 32)
    close(value, up(total, 8), a + gamma(32) * (2 * size[0] + 3), b + gamma(32) * 2 * size[1])
    assert tally.layers[-1].norm == pytest.approx(growth)


def test_branches_count_with_their_factors():
    model = Function(lambda self, x: torch.add(self.one(x), self.two(x), alpha=4), one=number(3.0, 2.0), two=nn.ReLU())
    value, _ = walked(model, 1)
    a, b = gamma(33) * 2 + 4 * gamma(32), gamma(33) * 2 * 3 + 4 * gamma(32)
    k = up(certain(3.0), 32)
    assert value.rounding.constant == pytest.approx(a + gamma(32) * (2 * (2 + 2 * a) + 2), rel=1e-12)
    assert value.rounding.slope == pytest.approx(b + gamma(32) * 2 * (k + 4 + 2 * b), rel=1e-12)


# Single operations: how many roundings each has, relative to what.


def normalised(mean, variance, weight=None, bias=None, channels=1):
    parts = [None if part is None else torch.tensor([part] * channels).double() for part in (mean, variance)]
    rest = [None if part is None else torch.tensor([part] * channels).double() for part in (weight, bias)]
    return Function(lambda self, x: F.batch_norm(x, *parts, *rest, eps=0.0))


def test_a_shift_is_rounded_relative_to_both_sides():
    value, tally = walked(Function(lambda self, x: x + 5.0), 1)
    close(value, 1, gamma(32) * 5, gamma(32) * 2)
    assert tally.layers == []


def test_what_changes_no_number_is_not_rounded():
    for call in (lambda x: x.flatten(1), lambda x: -x, lambda x: x.double(), lambda x: F.pad(x, (1, 1))):
        value, tally = walked(Function(lambda self, x, call=call: call(x)), 2)
        close(value, 1, 0, 0)
        assert tally.layers == []


def test_a_factor_is_rounded_up():
    value, _ = walked(Function(lambda self, x: x * 4.0), 1)
    k = up(4.0, 32)
    close(value, up(up(k), 32), 0, gamma(32) * 2 * k)


def test_a_normalisation_counts_the_constants_that_it_adds_on_the_way():
    # (x - 3) / 2 * 5 + 7, whose scale 2.5 is rounded up, in four places.
    value, _ = walked(normalised(3.0, 4.0, 5.0, 7.0), 1, 2, 2, norm="l2")
    k = up(2.5, 32)
    constant = gamma(32) * (2 * (2.5 * 3 + 7) + 2 * abs(7 - 7.5))
    close(value, up(up(k), 32), constant, gamma(32) * 2 * k)
    value, _ = walked(normalised(3.0, 4.0, bias=7.0, channels=2), 2, 2, norm="l1")  # of two channels in two places
    close(value, up(up(up(0.5, 32)), 32), gamma(32) * (2 * 2 * (1.5 + 7) + 4 * 5.5), gamma(32) * 2 * up(0.5, 32))


def test_a_normalisation_by_one_counts_its_constants_too():
    value, tally = walked(normalised(3.0, 1.0, 1.0, 7.0), 1, 2, norm="linf")
    close(value, 1, gamma(32) * (10 + 4), gamma(32) * 2)
    assert tally.layers == []


OPERATIONS = {
    # the operation, the shape of its input, its roundings, its factor in l1, and the sum of its outputs for zero
    "activation": (lambda x: x.sigmoid(), (3,), 32, 0.25, 1.5),
    "steep activation": (lambda x: F.leaky_relu(x, -3.0), (3,), 32, 3.0, 0),
    "log-softmax": (lambda x: x.log_softmax(1), (3,), 3 + 32, 2.0, 3 * math.log(3)),
    "mean": (lambda x: x.mean((1, 2)), (1, 4), 4 + 32, up(1 / 4, 4 + 32), 0),
    "means of windows": (lambda x: F.avg_pool2d(x, 2), (1, 2, 2), 4 + 32, up(1 / 4 + gamma(4) / 4), 0),
    "means of rows": (lambda x: F.avg_pool1d(x, 2), (1, 4), 4 + 32, up(1 / 2, 4 + 32), 0),
    "larger image": (lambda x: F.interpolate(x, scale_factor=2), (1, 3), 32 * (3 + 32), up(2 + gamma(18) * 2), 0),
    "larger map": (
        lambda x: F.interpolate(x, scale_factor=(1, 2)),
        (1, 2, 3),
        32 * (3 + 32),
        up(1 + gamma(4)) * up(2 + gamma(18) * 2),
        0,
    ),
    "from the left": (
        lambda x: torch.tensor([[1.0, -2.0]]).to(x) @ x,
        (2, 3),
        (2 + 32) * 1,
        up(2 + gamma(2) * 2),
        0,
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_roundings_of_an_operation_are_relative_to_its_input_its_output_and_one(name):
    call, shape, terms, factor, zero = OPERATIONS[name]
    value, _ = walked(Function(lambda self, x: call(x)), *shape)
    outputs = value.tensor[0].numel()
    assert value.rounding.constant == pytest.approx(gamma(terms) * (max(1.0, factor) * outputs + zero), rel=1e-12)
    assert value.rounding.slope == pytest.approx(gamma(terms) * factor, rel=1e-12)


def test_roundings_of_a_matrix_from_the_left_count_how_much_its_absolute_values_are_larger():
    matrix = torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double()  # of norm sqrt 2, and 2 in absolute values
    value, _ = walked(Function(lambda self, x: matrix @ x), 2, 3, norm="l2")
    norm = Dense(matrix).norm("l2").certain
    terms = (2 + 32) * 2
    assert 2 / norm > 1
    assert value.rounding.slope == pytest.approx(gamma(terms) * norm, rel=1e-12)
    nothing, _ = walked(Function(lambda self, x: (0 * matrix) @ x), 2, 3, norm="l1")
    assert nothing.rounding.constant == pytest.approx(gamma(34) * 6, rel=1e-12)


def test_a_reflection_counts_as_an_elementary_function():
    value, _ = walked(Householder(2), 2, norm="l2")
    assert value.rounding.slope == pytest.approx(gamma(32), rel=1e-12)


@pytest.mark.parametrize(
    ("layer", "shape", "terms", "gain"),
    [
        (lambda: nn.Conv2d(2, 1, 3, padding=1), (2, 4, 4), 2 * 9 + 32, 9.0),
        (lambda: nn.Conv2d(2, 2, (1, 2), groups=2), (2, 1, 4), 2 + 32, 2.0),
        (lambda: nn.ConvTranspose2d(3, 2, (1, 2)), (3, 1, 4), 3 * 2 + 32, 4.0),
        (lambda: nn.ConvTranspose1d(3, 2, 2), (3, 4), 3 * 2 + 32, 4.0),
        (lambda: nn.Linear(3, 2), (3,), 3 + 32, 2.0),
    ],
    ids=["convolution", "groups", "transposed", "transposed series", "dense"],
)
def test_a_product_counts_for_each_tap_and_input(layer, shape, terms, gain):
    """All weights are one: in l1 an input is added to as many outputs as the gain says."""
    made = layer()
    with torch.no_grad():
        made.weight.fill_(1), made.bias.fill_(0.5)
    value, _ = walked(made, *shape)
    outputs = value.tensor[0].numel()
    assert value.rounding.constant == pytest.approx(gamma(terms) * 0.5 * outputs, rel=1e-12)
    assert value.rounding.slope == pytest.approx(gamma(terms) * 2 * gain, rel=1e-12)


def test_circular_margins_are_copied_and_not_rounded():
    value, _ = walked(nn.CircularPad2d((1, 1, 0, 0)), 1, 1, 2)
    close(value, up(up(2.0), 32), 0, 0)


def test_lengths_are_those_of_the_image_of_zeros():
    shift = torch.tensor([3.0, 4.0]).double()
    for norm, length in (("l1", 7.0), ("l2", 5.0), ("linf", 4.0)):
        value, _ = walked(Function(lambda self, x: x + shift), 2, norm=norm)
        assert value.rounding.constant == pytest.approx(gamma(32) * length, rel=1e-12)


# Differences of two logits.


def differences(model, *shape, norm="l1"):
    value, tally = walked(model, *shape, norm=norm)
    return tally.differences(value)()


def test_differences_after_a_matrix_are_those_of_its_rows_rounded_up():
    rows = differences(nn.Sequential(nn.ReLU(), dense([[1.0, 2.0], [4.0, -2.0]], [0.0, 0.0])), 2)
    assert rows[0, 1] == pytest.approx(up(1.0, 32) * 4 * (1 + gamma(2 + 32)), rel=1e-12)
    assert rows[0, 0] == 0


def test_differences_after_two_matrices_have_the_slack_of_their_product():
    model = nn.Sequential(dense([[2.0], [1.0]], [0.0, 0.0]), dense([[1.0, 2.0], [4.0, -2.0]], [0.0, 0.0]))
    rows = differences(model, 1, norm="linf")  # in linf the rows of the product are 4 and 6
    slack = 2 * gamma(34) * 6 * 2  # both rows of |B| |A|, at most 6 * 2 each
    assert rows[0, 1] == pytest.approx(up(1.0, 32) * (2 * (1 + gamma(1 + 32)) + slack), rel=1e-12)


def test_differences_after_one_factor_for_all_grow_by_it():
    # Products of factors count the rounding of both; scales are rounded up.
    model = Function(
        lambda self, x: F.log_softmax(self.head(x), 1) * 2.0 * 3.0, head=dense([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    )
    plain = Function(lambda self, x: F.log_softmax(self.head(x), 1), head=model.head)
    inner, outer = (differences(each, 2)[0, 1] for each in (plain, model))
    factors = up(2.0, 32), up(3.0, 32)
    slack = gamma(32) * factors[0] * factors[1]
    assert outer / inner == pytest.approx(up(factors[0] * factors[1] + slack, 32), rel=1e-12)


def test_factors_that_differ_say_nothing_of_single_pairs():
    model = Function(
        lambda self, x: F.log_softmax(self.head(x), 1) * torch.tensor([1.0, 3.0]).to(x),
        head=dense([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0]),
    )
    value, tally = walked(model, 2)
    rates = tally.differences(value)()
    assert bool((rates == up(value.bound)).all())


def test_differences_of_a_sum_are_rounded_up():
    head = dense([[4.0, 1.0], [4.0, -1.0]], [0.0, 0.0])  # the norm is 8, the difference grows by 2
    model = Function(lambda self, x: self.head(x) + self.head(x), head=head)
    one = up(1.0, 32) * 2 * (1 + gamma(34))
    assert differences(model, 2)[0, 1] == pytest.approx(up(1.0, 32) * 2 * one, rel=1e-12)


def test_pairs_are_known_of_logits_alone():
    layer = Dense(torch.eye(2, dtype=torch.float64))
    for shape, known in (((3, 2), True), ((3, 1, 2), False)):
        value = Value(torch.zeros(shape, dtype=torch.float64), 1.0, (Step("head", "Linear", layer),))
        Tally("l2").settle(value)
        assert (value.pairs is not None) == known


# Entries.


def test_branches_without_a_bound_above_zero_add_nothing():
    model = Function(lambda self, x: (x * 0) + (x * 0))
    value, _ = walked(model, 1)
    assert value.bound == 0


def test_one_branch_is_no_entry():
    _, tally = walked(Function(lambda self, x: torch.cat((x, torch.ones_like(x)), 1)), 2)
    assert tally.layers == []


def test_nothing_is_estimated_unless_asked_for():
    assert Tally("l2").power_steps == 0
    found = lipschitz_bound(number(3.0, 0.0), torch.ones(1, 1, dtype=torch.float64))
    assert found.lower is None


def test_bounds_that_overflow_are_refused():
    with pytest.raises(ModelError, match=r"layer '2', Linear: the bound is not finite"):
        walked(nn.Sequential(number(1e200, 0.0), nn.ReLU(), number(1e200, 0.0)), 1)
