"""Dense layers with orthogonal weights, and how any layer keeps its weights orthogonal."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.lipschitz.polar import Polar, orthogonalise, unrolled


class OrthogonalMatrices(nn.Module):
    """Matrices that are orthogonal whenever they are used, (..., m, n).

    The parameter is free, and its polar factor is used, computed once per change of the parameter. In training the
    factor also replaces the parameter. That changes no output, and keeps the parameter so near to its factor that two
    or three iterations are enough after the next step and that the gradient is a projection.

    Args:
        shape: shape of the matrices, leading dimensions first.
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape))
        for matrix in self.weight.data.view(-1, *shape[-2:]):
            nn.init.orthogonal_(matrix)
        self._cached: tuple[Tensor, Tensor] | None = None

    def forward(self) -> Tensor:
        """The orthogonal matrices."""
        weight = self.weight
        if torch._C._functorch.is_functorch_wrapped_tensor(weight):
            return unrolled(weight)
        with torch.inference_mode(False):
            source, factor = self._factor()
        result: Tensor = Polar.apply(weight, factor, source is factor)  # type: ignore[no-untyped-call]
        return result

    def _factor(self) -> tuple[Tensor, Tensor]:
        """A copy of the parameter, to detect changes, and its factor."""
        weight = self.weight.detach()
        if self._cached is not None and _same(self._cached[0], weight):  # cheap; versions and addresses can mislead
            return self._cached
        factor = orthogonalise(weight)
        source = weight.clone()
        if self.training and torch.is_grad_enabled():
            self.weight.data.copy_(factor)
            source = factor
        self._cached = source, factor
        return self._cached

    def __getstate__(self) -> dict[str, Any]:
        """The state without the factor, which is computed anew."""
        return {**self.__dict__, "_cached": None}


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)


class OrthogonalDense(nn.Module):
    """A dense layer whose weight matrix has orthonormal rows, or columns if it has more rows: 1-Lipschitz in l2.

    Args:
        inputs: length of the input vector.
        outputs: length of the output vector.
        bias: whether to add a bias.
    """

    def __init__(self, inputs: int, outputs: int, *, bias: bool = False) -> None:
        super().__init__()
        self.in_features, self.out_features = inputs, outputs
        self.matrix = OrthogonalMatrices(outputs, inputs)
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    @property
    def weight(self) -> Tensor:
        """The orthogonal matrix, (outputs, inputs)."""
        matrix: Tensor = self.matrix()
        return matrix

    def forward(self, x: Tensor) -> Tensor:
        """(N, outputs)."""
        return F.linear(x, self.weight, self.bias)

    def plain(self) -> nn.Module:
        """An ordinary layer with the same outputs."""
        weight = self.weight.detach()
        return filled(nn.Linear, weight, self.bias, self.in_features, self.out_features).train(self.training)


def filled(kind: type[nn.Linear] | type[nn.Conv2d], weight: Tensor, bias: Tensor | None, *sizes: int) -> nn.Module:
    """An ordinary layer with these weights; no random number is drawn for weights that are discarded."""
    options: Any = {"bias": bias is not None, "dtype": weight.dtype, "device": weight.device}
    layer: Any = nn.utils.skip_init(kind, *sizes, **options)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    made: nn.Module = layer
    return made
