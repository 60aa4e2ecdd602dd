"""The one place that differentiates with respect to inputs.

Everything goes through `torch.autograd.grad` with the input as its only argument, so that no weight gradient is
computed and no parameter's `.grad` is touched. Losses are summed over the batch, never averaged: gradients are per
example.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.types import Classifier, Loss


def input_gradient(loss: Loss, model: Classifier, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, its gradient and the logits at `z`.

    Args:
        loss: per-example loss.
        model: the classifier; its mode is left alone.
        z: where, (N, ...).
        y: labels, or whatever the loss takes as its second argument.

    Returns:
        Values (N,), gradients like `z` and logits (N, K), all detached.

    Raises:
        ModelError: where there is no gradient, or it is NaN. It is never replaced by zero.
    """
    _refuse_inference_mode(z, y)
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        logits = _tensor(model(z))
        values = loss(logits, y)
        _require_differentiable(values)
        (grad,) = torch.autograd.grad(values.sum(), z, allow_unused=True)
    grad = _require_gradient(grad)
    _refuse_nan(grad)
    return values.detach(), grad, logits.detach()


def input_jacobian(rows: Callable[[Tensor], Tensor], model: Classifier, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Several quantities of each example's logits, the gradient of each, and the logits at `z`.

    One forward pass and one backward pass per quantity.

    Args:
        rows: logits (N, K) to quantities (N, R), each row of its own logits alone.
        model: the classifier; its mode is left alone.
        z: where, (N, ...).

    Returns:
        Values (N, R), gradients (N, R, ...) and logits (N, K), all detached.

    Raises:
        ModelError: where there is no gradient, or it is NaN. It is never replaced by zero.
    """
    _refuse_inference_mode(z)
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        logits = _tensor(model(z))
        values = rows(logits)
        _require_differentiable(values)
        sums = values.sum(0).unbind()
        last = len(sums) - 1
        grads = [
            torch.autograd.grad(total, z, retain_graph=i < last, allow_unused=True)[0] for i, total in enumerate(sums)
        ]
    grad = torch.stack([_require_gradient(each) for each in grads], dim=1)
    _refuse_nan(grad)
    return values.detach(), grad, logits.detach()


def without_weights(model: Classifier) -> Classifier:
    """The classifier with a graph that ends at its input, for third-party code that calls `backward()`.

    Whoever differentiates through it gets gradients of inputs and leaves none in the weights.

    Raises:
        ModelError: when differentiated where there is no gradient, or it is NaN; when called, where the logits are NaN.
    """

    def ask(z: Tensor) -> Tensor:
        logits: Tensor = _InputOnly.apply(z, model)  # type: ignore[no-untyped-call]
        if bad := int(logits.isnan().any(1).sum()):
            raise ModelError(f"the logits are NaN for {bad} of {len(logits)} examples")
        return logits

    return ask


class _InputOnly(torch.autograd.Function):
    """Logits of a model whose own graph is kept aside and differentiated with respect to the input alone."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, model: Classifier) -> Tensor:
        needed = ctx.needs_input_grad[0]
        with torch.set_grad_enabled(needed):
            ctx.z = z.detach().requires_grad_(needed)
            logits = ctx.logits = model(ctx.z)
        return logits.detach()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        _require_differentiable(ctx.logits)
        (grad,) = torch.autograd.grad(ctx.logits, ctx.z, gradients[0], retain_graph=True)
        _refuse_nan(grad)
        return grad, None


NO_GRADIENT_IN_INFERENCE_MODE = (
    "no gradient exists under torch.inference_mode; call this outside of it (torch.no_grad around it does no harm)"
)


def _refuse_inference_mode(*tensors: object) -> None:
    """Refuse what torch cannot differentiate, before it looks like a fault of the model."""
    require_gradients()
    if any(isinstance(tensor, Tensor) and tensor.is_inference() for tensor in tensors):
        raise ModelError(
            "images or labels that were made under torch.inference_mode have no gradient; clone() them outside of it"
        )


def require_gradients() -> None:
    """Refuse inference mode, in which torch records no gradient whatever is asked of it."""
    if torch.is_inference_mode_enabled():
        raise ModelError(NO_GRADIENT_IN_INFERENCE_MODE)


def _tensor(logits: object) -> Tensor:
    if not isinstance(logits, Tensor):
        kind, hint = type(logits).__name__, "; wrap it in holdfast.models.LogitsOf" if hasattr(logits, "logits") else ""
        raise ModelError(f"the model: expected logits as a tensor; got a {kind}{hint}")
    return logits


NO_GRADIENT = "the model's output has no gradient with respect to its input: no gradient attack can judge it"


def _require_differentiable(values: Tensor) -> None:
    if not values.requires_grad:
        raise ModelError(NO_GRADIENT)


def _require_gradient(grad: Tensor | None) -> Tensor:
    """The gradient; where only the weights have one, the model cuts the graph at its input."""
    if grad is None:
        raise ModelError(NO_GRADIENT)
    return grad


def _refuse_nan(grad: Tensor) -> None:
    if not bool(grad.sum().isnan()):  # a sum with a NaN is one, and takes a fraction of the time to look at all values
        return
    bad = int(grad.flatten(1).isnan().any(1).sum())
    if bad:
        raise ModelError(f"the input gradient is NaN for {bad} of {len(grad)} examples")


@dataclass(frozen=True)
class Expansion:
    """A loss around each point, to second order; everything is detached.

    Args:
        values: the loss, (N,).
        gradient: of each example, like the points.
        logits: (N, K).
        product: each example's input Hessian times its vector, both like the points.
    """

    values: Tensor
    gradient: Tensor
    logits: Tensor
    product: Callable[[Tensor], Tensor]


def expansion(loss: Loss, model: Classifier, x: Tensor, y: Tensor, *, step: float | None = None) -> Expansion:
    r"""Loss and gradient at `x`, computed once, and the Hessian as something that multiplies vectors.

    Without a step, products are exact: differentiated a second time, through a graph that lives as long as the
    expansion. With a step :math:`h` they are finite differences :math:`(\nabla\ell(x + h v) - \nabla\ell(x)) / h`, one
    gradient each. Those see networks without second derivatives (ReLU) bend at their kinks, and measure at the distance
    :math:`h \|v\|` instead of at a point.

    Raises:
        ModelError: where there is no gradient, or it or a product is NaN.
    """
    if step is None:
        return _exact_expansion(loss, model, x, y)
    if not 0 < step < math.inf:
        raise ValueError(f"step must be positive and finite, got {step}")
    values, here, logits = input_gradient(loss, model, x, y)

    def difference(vector: Tensor) -> Tensor:
        _, ahead, _ = input_gradient(loss, model, x + step * vector, y)
        return (ahead - here) / step

    return Expansion(values, here, logits, difference)


def _exact_expansion(loss: Loss, model: Classifier, x: Tensor, y: Tensor) -> Expansion:
    _refuse_inference_mode(x, y)
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        logits = _tensor(model(x))
        values = loss(logits, y)
        _require_differentiable(values)
        (derivative,) = torch.autograd.grad(values.sum(), x, create_graph=True, allow_unused=True)
    grad = _require_gradient(derivative)
    _refuse_nan(grad.detach())

    def product(vector: Tensor) -> Tensor:
        if not grad.requires_grad:  # the loss is linear in x
            return torch.zeros_like(vector)
        (bent,) = torch.autograd.grad(grad, x, vector.detach(), retain_graph=True, allow_unused=True)
        return _or_zero(bent, vector)

    return Expansion(values.detach(), grad.detach(), logits.detach(), product)


def _or_zero(product: Tensor | None, like: Tensor) -> Tensor:
    """The product; zero where the gradient does not depend on the input."""
    if product is None:
        return torch.zeros_like(like)
    _refuse_nan(product)
    return product
