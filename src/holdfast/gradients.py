"""The one place that differentiates with respect to inputs.

Everything goes through `torch.autograd.grad` with the input as its only argument, so that no weight gradient is
computed and no parameter's `.grad` is touched. Losses are summed over the batch, never averaged: gradients are per
example.
"""

from __future__ import annotations

from collections.abc import Callable
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
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        logits = model(z)
        values = loss(logits, y)
        _differentiable(values)
        (grad,) = torch.autograd.grad(values.sum(), z, allow_unused=True)
    grad = _given(grad)
    _without_nan(grad)
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
    with torch.enable_grad():
        z = z.detach().requires_grad_()
        logits = model(z)
        values = rows(logits)
        _differentiable(values)
        sums = values.sum(0).unbind()
        last = len(sums) - 1
        grads = [
            torch.autograd.grad(total, z, retain_graph=i < last, allow_unused=True)[0] for i, total in enumerate(sums)
        ]
    grad = torch.stack([_given(each) for each in grads], dim=1)
    _without_nan(grad)
    return values.detach(), grad, logits.detach()


def without_weights(model: Classifier) -> Classifier:
    """The classifier with a graph that ends at its input, for code of others that calls `backward()`.

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
        _differentiable(ctx.logits)
        (grad,) = torch.autograd.grad(ctx.logits, ctx.z, gradients[0], retain_graph=True)
        _without_nan(grad)
        return grad, None


NO_GRADIENT = "the model's output has no gradient with respect to its input: no gradient attack can judge it"


def _differentiable(values: Tensor) -> None:
    if not values.requires_grad:
        raise ModelError(NO_GRADIENT)


def _given(grad: Tensor | None) -> Tensor:
    """The gradient; where only the weights have one, the model cuts the graph at its input."""
    if grad is None:
        raise ModelError(NO_GRADIENT)
    return grad


def _without_nan(grad: Tensor) -> None:
    bad = int(grad.flatten(1).isnan().any(1).sum())
    if bad:
        raise ModelError(f"the input gradient is NaN for {bad} of {len(grad)} examples")


def hessian_vector(loss: Loss, model: Classifier, x: Tensor, y: Tensor, vector: Tensor) -> Tensor:
    """Exact product of each example's input Hessian with its vector, by differentiating twice."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad(loss(model(x), y).sum(), x, create_graph=True)
        if not grad.requires_grad:  # the loss is linear in x
            return torch.zeros_like(x)
        (product,) = torch.autograd.grad((grad * vector.detach()).sum(), x, allow_unused=True)
    return torch.zeros_like(x) if product is None else product


def hessian_vector_difference(
    loss: Loss, model: Classifier, x: Tensor, y: Tensor, vector: Tensor, *, step: float = 1e-2
) -> Tensor:
    r"""Finite difference :math:`(\nabla\ell(x + h v) - \nabla\ell(x)) / h` of each example.

    It costs two gradients, works for networks without second derivatives (ReLU), and measures curvature at scale
    :math:`h \|v\|` instead of at a point.
    """
    _, ahead, _ = input_gradient(loss, model, x + step * vector, y)
    _, here, _ = input_gradient(loss, model, x, y)
    return (ahead - here) / step
