r"""Networks whose first layer is parametrised in another orthonormal basis.

With weights :math:`w = C^T v C` of a first layer, :math:`C` the cosine transform, training moves :math:`v`. The network
computes the same functions and begins as the same one. A step of gradient descent is the same step in either basis,
since :math:`C` is orthogonal; one of signSGD or Adam, which treat coordinates one by one, is not. So a difference
between optimisers that depends on the basis is one of coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from holdfast.budget import require_budget
from holdfast.errors import RecipeError, unknown
from holdfast.frequency import dct, inverse_dct
from holdfast.models.external import Python, Timm, Torchvision
from holdfast.types import Architecture

Basis = Literal["pixels", "dct"]

PER_ENTRY = 32
"""Bytes of an entry of the transform's matrix in memory at most, while it is made."""


@dataclass(frozen=True, kw_only=True)
class InBasis:
    """A network of ours with the weights of its first layer in a basis.

    Those of a convolution are its kernels, height by width; those of a dense layer are as large as the image. The
    state of the network names them `parametrizations.weight.original`.

    Args:
        network: which network.
        basis: `dct` for the two-dimensional cosine transform of each plane, `pixels` for the network as it is.

    Reference:
        Ma, Pan, Farahmand, Understanding the robustness difference between stochastic gradient descent and adaptive
        gradient methods, TMLR 2023, arXiv:2308.06703, section 4: in a linear model signGD in these coordinates leaves
        weights of irrelevant frequencies alone. The test with networks is ours.
    """

    network: Architecture
    basis: Basis = "dct"

    def __post_init__(self) -> None:
        if self.basis not in get_args(Basis):
            raise ValueError(f"in_basis.basis: {unknown(self.basis, get_args(Basis))}")
        if isinstance(self.network, (Python, Timm, Torchvision, InBasis)):
            raise ValueError(f"in_basis.network: expected a network of ours, got {type(self.network).__name__.lower()}")

    def __call__(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """Build the network, then change coordinates."""
        network = self.network(shape, classes)
        if self.basis == "dct":
            layer = first_layer(network, math.prod(shape))
            planes = tuple(layer.weight.shape) if isinstance(layer, nn.Conv2d) else (len(layer.weight), *shape)
            require_budget(
                PER_ENTRY * max(planes[-2:]) ** 2, "model: the cosine transform of the first layer", error=RecipeError,
                smaller="make the images or kernels smaller",
            )  # fmt: skip
            register_parametrization(layer, "weight", Cosines(planes))
        return network


class Cosines(nn.Module):
    """Weights as functions of their coefficients.

    Args:
        planes: the shape in which the last two dimensions are height and width.
    """

    def __init__(self, planes: tuple[int, ...]) -> None:
        super().__init__()
        self.planes = planes

    def forward(self, coefficients: Tensor) -> Tensor:
        """Weights of the shape of their coefficients."""
        return inverse_dct(coefficients.reshape(self.planes)).reshape(coefficients.shape)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Coefficients of weights."""
        return dct(weight.reshape(self.planes)).reshape(weight.shape)


def first_layer(network: nn.Module, values: int) -> Any:
    """The first convolution, or the first dense layer if it sees all values of an image.

    Raises:
        ValueError: if there is none.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d) or (isinstance(module, nn.Linear) and module.in_features == values):
            return module
    raise ValueError(
        f"in_basis: expected a network that begins with a convolution or dense layer, got {type(network).__name__}"
    )
