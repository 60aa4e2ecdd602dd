"""Other backward passes through a network as it is: its code, weights and answers stay the same.

A `TorchFunctionMode` around the forward pass sees every ReLU and max-pool, whether it is a module, a function or works
in place, and puts an operation with the same result and another gradient in its place. What is seen is `relu` and two-
dimensional `max_pool2d`; a maximum written as `clamp(min=0)` is not.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from holdfast.errors import ModelError
from holdfast.types import Classifier
from holdfast.wrappers import Wrapper, network, replaced_by_name

Rule = Callable[[Tensor, Tensor], Tensor]
"""A ReLU's gradient: what arrives at its output, and what went into it, (N, ...) each, to what leaves at its input."""


@dataclass(frozen=True, eq=False)
class ChangedBackward(Wrapper):
    """A classifier with the same answers whose ReLUs and max-pools have other gradients.

    Args:
        wrapped: the classifier.
        relu: the gradient of the ReLUs from `start` on; None for their own.
        start: share of the ReLUs, in the order of the forward pass, that keep their own.
        pool: temperature of the softmax over a window that max-pools get as their gradient; None for their own.
        who: name of the method, for messages.
        sums: whether ReLUs of a sum, such as those after a residual block, get the other gradient, too.
    """

    relu: Rule | None = None
    start: float = 0.0
    pool: float | None = None
    who: str = "backward"
    sums: bool = True

    def __call__(self, x: Tensor) -> Tensor:
        """Logits.

        Raises:
            ModelError: if there is nothing to change in the network.
        """
        if not torch.is_grad_enabled():
            return self.wrapped(x)
        record = _Record(self.relu, self.start)
        with _Mode(record, self.pool, self.sums):
            logits = self.wrapped(x)
        if not (record.relus if self.relu else 0) + (record.pools if self.pool is not None else 0):
            kinds = "ReLUs" if self.pool is None else "ReLUs or max-pools"
            raise ModelError(f"{self.who}: expected a network with {kinds}; none in {type(network(self)).__name__}")
        return logits


@dataclass
class _Record:
    """What a forward pass met. Its length is known at its end, before the backward pass begins."""

    rule: Rule | None
    start: float
    relus: int = 0
    pools: int = 0

    def changes(self, number: int | None) -> bool:
        """Whether the ReLU of this number gets the other gradient; None for one that keeps its own anyway."""
        return number is not None and number >= self.start * self.relus


class _Mode(TorchFunctionMode):
    """Sees the operations of a forward pass, and replaces some."""

    def __init__(self, record: _Record, pool: float | None, sums: bool) -> None:
        super().__init__()
        self.record, self.pool, self.sums = record, pool, sums

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """The operation, or another one with the same result."""
        kwargs = dict(kwargs or {})
        if self.record.rule is not None and func in RELUS:
            return self._relu(func, *args, **kwargs)
        if self.pool is not None and func in POOLS:
            self.record.pools += 1
            return _pooled(self.pool, *args, **kwargs)
        return func(*args, **kwargs)

    def _relu(self, func: Any, input: Tensor, inplace: bool = False) -> Tensor:
        kept = not self.sums and input.grad_fn is not None and input.grad_fn.name() == SUM
        out: Tensor = _ReLU.apply(input, self.record, None if kept else self.record.relus)  # type: ignore[no-untyped-call]
        self.record.relus += 1
        return input.copy_(out) if inplace or func in IN_PLACE else out


SUM = "AddBackward0"
"""What autograd calls a sum of two tensors, in place or not."""
IN_PLACE = (torch.relu_, Tensor.relu_)
RELUS = (torch.relu, Tensor.relu, F.relu, *IN_PLACE)
POOLS = (torch.max_pool2d, F.max_pool2d)


class _ReLU(torch.autograd.Function):
    """A ReLU that decides in the backward pass which gradient it has."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, record: _Record, number: int | None) -> Tensor:
        ctx.save_for_backward(x.clone())  # the network may go on to overwrite it
        ctx.record, ctx.number = record, number
        return x.relu()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (x,), (grad,) = ctx.saved_tensors, gradients
        return ctx.record.rule(grad, x) if ctx.record.changes(ctx.number) else grad * (x > 0), None, None


def linear(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of the identity."""
    return grad


