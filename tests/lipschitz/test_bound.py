import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz import Downsampling, GroupSort, Householder, OrthogonalConvolution, OrthogonalDense, margins
from holdfast.lipschitz.bound import lipschitz_bound
from holdfast.lipschitz.margins import margin_growth
from holdfast.losses import margin
from holdfast.models import MODELS, build
from holdfast.models.resnet import ResNet
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests.contracts import cheap
from tests.zoo import Forgetful, Jittery, Social, half_space, images, labels, normed, seeded, smooth
from tests.zoo import linear as linear_model

ORDERS = {"l1": 1, "l2": 2, "linf": torch.inf}
NORMS = list(ORDERS)
SHAPE = (2, 6, 6)


class Function(nn.Module):
    """A network that is a function of its layers and the input."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.call = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.call(self, x)


def upper(model, x, norm="l2"):
    return lipschitz_bound(model, x, norm=norm).upper


def bounds(model, shape=SHAPE):
    x = images(1, shape)
    return [upper(model, x, norm) for norm in NORMS]


def matrix_norm(matrix, norm):
    return torch.linalg.matrix_norm(matrix.detach().double(), ORDERS[norm]).item()


def operator(model, shape):
    """The matrix of an affine network, from all unit vectors."""
    units = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
    with torch.no_grad():
        return (model(units) - model(torch.zeros(1, *shape, dtype=torch.float64))).flatten(1).mT


def measured(model, x, norm, seed=0):
    """The steepest slope between random pairs, near and far."""
    length = lambda z: torch.linalg.vector_norm(z.flatten(1), ORDERS[norm], dim=1)  # noqa: E731
    steepest = 0.0
    for scale in (1e-4, 1e-1, 3.0):
        z = x + scale * Streams(seed, "pairs", len(x)).normal(x)
        with torch.no_grad():
            steepest = max(steepest, (length(model(z) - model(x)) / length(z - x)).max().item())
    return steepest


# Closed forms.


@pytest.mark.parametrize("norm", NORMS)
def test_one_linear_layer_is_bounded_from_both_sides_by_its_norm(norm):
    model = linear_model(4)
    found = lipschitz_bound(model, images(2), norm=norm, lower_steps=5)
    assert found.upper == pytest.approx(matrix_norm(model.weight, norm), rel=1e-12)
    assert found.lower == pytest.approx(found.upper, rel=1e-9)
    assert found.gap == pytest.approx(1, rel=1e-9)
    assert found.norm == norm


@pytest.mark.parametrize(("lower", "gap"), [(0.5, 6.0), (2.0, 1.5), (0.0, math.inf), (None, None)])
def test_the_gap_is_the_ratio_of_both_bounds(lower, gap):
    found = lipschitz_bound(linear_model(4), images(2))
    assert dataclasses.replace(found, upper=3.0, lower=lower).gap == gap


@pytest.mark.parametrize("norm", NORMS)
def test_a_half_space_is_as_steep_as_its_dual_norm(norm):
    # Logits -m and m: 2, sqrt(2) or 1 times the dual norm of the weight.
    model, dual = half_space(), {"l1": torch.inf, "l2": 2, "linf": 1}[norm]
    expected = ORDERS[norm] and 2 ** (1 / ORDERS[norm]) * torch.linalg.vector_norm(model.weight, dual).item()
    assert upper(model, images(2, (12,)), norm) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_linear_layers_in_a_row_count_as_one(norm):
    model = build(MODELS["linear"].__class__(feature_dim=3), SHAPE, 4, mean=[0.2, 0.7], std=[0.5, 0.1]).double()
    found = lipschitz_bound(model, images(1, SHAPE), norm=norm)
    assert found.upper == pytest.approx(matrix_norm(operator(model, SHAPE), norm), rel=1e-6)
    assert [layer.name for layer in found.layers] == ["normalise + neck + head"]


def test_sums_add_and_concatenations_are_norms_of_their_bounds():
    dense = nn.Linear(5, 5, bias=False).double()
    with torch.no_grad():
        dense.weight.copy_(3 * torch.eye(5))
    residual = Function(lambda self, x: x + self.dense(x.relu()), dense=dense)
    beside = Function(lambda self, x: torch.cat((x, self.dense(x), torch.ones_like(x)), dim=1), dense=dense)
    shortcut = Function(lambda self, x: F.pad(x[:, ::2], (1, 1)) - self.dense(x), dense=dense)
    for model in (residual, shortcut):
        assert min(bounds(model, (5,))) >= 4, "rounded down"
        assert bounds(model, (5,)) == pytest.approx([4, 4, 4], rel=1e-12)
    assert bounds(beside, (5,)) == pytest.approx([4, math.sqrt(10), 3])


def test_layers_tell_where_the_bound_comes_from():
    dense = nn.Linear(5, 5, bias=False).double()
    with torch.no_grad():
        dense.weight.copy_(3 * torch.eye(5))
    model = Function(lambda self, x: x + self.sigmoid(self.dense(x)), dense=dense, sigmoid=nn.Sigmoid())
    found = [
        (layer.name, layer.kind, layer.norm, layer.bound) for layer in lipschitz_bound(model, images(1, (5,))).layers
    ]
    assert found == [
        ("dense", "Linear", pytest.approx(3), pytest.approx(3)),
        ("sigmoid", "Sigmoid", 0.25, pytest.approx(0.75)),
        ("model", "add", pytest.approx(1.75), pytest.approx(1.75)),
    ]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.AvgPool2d(2), [1 / 4, 1 / 2, 1]),
        (nn.AdaptiveAvgPool2d(1), [1 / 36, 1 / 6, 1]),
        (nn.AvgPool2d(3, divisor_override=1), [1, 3, 9]),
        (nn.MaxPool2d(2), [1, 1, 1]),
        (nn.MaxPool2d(3, stride=2, padding=1), [4, 2, 1]),
        (nn.MaxPool2d(3, stride=1, padding=1), [9, 3, 1]),
        (nn.AdaptiveMaxPool2d(3), [1, 1, 1]),
        (nn.CircularPad2d(1), [4, 2, 1]),
        (nn.ZeroPad2d(2), [1, 1, 1]),
        (nn.ConstantPad2d(1, 7.0), [1, 1, 1]),
        (nn.ReplicationPad2d((1, 0, 0, 0)), [2, math.sqrt(2), 1]),
        (nn.PixelUnshuffle(3), [1, 1, 1]),
        (Downsampling(), [1, 1, 1]),
        (GroupSort(), [1, 1, 1]),
        (Householder(2), [1, 1, 1]),
        (nn.Dropout(0.5), [1, 1, 1]),
        (nn.Hardswish(), [1.5, 1.5, 1.5]),
        (nn.PReLU(2, init=-3.0).double(), [3, 3, 3]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layers_without_weights_have_their_constants(layer, expected):
    assert bounds(layer) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.AdaptiveMaxPool2d((3, 2)), (4, 2), [2, math.sqrt(2), 1]),  # rows overlap, columns do not
        (nn.AdaptiveMaxPool2d((2, 3)), (2, 4), [2, math.sqrt(2), 1]),
        (nn.AdaptiveMaxPool2d((3, 3)), (1, 4, 4), [4, 2, 1]),
        (nn.AdaptiveMaxPool2d((2, 3)), (1, 4, 3), [1, 1, 1]),
        (nn.MaxPool2d(3, stride=1, padding=1), (1, 1), [1, 1, 1]),  # a map of one pixel
        (nn.MaxPool2d(3, stride=1, padding=1), (1, 1, 1), [1, 1, 1]),
        (nn.MaxPool2d(2, stride=1), (1, 3, 3), [4, 2, 1]),
        (nn.MaxPool2d((2, 1), stride=1), (3, 3), [2, math.sqrt(2), 1]),
        (nn.MaxPool1d(3, stride=2), (2, 7), [2, math.sqrt(2), 1]),
        (nn.Upsample(scale_factor=2), (1, 2, 2), [4, 2, 1]),
        (nn.LogSoftmax(1), (4,), [3, 2, 2]),
        (nn.LogSoftmax(1), (2,), [1, math.sqrt(2), 2]),
        (nn.LogSoftmax(1), (1,), [0, 0, 0]),  # the logarithm of 1
    ],
)
def test_shapes_do_not_change_the_constants_of_windows(layer, shape, expected):
    assert bounds(layer, shape) == pytest.approx(expected)


@pytest.mark.parametrize("angle", [0.0, 0.4, math.pi / 2, 2.0, 3.9])
def test_a_reflection_is_as_steep_as_its_angle(angle):
    layer = Householder(4).double()
    with torch.no_grad():
        layer.angle.copy_(torch.tensor([0.0, angle]))
    steepest = abs(math.cos(angle)) + abs(math.sin(angle))
    assert bounds(layer, (4, 2)) == pytest.approx([steepest, 1, steepest])
    assert bounds(Householder(1), (1,)) == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: torch.add(x, x, alpha=-2), [3, 3, 3]),
        (lambda x: torch.add(torch.ones(6), x, alpha=-2), [2, 2, 2]),
        (lambda x: x.sub(x.relu(), alpha=0.5), [1.5, 1.5, 1.5]),
        (lambda x: torch.maximum(x, 2 * x), [3, math.sqrt(5), 2]),
        (lambda x: torch.minimum(x.new_zeros(()), x), [1, 1, 1]),
        (lambda x: torch.maximum(x, x.mean(3, keepdim=True)), [2, math.sqrt(2), 1]),
        (lambda x: 2 * torch.eye(6, dtype=x.dtype) @ x, [2, 2, 2]),
        (lambda x: x.max(1).values, [1, 1, 1]),
        (lambda x: x.new_ones(()).expand_as(x) + x, [1, 1, 1]),
        (lambda x: x / 0.3, [1 / 0.3] * 3),
        (lambda x: x.flatten(1).view_as(x), [1, 1, 1]),
        (lambda x: x[:, :1].expand_as(x), [2, math.sqrt(2), 1]),
        (lambda x: x * torch.full((6,), 2.0).to(x), [2, 2, 2]),
        (lambda x: x * torch.tensor([1.0, 1, 1, 5, 1, 1]).to(x), [5, 5, 5]),
        (lambda x: x * torch.full((1, 2, 6, 6), 3.0).to(x), [3, 3, 3]),
        (lambda x: x + F.relu(torch.ones(1, 2, 6, 6)), [1, 1, 1]),
        (lambda x: F.pad(x, (-6, 6)), [1, 1, 1]),  # no value is left
        (lambda x: F.batch_norm(x, torch.zeros(2).to(x), torch.full((2,), 4.0).to(x), eps=0.0), [0.5, 0.5, 0.5]),
        (lambda x: F.batch_norm(x[:, :1], torch.zeros(1).to(x), torch.ones(1).to(x)), [(1 + 1e-5) ** -0.5] * 3),
        (lambda x: F.dropout(x, 0.0), [1, 1, 1]),
    ],
)
def test_operations_that_users_miss_have_their_constants(call, expected):
    assert bounds(Function(lambda self, x: call(x))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: x.mean((2, 3)), [1 / 36, 1 / 6, 1]),
        (lambda x: x.sum(-1), [1, math.sqrt(6), 6]),
        (lambda x: x.amax((2, 3)), [1, 1, 1]),
        (lambda x: F.max_pool2d(F.relu(x), 3, 1, padding=1), [9, 3, 1]),
        (lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), [1 / 36, 1 / 6, 1]),
        (lambda x: F.avg_pool2d(x, 6).flatten(1), [1 / 36, 1 / 6, 1]),
        (lambda x: 2 - 3 * x / 4, [0.75] * 3),
        (lambda x: x.view(x.size(0), -1).unsqueeze(1).expand(-1, 4, -1), [4, 2, 1]),
        (lambda x: torch.stack((x, -x), dim=1), [2, math.sqrt(2), 1]),
        (lambda x: x.mean((2, 3), keepdim=True) + torch.zeros_like(x), [1, 1, 1]),
        (lambda x: x.roll(1, 2).flip(3).transpose(1, 2).chunk(2, dim=2)[1], [1, 1, 1]),
        (lambda x: F.leaky_relu(x.tanh(), -2.0).float().double().clamp(0, 1), [2, 2, 2]),
        (lambda x: F.dropout(x, training=False).mul_(2.0), [2, 2, 2]),
    ],
)
def test_operations_have_their_constants(call, expected):
    assert bounds(Function(lambda self, x: call(x))) == pytest.approx(expected)


# Linear networks: the matrix is known.


def conv(inputs, outputs, kernel, **options):
    return seeded(lambda: nn.Conv2d(inputs, outputs, kernel, **options)).double()


def frozen(channels, seed=0):
    """BatchNorm with statistics and weights of its own."""
    layer = nn.BatchNorm2d(channels).double().eval()
    draw = lambda name: 0.2 + 2 * Streams(seed, name, 1).uniform(torch.empty(1, channels).double())[0]  # noqa: E731
    with torch.no_grad():
        layer.running_var.copy_(draw("variance"))
        layer.running_mean.copy_(draw("mean"))
        layer.weight.copy_(draw("weight") * torch.tensor([-1.0, 1.0]).repeat(channels)[:channels])
    return layer


LINEAR = {
    "zeros": conv(2, 3, 3, padding=1),
    "stride": conv(2, 3, 3, padding=1, stride=2),
    "even": conv(2, 4, 4, padding="same", groups=2),
    "same": conv(2, 3, (3, 5), padding="same", dilation=(2, 1)),
    "cropped": Function(lambda self, x: F.pad(x, (-1, 2, 0, 0), mode="circular")),
    "dilation": conv(2, 3, 3, padding=2, dilation=2),
    "valid": conv(2, 3, (2, 5), padding="valid"),
    "circular": conv(2, 3, 3, padding=1, padding_mode="circular"),
    "circular even": conv(2, 3, 2, padding="same", padding_mode="circular"),
    "circular wide": conv(2, 3, 3, padding=3, padding_mode="circular"),
    "reflect": conv(2, 3, 3, padding=1, padding_mode="reflect"),
    "replicate": conv(2, 3, 3, padding=1, padding_mode="replicate", stride=2),
    "circular pad": nn.Sequential(nn.CircularPad2d((1, 0, 1, 0)), conv(2, 2, 2)),
    "circular, then zeros": nn.Sequential(nn.CircularPad2d(1), conv(2, 3, 3, padding=1)),
    "normalised": nn.Sequential(frozen(2), conv(2, 3, 3, padding=1), frozen(3, 1)),
    "normalised groups": nn.Sequential(frozen(2), conv(2, 4, 3, padding=1, groups=2), frozen(4, 1)),
    "normalised circular": nn.Sequential(frozen(2), nn.CircularPad2d(1), conv(2, 3, 3, stride=2), frozen(3, 1)),
    "overlapping means": nn.AvgPool2d(3, stride=2),
    "means of the inside": nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
    "means to the end": nn.AvgPool2d(4, stride=3, ceil_mode=True),
    "adaptive": nn.AdaptiveAvgPool2d(4),
    "dense": nn.Sequential(frozen(2), nn.Flatten(), seeded(lambda: nn.Linear(72, 5)).double(), nn.Identity()),
    "two dense": nn.Sequential(nn.Flatten(), *(seeded(lambda n=n: nn.Linear(*n)).double() for n in ((72, 7), (7, 5)))),
    "on tokens": Function(lambda self, x: self.dense(x.flatten(2)), dense=seeded(lambda: nn.Linear(36, 5)).double()),
    "matrix": Function(
        lambda self, x: x.flatten(1) @ self.m, m=nn.Parameter(conv(2, 4, 6).weight.detach().view(72, -1))
    ),
}
NOT_MERGED = {"circular wide", "circular, then zeros", "reflect", "replicate"}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_network_is_never_steeper_than_its_bound(name, norm):
    model = LINEAR[name]
    truth, found = matrix_norm(operator(model, SHAPE), norm), upper(model, images(1, SHAPE), norm)
    assert found >= truth * (1 - 1e-12)
    averages = norm == "l2" and isinstance(model, nn.AvgPool2d | nn.AdaptiveAvgPool2d)
    assert found <= truth * (4.01 if name in NOT_MERGED else 1.6 if averages else 1 + 1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_batch_norm_is_folded_into_the_layer_before_it(norm):
    layer, after = conv(2, 5, 3, padding=1), frozen(5, 2)
    found = lipschitz_bound(nn.Sequential(layer, after), images(1, SHAPE), norm=norm)
    folded = nn.utils.fuse_conv_bn_eval(layer.eval(), after)
    assert found.upper == pytest.approx(upper(folded, images(1, SHAPE), norm), rel=1e-12)
    product = upper(layer, images(1, SHAPE), norm) * upper(after, images(1, (5, 6, 6)), norm)
    assert found.upper < 0.95 * product
    assert [(layer.name, layer.kind) for layer in found.layers] == [("0 + 1", "Conv2d + BatchNorm2d")]


def recorded_otherwise(factor):
    """A network whose logits grow by a factor while it is recorded."""
    return Function(lambda self, x: (1 if type(x) is torch.Tensor else factor) * 1000 * x.flatten(1))


def among_others(factor):
    """A network whose logits grow by a factor in a batch of three."""
    return Function(lambda self, x: (1 + (x.size(0) - 1) * (factor - 1) / 2) * 1000 * x.flatten(1))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (recorded_otherwise, "the recorded forward pass gives other logits than the network"),
        (among_others, "the logits of an image depend on the rest of the batch or on earlier calls"),
    ],
)
def test_a_network_may_differ_from_its_record_by_a_thousandth_of_a_logit_and_of_the_largest(network, message):
    x = torch.tensor([[0.01, 1.0], [0.3, 0.2]], dtype=torch.float64)
    assert upper(network(1.0015), x) == pytest.approx(1000 * 1.0015)
    for factor in (1.0025, 0.5):
        with pytest.raises(ModelError, match=message):
            upper(network(factor), x)


def test_a_network_that_returns_logits_only_while_it_is_recorded_is_refused():
    model = Function(lambda self, x: (x, x) if type(x) is torch.Tensor else x)
    with pytest.raises(ModelError, match="returns logits, got a tuple"):
        upper(model, images(1, (4,)))


def test_a_bound_costs_three_images_and_one_whatever_the_batch():
    sizes = []
    model = Function(lambda self, x: (sizes.append(len(x)) if type(x) is torch.Tensor else None, 2 * x)[1])
    assert upper(model, images(5, (4,))) == pytest.approx(2)
    assert sizes == [3, 1]


def test_a_network_that_does_not_look_at_its_input_is_bounded_by_nothing():
    assert (
        upper(
            Function(lambda self, x: torch.ones(len(x), 3) if isinstance(x, torch.Tensor) else torch.ones(3, 3)),
            images(3, (4,)),
        )
        == 0
    )


@pytest.mark.parametrize(("excess", "kept"), [(5e-10, False), (1.5e-9, True), (0.5, True)])
def test_a_lower_bound_is_taken_for_the_upper_one_only_where_rounding_explains_it(excess, kept, monkeypatch):
    model, x = nn.Sequential(linear_model(4), Function(lambda self, x: 10 * x)), images(2)
    steepest = upper(model, x)
    monkeypatch.setattr("holdfast.lipschitz.bound.lipschitz_lower", lambda *_, **__: (1 + excess) * steepest)
    found = lipschitz_bound(model, x, lower_steps=1)
    assert (found.lower > found.upper) == kept
    assert (found.gap == 1) != kept


def test_a_layer_whose_output_is_used_twice_counts_in_each_branch():
    layer, after = conv(2, 2, 3, padding=1), frozen(2)
    both = Function(lambda self, x: self.tail(self.layer(x)) + self.layer(x), layer=layer, tail=after)
    once = Function(
        lambda self, x: self.two(self.layer(x)), layer=layer, two=Function(lambda self, x: self.tail(x) + x, tail=after)
    )
    expected = upper(nn.Sequential(layer, after), images(1, SHAPE)) + upper(layer, images(1, SHAPE))
    assert upper(both, images(1, SHAPE)) == upper(once, images(1, SHAPE)) == pytest.approx(expected)


def test_large_convolutions_are_bounded_and_estimated():
    layer = conv(8, 8, 3, padding=1)
    found = lipschitz_bound(layer, images(1, (8, 16, 16)), power_steps=300).layers[0]
    assert 0.8 * found.norm < found.estimate < found.norm
    assert lipschitz_bound(layer, images(1, (8, 16, 16))).layers[0].estimate is None


# Whole networks.

ACTIVATIONS = [nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Softplus, GroupSort, nn.Hardswish, nn.Sigmoid]


@st.composite
def networks(draw):
    """Random networks of convolutions, pools, residual sums, concatenations and a dense head."""
    layers, channels = [frozen(2)], 2
    for number in range(draw(st.integers(1, 4))):
        outputs, mode = draw(st.integers(1, 4)), draw(st.sampled_from(["zeros", "circular", "reflect"]))
        branch = nn.Sequential(
            conv(channels, outputs, 3, padding=1, padding_mode=mode),
            *([frozen(outputs, number)] if draw(st.booleans()) else []),
            draw(st.sampled_from(ACTIVATIONS))(),
        )
        kind = draw(st.sampled_from(["plain", "cat", "sum", "shortcut", "max", "mean"]))
        if kind == "cat":
            layers.append(Function(lambda self, x: torch.cat((self.branch(x), x), 1), branch=branch))
            outputs += channels
        elif kind == "sum":
            same = nn.Sequential(branch, conv(outputs, channels, 1))
            layers.append(Function(lambda self, x: x + self.branch(x), branch=same))
            outputs = channels
        elif kind == "shortcut":
            more = outputs + channels
            wide = nn.Sequential(branch, conv(outputs, more, 1))
            padded = lambda self, x: F.pad(x, (0, 0, 0, 0, 1, len(self.more) - 1)) - self.branch(x)  # noqa: E731
            layers.append(Function(padded, branch=wide, more=nn.ModuleList([nn.Identity()] * outputs)))
            outputs = more
        elif kind == "plain":
            layers.append(branch)
        else:
            layers += [branch, {"max": nn.MaxPool2d, "mean": nn.AvgPool2d}[kind](3, stride=1, padding=1)]
        channels = outputs
    return nn.Sequential(*layers, nn.Flatten(), seeded(lambda: nn.Linear(36 * channels, 3)).double()).eval()


@given(networks(), st.sampled_from(NORMS), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_no_random_network_is_steeper_than_its_bound(model, norm, seed):
    x = images(4, SHAPE, seed=seed)
    found = lipschitz_bound(model, x, norm=norm, lower_steps=6)
    assert measured(model, x, norm, seed) <= found.upper * (1 + 1e-9)
    assert found.lower <= found.upper * (1 + 1e-9)


REFUSED = {
    "mobilenetv3-small": r"body\.0\.2.*product of two values",
    "vit-tiny": r"body\.1\.attention\.0', LayerNorm: no rule is known",
}
LIKE_ANOTHER = {"cnn8", "resnet18", "resnet34", "wrn-40-2", "wrn-28-10", "wrn-34-10"}
SMALLEST = {"allconv-augmix": 12}
"""Sides of images that networks need which do not take 8x8."""


def ours():
    for name in cheap.MODEL_NAMES:
        if name not in REFUSED:
            yield pytest.param(name, marks=[pytest.mark.slow] if name in LIKE_ANOTHER else [])


@pytest.mark.parametrize("name", list(ours()))
def test_our_own_networks_have_bounds(name):
    side = SMALLEST.get(name, 8)
    shape = (3, side, side)
    model = build(cheap.CHEAP_MODELS[name], shape, 4, mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.25])
    x = images(3, shape, dtype=torch.float32)
    for norm in NORMS:
        found = lipschitz_bound(model, x, norm=norm)
        assert measured(model.double().eval(), x.double(), norm) <= found.upper
        assert found.layers[-1].bound == found.upper
        model.float().train()


@pytest.mark.parametrize("name", REFUSED)
def test_our_networks_without_a_bound_are_refused(name):
    model = build(cheap.CHEAP_MODELS[name], (3, 8, 8), 4)
    with pytest.raises(ModelError, match=REFUSED[name]):
        upper(model, images(1, (3, 8, 8), dtype=torch.float32))


def test_orthogonal_networks_are_1_lipschitz():
    layers = lambda: nn.Sequential(  # noqa: E731
        Downsampling(),
        OrthogonalConvolution(8, 8, 3, bias=True),
        GroupSort(),
        OrthogonalConvolution(8, 6, 2),
        Householder(6),
        nn.Flatten(),
        OrthogonalDense(6 * 9, 4, bias=True),
    )
    model, x = seeded(layers), images(3, SHAPE, dtype=torch.float32)
    found = lipschitz_bound(model, x, lower_steps=10)
    assert found.upper == pytest.approx(1, abs=1e-5)
    assert 0.5 < found.lower <= found.upper
    assert [layer.name for layer in found.layers] == ["1", "3", "6"]
    inside = nn.ModuleDict({"net": model})
    assert upper(Function(lambda self, x: 2 * self.net(x), net=inside["net"]), x) == pytest.approx(2 * found.upper)


def test_a_parametrised_layer_counts_with_the_weights_it_has():
    layer = nn.utils.parametrizations.weight_norm(seeded(lambda: nn.Linear(6, 4)))
    assert upper(layer, images(1, (6,), dtype=torch.float32)) == pytest.approx(matrix_norm(layer.weight, "l2"))


class Standardised(nn.Conv2d):
    """A convolution that changes its weights before it uses them."""

    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x, 2 * weight, bias)


def test_a_class_made_of_a_known_layer_is_looked_into():
    with torch.random.fork_rng(devices=[]):
        layer = Standardised(2, 3, 3).double()
    truth = matrix_norm(operator(layer, SHAPE), "linf")
    assert upper(layer, images(1, SHAPE), "linf") == pytest.approx(truth)


def test_leaves_the_network_the_images_and_the_random_states_alone():
    model, x = normed(dropout=0.5).train(), images(2)
    with same_module(model), same_random_states(), same_tensors(x):
        first = lipschitz_bound(model, x, lower_steps=2, power_steps=2)
    assert lipschitz_bound(model, x, lower_steps=2, power_steps=2) == first
    with torch.inference_mode():
        assert upper(model, images(2)) == first.upper


def test_in_place_layers_of_values_used_once_are_followed():
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU(inplace=True), nn.Dropout(inplace=True), nn.Linear(4, 3)).double()
    assert upper(model, images(1, (6,))) == pytest.approx(
        matrix_norm(model[0].weight, "l2") * matrix_norm(model[3].weight, "l2")
    )


# Refusals.


class Choosing(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def behind(x):
    y = x * 1
    z = y.view(-1, 6)
    z.mul_(5)
    return y


REFUSALS = {
    "group norm": (nn.Sequential(nn.Identity(), nn.GroupNorm(1, 6)), r"layer '1', GroupNorm: no rule is known"),
    "layer norm": (nn.LayerNorm(6), r"layer 'model', LayerNorm: no rule is known"),
    "batch statistics": (nn.BatchNorm1d(6, track_running_stats=False), r"BatchNorm1d: .* statistics of the batch"),
    "attention": (nn.MultiheadAttention(6, 1), r"cannot follow the forward pass|MultiheadAttention"),
    "softmax": (lambda x: x.softmax(1), r"layer 'model', softmax: no rule"),
    "product": (lambda x: x * x.sigmoid(), r"mul: a product of two values"),
    "quotient": (lambda x: 1 / x, r"div: a quotient"),
    "scores": (lambda x: x @ x.transpose(0, 1), r"mixes examples|first dimension"),
    "bilinear": (lambda x: torch.matmul(x.unsqueeze(1), x.unsqueeze(2)), r"matmul: depends on the input in more than"),
    "clamp": (lambda x: torch.clamp(x, x.mean(1, keepdim=True)), r"clamp: depends on the input in more than one way"),
    "batch mean": (lambda x: x - x.mean(0), r"mean: mixes examples"),
    "mean of two": (lambda x: x[:, :2].mean(0), r"mean: mixes examples"),
    "batch flip": (lambda x: x.flip(0), r"flip: mixes examples"),
    "one example": (lambda x: x[0], r"getitem: the first dimension"),
    "batch cat": (lambda x: torch.cat((x, x)), r"cat: the first dimension"),
    "power": (lambda x: x**2, r"pow: no rule"),
    "rounding": (lambda x: x.to(torch.int64).double(), r"to: rounds to int64"),
    "control flow": (Choosing(), r"layer 'model', Choosing: cannot follow the forward pass: symbolically traced"),
    "random": (lambda x: x * torch.rand(6), r"draws random numbers"),
    "noise": (Jittery(nn.Identity()), r"randn_like: no rule"),
    "dropout": (Forgetful(nn.Identity()), r"dropout: is random in evaluation mode"),
    "train mode": (Social(nn.Identity(), 6), r"layer 'norm', BatchNorm2d: .*"),
    "in place": (lambda x: (lambda y: F.relu(y, inplace=True) + y)(x * 3), r"add: .* changed in place"),
    "through a view": (behind, r"changed in place"),
    "tuple": (lambda x: (x, x), r"returns logits, got a tuple"),
    "attribute": (lambda x: x.T, r"getattr: no rule is known for the attribute 'T'"),
    "options": (lambda x: torch.div(x, 2, rounding_mode="floor"), r"div: .*rounding_mode"),
    "indices": (lambda x: x + x.max(1, keepdim=True).indices, r"add: uses indices of the largest values"),
    "indices by number": (lambda x: x.max(1)[1].double(), r"double: uses indices of the largest values"),
    "mean of all": (lambda x: x - x.mean(), r"mean: mixes examples"),
    "mean over as many examples as values": (lambda x: x[:, :3].mean(0), r"mean: mixes examples"),
    "roll through the batch": (lambda x: x.roll(1), r"roll: mixes examples"),
    "largest of images and values": (lambda x: x - x.amax((0, 1)), r"amax: mixes examples"),
    "factor for each example": (lambda x: x * torch.ones(3, 6), r"mul: multiplies with a constant that is larger than"),
    "larger shape": (lambda x: x * torch.ones(2, 1, 6), r"mul: multiplies with a constant that is larger than"),
    "larger sum": (lambda x: x + torch.ones(2, 1, 6), r"add: broadcasts \(3, 6\) to \(2, 3, 6\), across the examples"),
    "several matrices": (
        lambda x: x.view(-1, 2, 3) @ torch.ones(3, 3, 4, dtype=x.dtype),
        r"matmul: only products with one constant matrix",
    ),
    "matrix of examples": (
        lambda x: F.linear(x.sum(1), torch.ones(4, 3, dtype=x.dtype)),
        r"linear: mixes examples of a batch",
    ),
    "largest of all": (lambda x: x - torch.max(x), r"max: mixes examples"),
    "from the left": (lambda x: torch.ones(3, 3, dtype=x.dtype) @ x, r"matmul: mixes examples"),
    "log of batch": (lambda x: x.log_softmax(0), r"log_softmax: expected a dimension other than"),
    "whole numbers": (lambda x: x.sum(1, keepdim=True, dtype=torch.int64), r"sum: rounds to int64"),
    "largest of the batch": (lambda x: x - x.amax(0), r"amax: mixes examples"),
    "largest of no dimension": (lambda x: x - x.amax(), r"amax: mixes examples"),
    "values of the batch": (lambda x: x - x.max(0).values, r"max: mixes examples"),
    "smallest from the end": (lambda x: x - x.amin(-2), r"amin: mixes examples"),
    "size of the batch": (lambda x: x * x.size(0), r"depend on the rest of the batch"),
    "coarse": (lambda x: x.to(torch.bfloat16).double(), r"to: rounds to bfloat16"),
    "half": (lambda x: x.mean((1,), dtype=torch.float16), r"mean: rounds to float16"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_has_no_bound_is_refused_by_name(name):
    model, message = REFUSALS[name]
    shape = (6, 2, 2) if name == "train mode" else (6,)
    model = model if isinstance(model, nn.Module) else Function(lambda self, x: REFUSALS[name][0](x))
    with pytest.raises(ModelError, match=message), same_random_states():
        upper(model.double(), images(2, shape))


def test_networks_with_group_normalisation_are_refused():
    model = build(ResNet(blocks=(1, 1, 1, 1), width=0.1, norm="group"), (3, 8, 8), 3)
    with pytest.raises(ModelError, match=r"layer 'body\.0\.1', GroupNorm: no rule is known"):
        upper(model, images(1, (3, 8, 8), dtype=torch.float32))


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        (lambda: nn.Conv2d(3, 2, 1), r"images \(N, C, H, W\), got shape \(3, 4, 6\)"),
        (lambda: nn.ConvTranspose2d(3, 2, 1), r"images \(N, C, H, W\), got shape \(3, 4, 6\)"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Conv1d(3, 2, 1)), r"series \(N, C, L\), got shape \(3, 24\)"),
        (lambda: nn.Sequential(nn.Flatten(), nn.ConvTranspose1d(3, 2, 1)), r"series \(N, C, L\), got shape \(3, 24\)"),
    ],
)
def test_layers_that_would_take_examples_for_channels_are_refused(layer, wanted):
    with pytest.raises(ModelError, match=f"expected {wanted}"):
        upper(layer().double(), images(3, (4, 6)))


def test_one_weight_of_many_that_is_not_finite_is_refused_in_the_logits_too():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        model[1].bias[0] = math.inf
    with pytest.raises(ModelError, match="the logits are not finite"):
        upper(model, torch.zeros(1, 4))


OPTIONS_LEFT_OUT = [
    # a function of torch without its options, and the layer with the same ones
    (lambda x, w: F.conv1d(x.flatten(2), w[:, :, 0]), lambda: nn.Sequential(nn.Flatten(2), nn.Conv1d(2, 3, 2))),
    (lambda x, w: F.conv2d(x, w), lambda: nn.Conv2d(2, 3, 2)),
    (
        lambda x, w: F.conv_transpose1d(x.flatten(2), w[:, :, 0].transpose(0, 1)),
        lambda: nn.Sequential(nn.Flatten(2), nn.ConvTranspose1d(2, 3, 2)),
    ),
    (lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1)), lambda: nn.ConvTranspose2d(2, 3, 2)),
]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("function", "layer"), OPTIONS_LEFT_OUT)
def test_convolutions_without_options_have_those_of_torch(function, layer, norm):
    weight, made, x = conv(2, 3, 2).weight.detach(), layer().double(), images(1, SHAPE)
    last = made[-1] if isinstance(made, nn.Sequential) else made
    kernel = weight if last.weight.dim() == 4 else weight[:, :, 0]
    with torch.no_grad():
        last.weight.copy_(kernel.transpose(0, 1) if last.transposed else kernel)
    found = upper(Function(lambda self, x: function(x, weight)), x, norm)
    assert found == upper(made, x, norm)
    assert found == pytest.approx(matrix_norm(operator(made, SHAPE), norm), rel=1e-9)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    ("pooled", "layer"),
    [
        (lambda x: F.avg_pool2d(x, 2), nn.AvgPool2d(2)),
        (lambda x: F.avg_pool2d(x, 3, 1), nn.AvgPool2d(3, 1)),
        (lambda x: F.avg_pool2d(x, 3, 1, 1), nn.AvgPool2d(3, 1, 1)),
        (lambda x: F.avg_pool2d(x, 3, 1, count_include_pad=False), nn.AvgPool2d(3, 1, count_include_pad=False)),
    ],
)
def test_means_of_windows_of_one_size_are_exact(pooled, layer, norm):
    truth = matrix_norm(operator(layer, SHAPE), norm)
    for model in (layer, Function(lambda self, x: pooled(x))):
        assert upper(model, images(1, SHAPE), norm) == pytest.approx(truth, rel=1e-9)


def test_maxima_of_one_pixel_are_the_pixel():
    assert bounds(Function(lambda self, x: F.max_pool2d(x, 1)), (1, 1, 1)) == pytest.approx([1, 1, 1])
    assert bounds(Function(lambda self, x: F.max_pool2d(x, 3, 1)), (1, 6, 6)) == pytest.approx([9, 3, 1])


@pytest.mark.parametrize("layer", [nn.Conv1d(1, 1, 3, padding=1), nn.ConvTranspose1d(1, 1, 3, padding=1)])
def test_a_series_is_an_image_of_height_one(layer):
    # So its matrix of 600 rows is written out, and the norm is exact.
    (entry,) = lipschitz_bound(layer.double(), images(1, (1, 600))).layers
    assert entry.estimate == entry.norm


@pytest.mark.parametrize("mode", ["replicate", "circular", "reflect"])
def test_the_margins_of_a_series_are_copies_along_its_length_alone(mode):
    layer = nn.Conv1d(2, 2, 1, padding=1, padding_mode=mode, groups=2, bias=False).double()
    with torch.no_grad():
        layer.weight.fill_(1)
    assert bounds(layer, (2, 4)) == pytest.approx([2, math.sqrt(2), 1])


def test_a_factor_of_one_is_none():
    found = lipschitz_bound(Function(lambda self, x: x * torch.ones(6, dtype=x.dtype)), images(1, (6,)))
    assert found.upper == 1
    assert found.layers == ()


def test_layers_of_constants_are_constants():
    model = Function(lambda self, x: self.norm(torch.arange(6.0).to(x)[None]) + 2 * x, norm=nn.LayerNorm(6).double())
    assert bounds(model, (6,)) == pytest.approx([2, 2, 2])


@pytest.mark.parametrize("pool", [nn.MaxPool1d(2, return_indices=True), nn.AdaptiveMaxPool2d(2, return_indices=True)])
def test_maxima_with_their_indices_are_refused(pool):
    model = Function(lambda self, x: self.pool(x)[0], pool=pool)
    with pytest.raises(ModelError, match="only maxima without their indices have a rule"):
        upper(model, images(1, (4, 6)))


@pytest.mark.parametrize("state", [torch.is_grad_enabled, torch.is_inference_mode_enabled])
@pytest.mark.parametrize("factor", [lambda: 9.0, lambda: torch.tensor([9.0])])
def test_a_forward_pass_that_depends_on_recording_gradients_is_refused(state, factor):
    model = Function(lambda self, x: x * factor() if state() else x * (factor() - 8))
    with pytest.raises(ModelError, match=r"the forward pass differs under torch\.(enable_grad|inference_mode)"):
        upper(model, images(1, (6,)))


def test_networks_coarser_than_float32_are_refused():
    for kind in (torch.bfloat16, torch.float16):
        with pytest.raises(ModelError, match=r"Linear: rounds to b?float16"):
            upper(nn.Linear(6, 3).to(kind), images(1, (6,)).to(kind))


def test_hooks_are_refused():
    model = nn.Sequential(nn.Linear(6, 3)).double()
    model[0].register_forward_hook(lambda module, inputs, output: 10 * output)
    with pytest.raises(ModelError, match=r"layer '0', Linear: has hooks"):
        upper(model, images(1, (6,)))


def test_in_place_changes_of_what_a_view_shows_are_refused():
    class Adding(nn.Module):
        def forward(self, x):
            y = x * 1
            z = y.view(-1, 2, 3)
            y += 100 * x  # changes z as well
            return z.flatten(1)

    with pytest.raises(ModelError, match="changed in place"):
        upper(Adding(), images(1, (6,)))


def test_weights_that_are_not_finite_are_refused():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        model[1].weight[0, 0] = math.nan
    with pytest.raises(ModelError, match=r"layer '1', Linear: weights are not finite"):
        upper(model, torch.zeros(1, 4))
    convolution = nn.Sequential(nn.Conv2d(1, 2, 2, bias=False))
    with torch.no_grad():
        convolution[0].weight[1, 0, 0, 0] = math.inf
    with pytest.raises(ModelError, match=r"layer '0', Conv2d: weights are not finite"):
        upper(convolution, torch.zeros(1, 1, 4, 4))
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].bias.fill_(math.inf)
    with pytest.raises(ModelError, match="the logits are not finite"):
        upper(model, torch.zeros(1, 4))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"lipschitz_bound: norm: unknown name 'l0'; known: l1, l2, linf"):
        lipschitz_bound(linear_model(2), images(1), norm="l0")
    with pytest.raises(ValueError, match=r"expected a batch of images, got a tensor of shape \(4,\)"):
        lipschitz_bound(linear_model(2), torch.zeros(4))
    with pytest.raises(ModelError, match=r"expected an nn\.Module, got a function"):
        lipschitz_bound(lambda x: x, images(1))


# Margins.


@pytest.mark.parametrize(("norm", "alpha"), [("l1", 1), ("l2", math.sqrt(2)), ("linf", 2)])
def test_a_known_constant_is_multiplied_by_alpha(norm, alpha):
    for constant in (0.5, 3.0):
        assert margin_growth(smooth(), images(1), norm, constant) == pytest.approx(constant * alpha)
    for constant in (0.0, math.inf):
        with pytest.raises(ValueError, match=f"constant must be positive and finite, got {constant}"):
            margin_growth(smooth(), images(1), norm, constant)


def hadamard():
    """Orthogonal with equal entries: its l1 and linf norms are 4."""
    layer, matrix = nn.Linear(16, 16, bias=False).double(), torch.ones(1, 1).double()
    for _ in range(4):
        matrix = torch.cat((torch.cat((matrix, matrix), 1), torch.cat((matrix, -matrix), 1)))
    with torch.no_grad():
        layer.weight.copy_(matrix / 4)
    return layer


def test_the_smaller_of_both_constants_counts():
    x = images(1, (16,))
    spread = nn.Sequential(hadamard(), nn.ReLU())  # an activation at the end, so that no rows are known
    assert margin_growth(spread, x, "l1") == pytest.approx(math.sqrt(2))  # against 1 * 4
    assert margin_growth(spread, x, "l2") == pytest.approx(math.sqrt(2))
    assert margin_growth(spread, x, "linf") == pytest.approx(math.sqrt(2) * 4)  # against 2 * 4
    assert margin_growth(nn.Identity(), x, "l1") == pytest.approx(1)  # against sqrt(2)
    assert margin_growth(nn.Identity(), x, "linf") == pytest.approx(2)  # against sqrt(2) * 4


@pytest.mark.parametrize("norm", NORMS)
def test_no_margin_grows_faster(norm):
    model = seeded(lambda: nn.Sequential(conv(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5).double()))
    x, y = images(50), labels(50, 5)
    growth = margin_growth(model, x, norm)
    with torch.no_grad():
        for scale in (1e-2, 1.0):
            z = x + scale * Streams(0, "margins", len(x)).normal(x)
            rise = (margin(model(z), y) - margin(model(x), y)).abs()
            assert (rise <= growth * torch.linalg.vector_norm((z - x).flatten(1), ORDERS[norm], dim=1)).all()


class Aliased(nn.Module):
    """Adds in place to a value that it still needs, by an amount that images in [0, 1] do not show."""

    def forward(self, x):
        h = x.flatten(1) * 1.0
        y = h
        y += 100 * F.relu(h - 2)
        return h + y


class Added(nn.Module):
    """Adds in place to a value that nobody needs any more, as residual networks do."""

    def forward(self, x):
        h = x.flatten(1) * 1.0
        h += 3 * x.flatten(1)
        return h


def test_adding_in_place_to_a_value_that_is_still_needed_is_refused():
    with pytest.raises(ModelError, match="changed in place"):
        lipschitz_bound(Aliased(), images(3))
    assert lipschitz_bound(Added(), images(3)).upper == pytest.approx(4)


@pytest.mark.parametrize("layer", [nn.Softplus(threshold=1), nn.Softplus(beta=-1.0)])
def test_a_softplus_that_jumps_has_no_constant(layer):
    with pytest.raises(ModelError, match="Softplus"):
        lipschitz_bound(nn.Sequential(nn.Flatten(), layer), images(3))
    assert lipschitz_bound(nn.Sequential(nn.Flatten(), nn.Softplus()), images(3)).upper == pytest.approx(1)


def test_an_attribute_called_plain_is_nobodys_business():
    model = nn.Sequential(nn.Flatten(), nn.ReLU())
    model.plain = True
    model[1].plain = None
    assert lipschitz_bound(model, images(3)).upper == pytest.approx(1)


def test_bounds_of_networks_that_do_not_change_are_computed_once(monkeypatch):
    calls, followed = [], margins.followed
    monkeypatch.setattr(margins, "followed", lambda tally, *rest: calls.append(tally.norm) or followed(tally, *rest))
    first, second, x, known = smooth(), smooth(seed=1), images(2), {}
    for _ in range(2):
        with margins.unchanging(known):
            margin_growth(first, x, "l1")
            margin_growth(second, x, "l2")
    assert calls.count("l2") == 2
    assert len(calls) == 3
    margin_growth(second, x, "l2")
    assert len(calls) == 4, "a bound was kept for a network that may have changed"
