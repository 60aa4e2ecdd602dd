"""Every rule of the Lipschitz bound against Jacobians at random points, for values of 2, 3 and 4 dimensions."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.lipschitz import Downsampling, GroupSort, Householder
from holdfast.lipschitz.bound import lipschitz_bound
from holdfast.lipschitz.rules import LAYERS, RULES
from holdfast.rng import Streams

ORDERS = {"l1": 1, "l2": 2, "linf": torch.inf}
FLAT, LINE, IMAGE, MAP = (6,), (2, 6), (3, 5), (2, 5, 4)  # behind the examples: vectors, series, maps without channels
ALL = (FLAT, LINE, MAP)


class Function(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x)


def draw(seed, *shape):
    return Streams(seed, "rules", 1).normal(torch.empty(1, *shape, dtype=torch.float64))[0]


def points(seed, shape):
    """Random points; with heavy tails, single values decide over many windows."""
    plain = draw(seed, 6, *shape)
    return torch.cat((plain, plain**5)).float().double()  # which a cast to float32 does not change


def jacobians(model, x):
    """Of each point, (N, outputs, inputs)."""
    rows = [torch.autograd.functional.jacobian(lambda z: model(z[None])[0].flatten(), point) for point in x]
    return torch.stack(rows).flatten(2)


def steepest_slope(model, x, order):
    """Between points that follow each other, whatever the gradient says."""
    with torch.no_grad():
        up, along = (part.reshape(len(x), -1).diff(dim=0) for part in (model(x), x))
    return float((torch.linalg.vector_norm(up, order, dim=1) / torch.linalg.vector_norm(along, order, dim=1)).amax())


def check_sound(model, shape, seed=0):
    """Neither Jacobians nor slopes are above the bound, in any norm."""
    model, x = model.double().eval(), points(seed, shape)
    matrices = jacobians(model, x)
    for norm, order in ORDERS.items():
        upper = lipschitz_bound(model, x[:2], norm=norm).upper
        steepest = max(float(torch.linalg.matrix_norm(matrices, order).amax()), steepest_slope(model, x, order))
        assert steepest <= upper * (1 + 1e-12), f"{shape}, {norm}: slope {steepest} above the bound {upper}"


def each(call, *shapes):
    return [(lambda: Function(call), shape) for shape in shapes or ALL]


def const(*shape, seed=5):
    return draw(seed, *shape)


def pools(make, *, dims, count=12):
    """Pools of random kernels, strides, paddings and dilations, on maps with and without channels."""
    options, cases = random.Random(0), []
    for number in range(count):
        shape = ((2,) if number % 2 else ()) + tuple(options.randint(3, 7) for _ in range(dims))
        kernel = [options.randint(1, 3) for _ in range(dims)]
        stride = [options.randint(1, 3) for _ in range(dims)]
        padding = [options.randint(0, k // 2) for k in kernel]
        cases.append((lambda k=kernel, s=stride, p=padding, n=number: make(k, s, p, n, options), shape))
    return cases


def one_or(values):
    return values[0] if len(values) == 1 else tuple(values)


def max_pool(kernel, stride, padding, number, options):
    call = F.max_pool1d if len(kernel) == 1 else F.max_pool2d
    dilation = 1 + (number % 3 == 2 and max(kernel) < 3)
    return Function(
        lambda x: call(x, one_or(kernel), one_or(stride), one_or(padding), dilation, ceil_mode=number % 4 == 1)
    )


def mean_pool(kernel, stride, padding, number, options):
    return Function(
        lambda x: F.avg_pool2d(
            x, kernel, stride, padding, number % 4 == 1, number % 3 == 0, 5 if number % 5 == 4 else None
        )
    )


def mean_pool_1d(kernel, stride, padding, number, options):
    return Function(lambda x: F.avg_pool1d(x, kernel[0], stride[0], padding[0], number % 4 == 1, number % 3 == 0))


def adaptive(call, dims):
    sizes = [((7, 5), (3, 4)), ((6, 4), (3, 2)), ((4, 1), (4, 1)), ((5, 6), (2, 5)), ((1, 7), (1, 5))]
    cases = []
    for size, outputs in sizes:
        for channels in ((), (2,)):
            target = outputs[-dims:] if dims > 1 else outputs[-1]
            cases.append((lambda o=target: Function(lambda x: call(x, o)), channels + size[-dims:]))
    return cases


def convolutions(transposed, dims):
    options, cases = random.Random(dims), []
    for number in range(10):
        groups = options.choice([1, 1, 2])
        inputs, outputs = groups * options.randint(1, 2), groups * options.randint(1, 2)
        kernel, stride, dilation = ([options.randint(1, 3) for _ in range(dims)] for _ in range(3))
        padding = [options.randint(0, 2) for _ in range(dims)]
        if transposed:
            padding = [min(p, (k - 1) * d // 2) for p, k, d in zip(padding, kernel, dilation, strict=True)]
        extents = [(k - 1) * d + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
        sides = [options.randint(max(2, extent), 7) for extent in extents]
        name = f"Conv{'Transpose' * transposed}{dims}d"
        named = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if transposed:
            named["output_padding"] = [options.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True)]
        elif number % 3 == 2:
            named["padding_mode"] = options.choice(["circular", "replicate"])
            named["padding"] = [min(p, side) for p, side in zip(padding, sides, strict=True)]

        def make(name=name, named=named, sizes=(inputs, outputs, kernel), seed=number):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                return getattr(nn, name)(*sizes, **named)

        cases.append((make, (inputs, *sides)))
    return cases


def functions_of(layers):
    """The same convolutions as functions."""

    def function(make):
        layer = make().double()
        call = getattr(
            F,
            {"Conv1d": "conv1d", "Conv2d": "conv2d", "ConvTranspose1d": "conv_transpose1d"}.get(
                type(layer).__name__, "conv_transpose2d"
            ),
        )
        options = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups}
        if layer.transposed:
            options["output_padding"] = layer.output_padding
        return Function(lambda x: call(x, layer.weight.detach(), layer.bias.detach(), **options))

    return [(lambda make=make: function(make), shape) for make, shape in layers if make().padding_mode == "zeros"]


def interpolations():
    cases = []
    for shape in ((2, 4), (2, 7)):
        cases += each(lambda x: F.interpolate(x, scale_factor=2, mode="linear"), shape)
        cases += each(lambda x: F.interpolate(x, size=3), shape)
    for mode, size in itertools.product(("nearest", "bilinear", "bicubic", "area", "nearest-exact"), ((7, 3), (2, 9))):
        cases += each(lambda x, mode=mode, size=size: F.interpolate(x, size=size, mode=mode), (1, 4, 5))
    cases += each(lambda x: F.interpolate(x, scale_factor=(1.7, 0.6), mode="bilinear", align_corners=False), (1, 5, 5))
    cases += each(lambda x: F.interpolate(x, size=(3, 3), mode="bicubic", antialias=True), (1, 5, 5))
    return cases


def upsampling(call):
    return each(lambda x: call(x, scale_factor=2), (1, 3, 4)) + each(lambda x: call(x, size=(5, 2)), (2, 3, 4))


def along(call, *, keep=True):
    """A reduction along every dimension but that of the examples."""
    cases = [(lambda d=dim: Function(lambda x: call(x, d)), shape) for shape in ALL for dim in range(1, len(shape) + 1)]
    return cases + ([(lambda d=dim: Function(lambda x: call(x, d - 4)), MAP) for dim in (1, 2, 3)] if keep else [])


FREE = torch.randn(2, 6, generator=torch.Generator().manual_seed(0)).double()
CASES = {
    "abs": each(torch.abs),
    "adaptive_avg_pool1d": adaptive(F.adaptive_avg_pool1d, 1),
    "adaptive_avg_pool2d": adaptive(F.adaptive_avg_pool2d, 2),
    "adaptive_max_pool1d": adaptive(F.adaptive_max_pool1d, 1),
    "adaptive_max_pool2d": adaptive(F.adaptive_max_pool2d, 2),
    "add": each(lambda x: x + x.tanh())
    + each(lambda x: torch.add(x, x.tanh(), alpha=-2.5))
    + each(lambda x: x.add(const(6), alpha=3), FLAT)
    + each(lambda x: torch.add(const(2, 6), x, alpha=-3), LINE)
    + each(lambda x: x + x.mean((2, 3), keepdim=True), MAP)
    + each(lambda x: x.mean(1, keepdim=True) + const(6), FLAT),
    "alpha_dropout": each(lambda x: F.alpha_dropout(x, training=False)),
    "amax": along(lambda x, d: x.amax(d)) + each(lambda x: x.amax((1, 3), keepdim=True), MAP),
    "amin": along(lambda x, d: torch.amin(x, d)),
    "avg_pool1d": pools(mean_pool_1d, dims=1),
    "avg_pool2d": pools(mean_pool, dims=2),
    "batch_norm": [
        (lambda s=s: Function(lambda x: F.batch_norm(x, const(s[0]), const(s[0]).exp(), const(s[0], seed=6))), s)
        for s in ALL
    ]
    + each(lambda x: F.batch_norm(x, const(6), torch.full((6,), 1e-6).double()), FLAT),  # eps counts
    "cat": each(lambda x: torch.cat((x, 3 * x.tanh()), 1)) + each(lambda x: torch.cat((x, x.relu(), x), dim=-1)),
    "celu": each(lambda x: F.celu(x, 0.3)),
    "channel_shuffle": each(lambda x: F.channel_shuffle(x, 2), (4, 2, 3)),
    "chunk": each(lambda x: x.chunk(2, dim=1)[0]),
    "clamp": each(lambda x: x.clamp(-0.3, 0.4)),
    "clone": each(torch.clone),
    "concat": each(lambda x: torch.concat((x, x.sigmoid()), 1)),
    "contiguous": each(lambda x: x.contiguous()),
    "conv1d": functions_of(convolutions(False, 1)),
    "conv2d": functions_of(convolutions(False, 2)),
    "conv_transpose1d": functions_of(convolutions(True, 1)),
    "conv_transpose2d": functions_of(convolutions(True, 2)),
    "detach": each(lambda x: 2 * x.detach()),
    "dim": each(lambda x: x * x.dim()),
    "div": each(lambda x: x / 0.3) + each(lambda x: x / const(2, 6), LINE) + each(lambda x: torch.div(x, 7)),
    "double": each(lambda x: x.double() * 2),
    "dropout": each(lambda x: F.dropout(x, training=False)),
    "dropout1d": each(lambda x: F.dropout1d(x, training=False), LINE),
    "dropout2d": each(lambda x: F.dropout2d(x, training=False), MAP),
    "dropout3d": each(lambda x: F.dropout3d(x, training=False), (2, 2, 2, 2)),
    "elu": each(lambda x: F.elu(x, 2.0)),
    "expand": each(lambda x: x[:, None].expand(-1, 3, -1), FLAT)
    + each(lambda x: x[:, :, None].expand(-1, -1, 2, -1), LINE),
    "expand_as": each(lambda x: x[:, :1].expand_as(x)) + each(lambda x: x + const(1, 6).expand_as(x), FLAT),
    "feature_alpha_dropout": each(lambda x: F.feature_alpha_dropout(x, training=False)),
    "flatten": each(lambda x: x.flatten(1)) + each(lambda x: torch.flatten(x, 1, 2), LINE, MAP),
    "flip": each(lambda x: x.flip(1)),
    "float": each(lambda x: 3 * x.float().double()),
    "gelu": each(F.gelu) + each(lambda x: F.gelu(x, approximate="tanh")),
    "getattr": each(lambda x: x.view(x.shape[0], -1)),
    "getitem": each(lambda x: x[:, [0, 1, 1, 0, 1]]) + each(lambda x: x[..., ::2]),
    "hardsigmoid": each(F.hardsigmoid),
    "hardswish": each(F.hardswish),
    "hardtanh": each(F.hardtanh),
    "interpolate": interpolations(),
    "leaky_relu": each(lambda x: F.leaky_relu(x, -3.0)),
    "linear": each(lambda x: F.linear(x, const(4, 6)), FLAT, LINE, (2, 3, 6)),
    "log_softmax": along(lambda x, d: x.log_softmax(d)) + each(lambda x: F.log_softmax(20 * x, 1), (2,), (9,)),
    "logsigmoid": each(F.logsigmoid),
    "matmul": each(lambda x: x @ const(6, 4), FLAT, LINE)
    + each(lambda x: x @ const(6), FLAT, LINE)
    + each(lambda x: const(4, 3) @ x, (3, 5), (2, 3, 5))
    + each(lambda x: const(3) @ x, (3, 5)),
    "max": along(lambda x, d: x.max(d).values)
    + along(lambda x, d: torch.max(x, d, keepdim=True)[0])
    + each(lambda x: torch.max(x, 2 * x.tanh())),
    "max_pool1d": pools(max_pool, dims=1),
    "max_pool2d": pools(max_pool, dims=2) + each(lambda x: F.max_pool2d(x, 3, 1, 1), (1, 1), (2, 1, 1), (4, 4)),
    "maximum": each(lambda x: torch.maximum(x, 3 * x.sigmoid()))
    + each(lambda x: torch.maximum(const(6), x), FLAT)
    + each(lambda x: torch.maximum(x, x.amax((2, 3), keepdim=True) - 1), MAP),
    "mean": along(lambda x, d: x.mean(d)) + each(lambda x: x.mean((1, 2), keepdim=True), LINE, MAP),
    "min": along(lambda x, d: x.min(d)[0]) + each(lambda x: torch.min(const(6), x), FLAT),
    "minimum": each(lambda x: torch.minimum(x, -2 * x)),
    "mish": each(F.mish),
    "mm": each(lambda x: torch.mm(x, const(6, 3)), FLAT),
    "movedim": each(lambda x: x.movedim(1, 2), LINE, MAP),
    "mul": each(lambda x: x * -2.5) + each(lambda x: const(2, 6) * x, LINE) + each(lambda x: x * const(2, 1, 4), MAP),
    "narrow": each(lambda x: x.narrow(1, 1, 1)),
    "neg": each(lambda x: -x),
    "negative": each(torch.negative),
    "new_full": each(lambda x: x + x.new_full((1,), 3.0)),
    "new_ones": each(lambda x: x * x.new_ones(1) * 2),
    "new_zeros": each(lambda x: x + x.new_zeros(1)),
    "numel": each(lambda x: x.view(x.size(0), x.numel() // x.size(0))),
    "ones_like": each(lambda x: torch.cat((x, torch.ones_like(x)), 1)),
    "pad": each(lambda x: F.pad(x, (1, 2)), FLAT, LINE, MAP)
    + each(lambda x: F.pad(x, (2, 1, 1, 3), mode="circular"), MAP)
    + each(lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect"), MAP)
    + each(lambda x: F.pad(x, (2, 1), mode="replicate"), LINE)
    + each(lambda x: F.pad(x, (3, 2), mode="circular"), LINE),
    "permute": each(lambda x: x.permute(0, 2, 1), LINE) + each(lambda x: x.permute(0, 3, 1, 2), MAP),
    "pixel_shuffle": each(lambda x: F.pixel_shuffle(x, 2), (4, 2, 3)),
    "pixel_unshuffle": each(lambda x: F.pixel_unshuffle(x, 2), (1, 4, 2)),
    "prelu": each(lambda x: F.prelu(x, const(2)), LINE, MAP) + each(lambda x: F.prelu(x, const(1))),
    "ravel": each(lambda x: x[:, 0].ravel(), FLAT),
    "relu": each(F.relu),
    "relu6": each(F.relu6),
    "repeat": each(lambda x: x.repeat(1, 3), FLAT) + each(lambda x: x.repeat(1, 2, 1, 2), MAP),
    "reshape": each(lambda x: x.reshape(x.size(0), -1)),
    "reshape_as": each(lambda x: x.flatten(1).reshape_as(x)),
    "roll": each(lambda x: x.roll(1, 1)),
    "select": each(lambda x: x.select(1, 1)),
    "selu": each(F.selu),
    "sigmoid": each(torch.sigmoid),
    "silu": each(F.silu),
    "size": each(lambda x: x.view(x.size(0), -1)),
    "softplus": each(lambda x: F.softplus(x, beta=0.5)),
    "softsign": each(F.softsign),
    "split": each(lambda x: x.split(1, dim=1)[1]),
    "squeeze": each(lambda x: x[:, :1].squeeze(1), LINE, MAP),
    "stack": each(lambda x: torch.stack((x, 2 * x.tanh()), 1)) + each(lambda x: torch.stack((x, -x), dim=-1)),
    "sub": each(lambda x: x - 4 * x.tanh()) + each(lambda x: x.sub(x.relu(), alpha=2)),
    "sum": along(lambda x, d: x.sum(d)) + each(lambda x: x.sum((-1, -2)), LINE, MAP),
    "tanh": each(torch.tanh),
    "to": each(lambda x: x.to(torch.float64) * FREE[0, 0].to(x)) + each(lambda x: x * FREE.float().to(x), LINE),
    "transpose": each(lambda x: x.transpose(1, 2), LINE, MAP),
    "type_as": each(lambda x: x * FREE[0].float().type_as(x), FLAT),
    "unbind": each(lambda x: x.unbind(1)[0]),
    "unflatten": each(lambda x: x.unflatten(1, (2, 1)), LINE, MAP),
    "unsqueeze": each(lambda x: x.unsqueeze(1)),
    "upsample": upsampling(lambda x, **named: F.interpolate(x, **named)),
    "upsample_bilinear": upsampling(F.upsample_bilinear),
    "upsample_nearest": upsampling(F.upsample_nearest),
    "view": each(lambda x: x.view(x.size(0), -1)),
    "view_as": each(lambda x: x.flatten(1).view_as(x)),
    "zeros_like": each(lambda x: x + torch.zeros_like(x)),
}
"""Networks and the shapes of their images for every rule of an operation."""


def reflecting(channels):
    layer = Householder(channels)
    with torch.no_grad():
        layer.angle.copy_(torch.linspace(-2.7, 4.1, len(layer.angle)))
    return layer


def frozen(kind, channels):
    layer = kind(channels).double().eval()
    with torch.no_grad():
        for number, part in enumerate((layer.running_mean, layer.weight, layer.bias)):
            part.copy_(const(channels, seed=number))
        layer.running_var.copy_(const(channels).exp())
    return layer


def layers(*made):
    return [(lambda each=layer: each, shape) for layer, shape in made]


def everywhere(make):
    return [(make, shape) for shape in ALL]


LAYER_CASES = {
    GroupSort: everywhere(GroupSort) + layers((GroupSort(3), (7, 2))),
    Householder: [(lambda c=shape[0]: reflecting(c), shape) for shape in (*ALL, (5,), (1,))],
    Downsampling: layers((Downsampling(), (2, 5, 4))),
    nn.AdaptiveAvgPool1d: layers((nn.AdaptiveAvgPool1d(4), LINE)),
    nn.AdaptiveAvgPool2d: layers((nn.AdaptiveAvgPool2d((3, 4)), MAP), (nn.AdaptiveAvgPool2d(2), IMAGE)),
    nn.AdaptiveMaxPool1d: layers((nn.AdaptiveMaxPool1d(4), LINE), (nn.AdaptiveMaxPool1d(4), FLAT)),
    nn.AdaptiveMaxPool2d: layers(
        (nn.AdaptiveMaxPool2d((3, 4)), MAP),
        (nn.AdaptiveMaxPool2d((2, 5)), IMAGE),
        (nn.AdaptiveMaxPool2d((3, 1)), (4, 1)),
    ),
    nn.AlphaDropout: everywhere(nn.AlphaDropout),
    nn.AvgPool1d: layers((nn.AvgPool1d(3, 2, 1), LINE)),
    nn.AvgPool2d: layers((nn.AvgPool2d(3, 2, 1), MAP), (nn.AvgPool2d((2, 3), 1), IMAGE)),
    nn.BatchNorm1d: [(lambda s=shape: frozen(nn.BatchNorm1d, s[0]), shape) for shape in (FLAT, LINE)],
    nn.BatchNorm2d: [(lambda: frozen(nn.BatchNorm2d, 2), MAP)],
    nn.BatchNorm3d: [(lambda: frozen(nn.BatchNorm3d, 2), (2, 2, 2, 3))],
    nn.CELU: everywhere(nn.CELU),
    nn.ChannelShuffle: layers((nn.ChannelShuffle(2), (4, 2, 3))),
    nn.CircularPad2d: layers((nn.CircularPad2d((2, 1, 3, 0)), MAP)),
    nn.ConstantPad2d: layers((nn.ConstantPad2d((1, 2, 0, 1), 3.0), MAP)),
    nn.Conv1d: convolutions(False, 1),
    nn.Conv2d: convolutions(False, 2),
    nn.ConvTranspose1d: convolutions(True, 1),
    nn.ConvTranspose2d: convolutions(True, 2),
    nn.Dropout: everywhere(nn.Dropout),
    nn.Dropout1d: layers((nn.Dropout1d(), LINE)),
    nn.Dropout2d: layers((nn.Dropout2d(), MAP)),
    nn.Dropout3d: layers((nn.Dropout3d(), (2, 2, 2, 2))),
    nn.ELU: everywhere(lambda: nn.ELU(2.5)),
    nn.FeatureAlphaDropout: everywhere(nn.FeatureAlphaDropout),
    nn.Flatten: everywhere(nn.Flatten),
    nn.GELU: everywhere(nn.GELU) + everywhere(lambda: nn.GELU("tanh")),
    nn.Hardsigmoid: everywhere(nn.Hardsigmoid),
    nn.Hardswish: everywhere(nn.Hardswish),
    nn.Hardtanh: everywhere(nn.Hardtanh),
    nn.Identity: everywhere(nn.Identity),
    nn.LeakyReLU: everywhere(lambda: nn.LeakyReLU(-2.0)),
    nn.Linear: layers((nn.Linear(6, 3), FLAT), (nn.Linear(6, 3), LINE), (nn.Linear(4, 3), MAP)),
    nn.LogSigmoid: everywhere(nn.LogSigmoid),
    nn.LogSoftmax: everywhere(lambda: nn.LogSoftmax(1)) + everywhere(lambda: nn.LogSoftmax(-1)),
    nn.MaxPool1d: layers((nn.MaxPool1d(3, 1, 1), LINE), (nn.MaxPool1d(2, 1), FLAT)),
    nn.MaxPool2d: layers(
        (nn.MaxPool2d(3, 1, 1), MAP), (nn.MaxPool2d((2, 3), (1, 2)), IMAGE), (nn.MaxPool2d(2, 1, 1), (1, 1))
    ),
    nn.Mish: everywhere(nn.Mish),
    nn.PReLU: layers((nn.PReLU(2, init=-3.0), LINE), (nn.PReLU(), FLAT)),
    nn.PixelShuffle: layers((nn.PixelShuffle(2), (4, 2, 3))),
    nn.PixelUnshuffle: layers((nn.PixelUnshuffle(2), (1, 4, 2))),
    nn.ReLU: everywhere(nn.ReLU),
    nn.ReLU6: everywhere(nn.ReLU6),
    nn.ReflectionPad2d: layers((nn.ReflectionPad2d(2), MAP)),
    nn.ReplicationPad2d: layers((nn.ReplicationPad2d((2, 0, 1, 3)), MAP)),
    nn.SELU: everywhere(nn.SELU),
    nn.SiLU: everywhere(nn.SiLU),
    nn.Sigmoid: everywhere(nn.Sigmoid),
    nn.Softplus: everywhere(lambda: nn.Softplus(beta=2.0)),
    nn.Softsign: everywhere(nn.Softsign),
    nn.Tanh: everywhere(nn.Tanh),
    nn.Unflatten: layers((nn.Unflatten(1, (2, 3)), FLAT)),
    nn.Upsample: layers(
        (nn.Upsample(scale_factor=2, mode="bicubic"), (1, 4, 4)), (nn.Upsample(size=4, mode="linear"), LINE)
    ),
    nn.UpsamplingBilinear2d: layers((nn.UpsamplingBilinear2d(size=(5, 3)), (1, 3, 4))),
    nn.UpsamplingNearest2d: layers((nn.UpsamplingNearest2d(scale_factor=2), (1, 3, 4))),
    nn.ZeroPad2d: layers((nn.ZeroPad2d((1, 2, 0, 1)), MAP)),
}
"""The same for every rule of a layer."""


def test_every_rule_has_cases():
    assert set(CASES) == set(RULES)
    assert set(LAYER_CASES) == set(LAYERS)


@pytest.mark.filterwarnings("ignore:.*nn.functional.upsample", "ignore:.*align_corners", "ignore:.*dropout2d")
@pytest.mark.parametrize("name", RULES)
def test_no_operation_is_steeper_than_its_bound(name):
    for seed, (make, shape) in enumerate(CASES[name]):
        check_sound(make(), shape, seed)


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_no_layer_is_steeper_than_its_bound(kind):
    for seed, (make, shape) in enumerate(LAYER_CASES[kind]):
        model = make()
        assert isinstance(model, kind)
        check_sound(model, shape, seed)
        check_sound(nn.Sequential(frozen(nn.BatchNorm2d, 2), model) if shape == MAP else model, shape, seed)
