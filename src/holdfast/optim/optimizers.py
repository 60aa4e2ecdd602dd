"""Optimizers as recipes: frozen fields, and a call that makes the torch optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer as TorchOptimizer


class Optimizer(Protocol):
    """Fields of an optimizer; called with parameters it makes one."""

    @property
    def lr(self) -> float:
        """The highest learning rate; the schedule multiplies it."""
        ...

    def __call__(self, parameters: Iterable[Tensor]) -> TorchOptimizer:
        """The optimizer of these parameters."""
        ...


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Stochastic gradient descent with momentum.

    Args:
        lr: learning rate.
        momentum: share of the last step kept.
        nesterov: look ahead along the momentum.
        weight_decay: L2 penalty.
    """

    lr: float = 0.1
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        _check(self)
        if self.nesterov and not self.momentum > 0:
            raise ValueError(f"nesterov needs a positive momentum, got {self.momentum}")

    def __call__(self, parameters: Iterable[Tensor]) -> TorchOptimizer:
        """Make the optimizer."""
        return torch.optim.SGD(
            parameters, self.lr, self.momentum, nesterov=self.nesterov, weight_decay=self.weight_decay
        )


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam, with L2 penalty added to the gradient.

    Args:
        lr: learning rate.
        betas: decay of the first and second moment.
        weight_decay: L2 penalty.
        hold: steps at the beginning that only collect moments and leave the weights alone.
        unit_gradient: divide the gradient of all weights together by its norm (plus 1e-4) first.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    hold: int = 0
    unit_gradient: bool = False

    def __post_init__(self) -> None:
        _check(self)
        if self.hold < 0:
            raise ValueError(f"hold must not be negative, got {self.hold}")

    def __call__(self, parameters: Iterable[Tensor]) -> TorchOptimizer:
        """Make the optimizer."""
        if not (self.hold or self.unit_gradient):
            return torch.optim.Adam(parameters, self.lr, self.betas, weight_decay=self.weight_decay)
        return _PatientAdam(
            parameters, self.lr, self.betas, weight_decay=self.weight_decay, hold=self.hold, unit=self.unit_gradient
        )


class _PatientAdam(torch.optim.Adam):
    """Adam that waits for its moments, or steps by the direction of the gradient alone."""

    def __init__(self, *args: Any, hold: int, unit: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.hold, self.unit = hold, unit

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; the count of steps is in the state of the parameters, and so in a checkpoint."""
        grads = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        if self.unit and grads:
            length = torch.stack([torch.linalg.vector_norm(grad) for grad in grads]).norm() + 1e-4
            for grad in grads:
                grad.div_(length)
        taken = max((int(state["step"]) for state in self.state.values() if "step" in state), default=0)
        rates = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["lr"] = group["lr"] if taken >= self.hold else 0.0
        try:
            return super().step(closure)
        finally:
            for group, rate in zip(self.param_groups, rates, strict=True):
                group["lr"] = rate


@dataclass(frozen=True, kw_only=True)
class AdamW:
    """Adam with decoupled weight decay.

    Args:
        lr: learning rate.
        betas: decay of the first and second moment.
        weight_decay: decay per step, times the learning rate.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        _check(self)

    def __call__(self, parameters: Iterable[Tensor]) -> TorchOptimizer:
        """Make the optimizer."""
        return torch.optim.AdamW(parameters, self.lr, self.betas, weight_decay=self.weight_decay)


@dataclass(frozen=True, kw_only=True)
class RMSProp:
    """RMSProp.

    Args:
        lr: learning rate.
        decay: decay of the second moment.
        momentum: share of the last step kept.
        weight_decay: L2 penalty.
    """

    lr: float = 1e-3
    decay: float = 0.99
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    def __call__(self, parameters: Iterable[Tensor]) -> TorchOptimizer:
        """Make the optimizer."""
        return torch.optim.RMSprop(
            parameters, self.lr, self.decay, momentum=self.momentum, weight_decay=self.weight_decay
        )


@dataclass(frozen=True, kw_only=True)
class SignSGD:
    """Steps of equal size in every coordinate: the sign of the gradient (or of its running mean).

    Args:
        lr: learning rate.
        momentum: decay of the running mean; 0 uses the gradient itself.
        weight_decay: L2 penalty, added before the sign is taken.

    Reference:
        Bernstein et al., signSGD: Compressed Optimisation for Non-Convex Problems, ICML 2018, arXiv:1802.04434.
    """

    lr: float = 1e-3
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    def __call__(self, parameters: Iterable[Tensor]) -> TorchOptimizer:
        """Make the optimizer."""
        return _SignSGD(parameters, {"lr": self.lr, "momentum": self.momentum, "weight_decay": self.weight_decay})


class _SignSGD(TorchOptimizer):
    def __init__(self, parameters: Iterable[Tensor], defaults: dict[str, Any]) -> None:
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                grad = parameter.grad + group["weight_decay"] * parameter
                if group["momentum"]:
                    mean = self.state[parameter].setdefault("mean", torch.zeros_like(parameter))
                    grad = mean.mul_(group["momentum"]).add_(grad, alpha=1 - group["momentum"])
                parameter.sub_(grad.sign(), alpha=group["lr"])


def _check(optimizer: Any) -> None:
    """Refuse impossible values once, for all optimizers."""
    if not optimizer.lr >= 0:  # 0 is a control: everything but the steps
        raise ValueError(f"lr must not be negative, got {optimizer.lr}")
    if not optimizer.weight_decay >= 0:
        raise ValueError(f"weight_decay must not be negative, got {optimizer.weight_decay}")
    for name in ("momentum", "decay"):
        if not 0 <= getattr(optimizer, name, 0.0) < 1:
            raise ValueError(f"{name} must lie in [0, 1), got {getattr(optimizer, name)}")
    if not all(0 <= beta < 1 for beta in getattr(optimizer, "betas", ())):
        raise ValueError(f"betas must lie in [0, 1), got {optimizer.betas}")
