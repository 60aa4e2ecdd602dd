"""Lipschitz rules of operations and layers: how much longer each can make a difference."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrize

from holdfast.lipschitz.activations import GroupSort, Householder
from holdfast.lipschitz.convolution import Downsampling
from holdfast.lipschitz.rules.activations import activated, householder, larger, log_softmax
from holdfast.lipschitz.rules.linear import (
    batch_norm,
    convolution,
    convolution_layer,
    dense,
    over,
    plus,
    product,
    times,
    transposed_convolution,
    transposed_layer,
)
from holdfast.lipschitz.rules.moves import attribute, cast, described, dropped, kept, like, moved, padded, side_by_side
from holdfast.lipschitz.rules.pooling import (
    adaptive_max_pooled,
    average_pooled,
    averaged,
    extreme,
    interpolated,
    largest,
    max_pooled,
)
from holdfast.lipschitz.slopes import ACTIVATIONS
from holdfast.lipschitz.tally import Rule

# fmt: off
_MOVES = (
    "channel_shuffle", "chunk", "clone", "contiguous", "detach", "expand", "flatten", "flip", "getitem", "movedim",
    "narrow", "permute", "pixel_shuffle", "pixel_unshuffle", "ravel", "repeat", "reshape", "roll", "select", "split",
    "squeeze", "transpose", "unbind", "unflatten", "unsqueeze", "view",
)
# fmt: on
_DESCRIPTIONS = ("dim", "new_full", "new_ones", "new_zeros", "numel", "ones_like", "size", "zeros_like")
_DROPOUTS = ("alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")

RULES: dict[str, Rule] = {
    **{name: functools.partial(activated, name) for name in ACTIVATIONS},
    **dict.fromkeys(_MOVES, moved),
    **dict.fromkeys(_DESCRIPTIONS, described),
    **dict.fromkeys(_DROPOUTS, dropped),
    **dict.fromkeys(("adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "mean", "sum"), averaged),
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool2d"), adaptive_max_pooled),
    **dict.fromkeys(("double", "float", "to", "type_as"), cast),
    **dict.fromkeys(("expand_as", "reshape_as", "view_as"), like),
    **dict.fromkeys(("amax", "amin"), largest),
    **dict.fromkeys(("conv1d", "conv2d"), convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d"), transposed_convolution),
    **dict.fromkeys(("interpolate", "upsample", "upsample_bilinear", "upsample_nearest"), interpolated),
    **dict.fromkeys(("matmul", "mm"), product),
    **dict.fromkeys(("max", "min"), extreme),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), max_pooled),
    **dict.fromkeys(("maximum", "minimum"), larger),
    **dict.fromkeys(("cat", "concat", "stack"), side_by_side),
    **dict.fromkeys(("add", "sub"), plus),
    **dict.fromkeys(("neg", "negative"), kept),
    "avg_pool2d": average_pooled,
    "batch_norm": batch_norm,
    "div": over,
    "getattr": attribute,
    "linear": dense,
    "log_softmax": log_softmax,
    "mul": times,
    "pad": padded,
}
"""Rules of operations, by their names as functions or methods of torch."""

OF_SEVERAL = {cast, extreme, larger, like, over, plus, product, side_by_side, times}
"""Rules of operations with several arguments that may depend on the input."""

IN_PLACE = {"add_", "div_", "mul_", "neg_", "sub_", *(f"{name}_" for name in ACTIVATIONS)}
"""Methods that write to their tensor, with the rules of those that do not."""

_PYTHON: dict[Any, str] = {
    getattr: "getattr",
    operator.add: "add",
    operator.getitem: "getitem",
    operator.iadd: "add",
    operator.imul: "mul",
    operator.isub: "sub",
    operator.itruediv: "div",
    operator.matmul: "matmul",
    operator.mul: "mul",
    operator.neg: "neg",
    operator.sub: "sub",
    operator.truediv: "div",
}

FUNCTIONS: dict[Any, str] = {
    **{getattr(home, name): name for home in (torch, F) for name in RULES if hasattr(home, name)},
    **_PYTHON,
}
"""Names in `RULES` of functions and operators."""


def _as_function(name: str, *attributes: str) -> Rule:
    """The rule of a layer that is a function with these attributes as options."""
    return lambda module, site, value: RULES[name](site, value, *(getattr(module, a) for a in attributes))


_MOVING_LAYERS = (
    nn.ChannelShuffle,
    nn.ConstantPad2d,
    nn.Flatten,
    nn.PixelShuffle,
    nn.PixelUnshuffle,
    nn.ReflectionPad2d,
    nn.ReplicationPad2d,
    nn.Unflatten,
    nn.ZeroPad2d,
    Downsampling,
)
_DROPOUT_LAYERS = (nn.AlphaDropout, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout)

_BATCH_NORM = _as_function("batch_norm", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
_ADAPTIVE_MAX_POOL = _as_function("adaptive_max_pool2d", "output_size", "return_indices")
_MAX_POOL = _as_function("max_pool2d", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")

LAYERS: dict[type[nn.Module], Rule] = {
    **dict.fromkeys(_MOVING_LAYERS, lambda module, site, value: moved(site, value)),
    **dict.fromkeys(_DROPOUT_LAYERS, _as_function("dropout", "p", "training")),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _BATCH_NORM),
    GroupSort: lambda module, site, value: site.times(value, 1.0),
    Householder: householder,
    **dict.fromkeys(
        (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AvgPool1d), lambda module, site, value: averaged(site, value)
    ),
    **dict.fromkeys(
        (nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d),
        _as_function("adaptive_max_pool2d", "output_size", "return_indices"),
    ),
    **dict.fromkeys((nn.Conv1d, nn.Conv2d), convolution_layer),
    **dict.fromkeys((nn.ConvTranspose1d, nn.ConvTranspose2d), transposed_layer),
    **dict.fromkeys((nn.MaxPool1d, nn.MaxPool2d), _MAX_POOL),
    **dict.fromkeys(
        (nn.Upsample, nn.UpsamplingBilinear2d, nn.UpsamplingNearest2d),
        lambda module, site, value: interpolated(site, value),
    ),
    nn.AvgPool2d: _as_function(
        "avg_pool2d", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"
    ),
    nn.CELU: _as_function("celu", "alpha"),
    nn.CircularPad2d: lambda module, site, value: padded(site, value, module.padding, "circular"),
    nn.ELU: _as_function("elu", "alpha"),
    nn.GELU: _as_function("gelu", "approximate"),
    nn.Hardsigmoid: _as_function("hardsigmoid"),
    nn.Hardswish: _as_function("hardswish"),
    nn.Hardtanh: _as_function("hardtanh"),
    nn.Identity: lambda module, site, value: kept(site, value),
    nn.LeakyReLU: _as_function("leaky_relu", "negative_slope"),
    nn.Linear: _as_function("linear", "weight"),
    nn.LogSigmoid: _as_function("logsigmoid"),
    nn.LogSoftmax: _as_function("log_softmax", "dim"),
    nn.Mish: _as_function("mish"),
    nn.PReLU: _as_function("prelu", "weight"),
    nn.ReLU6: _as_function("relu6"),
    nn.ReLU: _as_function("relu"),
    nn.SELU: _as_function("selu"),
    nn.SiLU: _as_function("silu"),
    nn.Sigmoid: _as_function("sigmoid"),
    nn.Softplus: _as_function("softplus", "beta", "threshold"),
    nn.Softsign: _as_function("softsign"),
    nn.Tanh: _as_function("tanh"),
}
"""Rules of layers, as functions of the layer, the site and the input."""


def layer_rule(module: nn.Module) -> Rule | None:
    """The rule of a layer's class; subclasses may compute something else, so their forward passes are followed."""
    kind = type(module)
    if parametrize.is_parametrized(module):
        kind = kind.__bases__[0]
    return None if "forward" in vars(module) else LAYERS.get(kind)
