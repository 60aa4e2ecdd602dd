"""The linear layer at the end of a network, for objectives and analyses that look at the features before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.modes import in_evaluation_mode
from holdfast.types import Classifier


@dataclass(frozen=True)
class LinearHead:
    r"""The two parts of a classifier :math:`z = W q(x) + b`.

    Args:
        features: images to :math:`q`, (N, F).
        layer: :math:`q` to logits, (N, K).
        weight: :math:`W`, (K, F).
        bias: :math:`b`, (K,); None counts as zero.
    """

    features: Callable[[Tensor], Tensor]
    layer: Callable[[Tensor], Tensor]
    weight: Tensor
    bias: Tensor | None

    @property
    def detached_bias(self) -> Tensor | None:
        """The bias as a constant."""
        return None if self.bias is None else self.bias.detach()

    def logits(self, features: Tensor) -> Tensor:
        """Logits, (N, K). Fabric returns features in float32, whatever the precision of the layer."""
        return self.layer(features.to(self.weight.dtype))


def linear_head(model: object, who: str) -> LinearHead:
    """The features and the last linear layer of a model; an error names what is missing.

    Args:
        model: a network with `features(x)` and `head`.
        who: name of the caller, for the message.

    Raises:
        ModelError: when the model has no features, or when its head has no weight matrix with a bias or none.
    """
    features, layer = getattr(model, "features", None), getattr(model, "head", None)
    if features is None or layer is None:
        raise ModelError(f"{who} needs a model with features(x) and head, got {type(model).__name__}")
    weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2 or not _fits(bias, weight):
        raise ModelError(
            f"{who} needs a linear head with a weight (K, F) and a bias (K,) or none, got {_describe(layer)}"
        )
    return LinearHead(lambda x: _vectors(features(x), weight, who), layer, weight, bias)


@torch.no_grad()
def check_linear(head: LinearHead, who: str) -> None:
    """Refuse a layer that has a weight matrix and does something else with it, such as normalising its rows."""
    actual, expected = head.layer(head.weight), F.linear(head.weight, head.weight, head.bias)
    if actual.shape != expected.shape or not torch.allclose(actual, expected, rtol=1e-3, atol=1e-3):
        raise ModelError(f"{who} needs a head that is linear in the features, got {_describe(head.layer)}")


def _vectors(features: Tensor, weight: Tensor, who: str) -> Tensor:
    if features.dim() != 2 or features.shape[1] != weight.shape[1]:
        got = tuple(features.shape)
        raise ModelError(f"{who} needs features of {weight.shape[1]} numbers, as its head takes them, got {got}")
    return features


@torch.no_grad()
@in_evaluation_mode
def check_whole(model: Classifier, head: LinearHead, x: Tensor, who: str) -> None:
    """Refuse a model that differs from its head applied to its features, in evaluation mode."""
    actual, expected = model(x), head.logits(head.features(x))
    if not torch.allclose(actual.to(expected), expected, rtol=1e-3, atol=1e-3, equal_nan=True):
        raise ModelError(f"{who} needs a model whose logits are head(features(x)); those of {_describe(model)} differ")


@dataclass
class Whole:
    """A check, made once on the first images, that a model is its head applied to its features.

    Args:
        who: name of the caller, for the message.
        checked: whether the check has been made.
    """

    who: str
    checked: bool = False

    def head_of(self, model: Classifier, x: Tensor) -> LinearHead:
        """The linear head of a model in training; its statistics stay as they are."""
        head = linear_head(model, self.who)
        if not self.checked:
            check_whole(model, head, x, self.who)
            self.checked = True
        return head


def _fits(bias: object, weight: Tensor) -> bool:
    return bias is None or (isinstance(bias, Tensor) and bias.shape == weight.shape[:1])


def _describe(layer: object) -> str:
    return type(layer).__name__
