"""Networks that predict the same with larger or smaller margins and dispersions: proposition 5.3.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
    section 5.2 and appendix D.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.models.layers import GlobalAverage
from holdfast.models.network import Network

HOMOGENEOUS = (
    nn.Identity, nn.Flatten, nn.ReLU, nn.LeakyReLU, nn.Dropout, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d,
    GlobalAverage,
)  # fmt: skip
"""Layers that scale with their input."""

AFFINE = (nn.Linear, nn.Conv2d, nn.BatchNorm2d, nn.GroupNorm)
"""Layers that scale with their weight and bias."""


def rescaled(network: Network, nu: float) -> Network:
    r"""An equivalent network whose class margins and dispersions are :math:`\nu` times as large (proposition 5.3).

    Weight and bias of the layer before the features and the bias of the head are multiplied by :math:`\nu`. Features
    and logits are then :math:`\nu` times as large, so the predicted class stays. The paper's :math:`\mathcal
    N_{\tilde\Theta}(x) = \mathcal N_\Theta(x)` holds for the class only: probabilities and loss change.

    Args:
        network: whose last layer before the features is linear, a convolution or a normalisation, followed at most by
            ReLU and pooling; it is not changed.
        nu: :math:`\nu > 0`.
    """
    if not 0 < nu < math.inf:
        raise ValueError(f"nu must be positive and finite, got {nu}")
    if not isinstance(network, Network):
        raise ModelError(f"rescaled: expected one of holdfast's networks, got {type(network).__name__}")
    made = copy.deepcopy(network)
    with torch.no_grad():
        for layer in (_before_features(made), made.head):
            bias = getattr(layer, "bias", None)
            tensors = [bias] if layer is made.head else [layer.weight, bias]
            for tensor in tensors:
                if isinstance(tensor, Tensor):
                    tensor.mul_(nu)
    return made


def _before_features(network: Network) -> nn.Module:
    for layer in reversed(list(_chain(network.body, network.pool, network.neck))):
        if isinstance(layer, AFFINE) and layer.weight is not None:
            return layer
        if not isinstance(layer, HOMOGENEOUS):
            raise ModelError(
                f"rescaled: expected a linear layer before the features, got {type(layer).__name__}; "
                "a network with a feature_dim has one"
            )
    raise ModelError(
        "rescaled: expected a linear layer before the features, got none; a network with a feature_dim has one"
    )


def _chain(*modules: nn.Module) -> Iterator[nn.Module]:
    """Layers in the order in which they are passed; blocks that are no plain sequences stay whole."""
    for module in modules:
        if isinstance(module, nn.Sequential | nn.ModuleList):
            yield from _chain(*module)
        else:
            yield module