def linear_rescaled(grad: Tensor, x: Tensor) -> Tensor:
    """The gradient of the identity, as long for each example as that of the ReLU would be."""
    axes = tuple(range(1, grad.dim()))
    own: Tensor = torch.linalg.vector_norm(grad * (x > 0), dim=axes, keepdim=True)
    whole: Tensor = torch.linalg.vector_norm(grad, dim=axes, keepdim=True)
    return grad * (own / torch.where(whole > 0, whole, 1))


def silu_slope(grad: Tensor, x: Tensor) -> Tensor:
    r"""The gradient of SiLU, :math:`\sigma(x) (1 + x (1 - \sigma(x)))`."""
    share = x.sigmoid()
    return grad * share * (1 + x * (1 - share))


def _pooled(
    temperature: float, input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Tensor:  # fmt: skip
    windows = Windows(_pair(kernel_size), _pair(stride or kernel_size), _pair(padding), _pair(dilation), ceil_mode)
    if return_indices:
        raise ModelError("bpa: expected max-pools without return_indices")
    result: Tensor = _Pool.apply(input, windows, temperature)  # type: ignore[no-untyped-call]
    return result


def _pair(value: Any) -> tuple[int, int]:
    """The two sizes that one number, or one or two in a tuple, stand for."""
    sizes = (value,) if isinstance(value, int) else tuple(value)
    return (sizes[0], sizes[-1])


@dataclass(frozen=True)
class Windows:
    """The windows of a max-pool, as torch has them."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil_mode: bool

    def pool(self, x: Tensor) -> Tensor:
        """The largest value of each."""
        return F.max_pool2d(x, self.kernel, self.stride, self.padding, self.dilation, self.ceil_mode)

    def margins(self, side: Sequence[int], count: Sequence[int]) -> list[int]:
        """What to pad so that the windows, `count` along each side, fill a plane exactly: as `F.pad` wants it.

        Values that no window sees are cut off by negative numbers.
        """
        margins: list[int] = []
        for axis in (1, 0):
            span = (count[axis] - 1) * self.stride[axis] + self.dilation[axis] * (self.kernel[axis] - 1) + 1
            margins += [self.padding[axis], span - side[axis] - self.padding[axis]]
        return margins


class _Pool(torch.autograd.Function):
    """A max-pool with the gradient of a softmax over its windows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, windows: Windows, temperature: float) -> Tensor:
        out = windows.pool(x)
        ctx.save_for_backward(x.clone())
        ctx.windows, ctx.temperature = windows, temperature
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (x,), (grad,), windows = ctx.saved_tensors, gradients, ctx.windows
        planes = x.reshape(-1, 1, *x.shape[-2:])
        margins = windows.margins(x.shape[-2:], grad.shape[-2:])
        padded = F.pad(planes, margins, value=-torch.inf)  # which a softmax leaves out
        shape: Any = {"kernel_size": windows.kernel, "dilation": windows.dilation, "stride": windows.stride}
        shares = (ctx.temperature * F.unfold(padded, **shape)).softmax(1)
        parts = F.fold(shares * grad.reshape(len(planes), 1, -1), padded.shape[2:], **shape)
        return F.pad(parts, [-margin for margin in margins]).reshape(x.shape), None, None


def with_damped_branches(model: Classifier, factor: float, names: Sequence[str]) -> Classifier:
    """A classifier with the same answers, through whose modules of these names gradients come back smaller.

    Modules on the way are copied, weights are shared.

    Raises:
        ModelError: if no module has one of the names.
    """

    def damped(_module: nn.Module, _inputs: Any, out: Tensor) -> Tensor:
        scaled: Tensor = _Damped.apply(out, factor)  # type: ignore[no-untyped-call]
        return scaled

    def change(branch: nn.Module) -> nn.Module:
        twin = copy.copy(branch)
        twin._forward_hooks = OrderedDict({**branch._forward_hooks, -1: damped})
        return twin

    changed = replaced_by_name(model, names, change)
    if changed is model:
        raise ModelError(
            f"skip_gradient: expected a network with modules called {', '.join(names)}; "
            f"none in {type(network(model)).__name__}: name the last module of its branches"
        )
    return changed


class _Damped(torch.autograd.Function):
    """The identity with a smaller gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.factor * gradients[0], None
