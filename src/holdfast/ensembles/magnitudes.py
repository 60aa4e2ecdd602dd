r"""Sensitivity of a classifier's logits to its input: dual norms of gradients, which attacks can differentiate.

With :math:`\|\cdot\|_*` dual to the norm of the adversary (the 1-norm for `linf`), :math:`\|\nabla f_i(x)\|_*` is how
fast class :math:`i` can be moved. Products of the Jacobian with unit vectors give them, a block of classes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.gradients import NO_GRADIENT
from holdfast.models.network import Network
from holdfast.types import Classifier, Threat

BLOCK = 10
"""Classes that are differentiated together on accelerators; on a CPU one after the other is faster (measured)."""


REMEMBERED = 16
"""Classes whose gradients an attack may keep at once; with more, each is computed again in the backward pass."""


def class_magnitudes(model: Classifier, x: Tensor, ball: Threat, *, block: int | None = None) -> tuple[Tensor, Tensor]:
    r"""Logits, and :math:`\|\nabla f_i(x)\|_*` of every class, both (N, K).

    Where gradients are being recorded and `x` needs one, so do both results: a white-box attack goes through the
    gradient's gradient. Elsewhere they are constants. With many classes and a frozen network, only the graph of one
    block at a time is kept.

    Args:
        model: the classifier, in the mode of evaluation.
        x: images, (N, ...).
        ball: a threat of the dual norm; its size does not matter.
        block: classes that are differentiated together; None for what is fast on the device.
    """
    with _recording(model, x) as (z, through):
        logits = _with_gradient(model(z))
        blocks = _unit_vectors(logits, block or (1 if x.device.type == "cpu" else BLOCK))
        again = through and logits.shape[1] > REMEMBERED and _is_frozen(model)
        record = through and not again
        parts = [_block(logits, z, vectors, ball, record) for vectors in blocks]
        sizes = torch.cat(parts).T
        if again:
            sizes = _Again.apply(z, sizes, model, ball, blocks)  # type: ignore[no-untyped-call]
        return _result(logits, through), _result(sizes, through)


def top_magnitude(model: Classifier, x: Tensor, ball: Threat) -> tuple[Tensor, Tensor]:
    r"""Logits, (N, K), and :math:`\|\nabla \max_i f_i(x)\|_*`, (N, 1): one backward pass for any number of classes."""
    with _recording(model, x) as (z, through):
        logits = _with_gradient(model(z))
        # The largest by index and not by `amax`, which shares the gradient between equal ones.
        largest = logits.gather(1, logits.detach().argmax(1, keepdim=True))
        (rows,) = torch.autograd.grad(largest.sum(), z, create_graph=through)
        return _result(logits, through), _result(ball.dual(rows)[:, None], through)


def _unit_vectors(logits: Tensor, block: int) -> list[Tensor]:
    """Unit vectors of the classes of each block, (B, N, K)."""
    units = torch.eye(logits.shape[1], dtype=logits.dtype, device=logits.device)
    return [some[:, None].expand(-1, len(logits), -1) for some in torch.split(units, block)]


def _block(logits: Tensor, z: Tensor, vectors: Tensor, ball: Threat, record: bool) -> Tensor:
    """Magnitudes of a block of classes, (B, N)."""
    rows = _products(logits, z, vectors, create_graph=record, retain_graph=True)
    return ball.dual(rows.flatten(0, 1)).view(len(rows), len(z))


def _products(logits: Tensor, z: Tensor, vectors: Tensor, **graph: bool) -> Tensor:
    """The Jacobian times each of the vectors, (B, N, ...); one alone needs no batching over vectors, which costs."""
    if len(vectors) == 1:
        # Contiguous, since gradients of an expanded tensor stay expanded, and layers below copy them.
        return torch.autograd.grad(logits, z, vectors[0].contiguous(), **graph)[0][None]
    return torch.autograd.grad(logits, z, vectors, is_grads_batched=True, **graph)[0]


class _Again(torch.autograd.Function):
    """Given magnitudes whose gradient is computed from the input when it is needed."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, sizes: Tensor, model: Classifier, ball: Threat, blocks: list[Tensor]) -> Tensor:
        """The magnitudes."""
        ctx.save_for_backward(z)
        ctx.of = model, ball, blocks
        return sizes.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        """The gradient; where it is to be differentiated itself, with its graph."""
        (z,), (model, ball, blocks) = ctx.saved_tensors, ctx.of
        return _pulled_back(model, ball, blocks, z, grad), None, None, None, None


def _pulled_back(model: Classifier, ball: Threat, blocks: list[Tensor], x: Tensor, grad: Tensor) -> Tensor:
    """The gradient of magnitudes, weighted by `grad`, (N, K): block by block, and each block's graph is freed."""
    further = torch.is_grad_enabled()
    whole, first = torch.zeros_like(x), 0
    with torch.enable_grad():
        z = x if further else x.detach().requires_grad_()
        logits = model(z)
        for vectors in blocks:
            sizes, weights = _block(logits, z, vectors, ball, True), grad.T[first : first + len(vectors)]
            first += len(vectors)
            if sizes.requires_grad:  # those of a linear classifier are constant
                part = torch.autograd.grad(
                    sizes, z, weights, create_graph=further, retain_graph=True, materialize_grads=True
                )
                whole = whole + part[0]
    return whole


def _is_frozen(model: Classifier) -> bool:
    return isinstance(model, nn.Module) and not any(parameter.requires_grad for parameter in model.parameters())


@contextmanager
def _recording(model: Classifier, x: Tensor) -> Iterator[tuple[Tensor, bool]]:
    """The input to differentiate with respect to, and whether the caller differentiates the results."""
    if torch.is_inference_mode_enabled() or x.is_inference():
        raise ModelError("gradients are a part of the answer, which inference mode forbids; use torch.no_grad()")
    through = torch.is_grad_enabled() and x.requires_grad
    with torch.enable_grad():
        yield x if through else _laid_out(model, x.detach()).requires_grad_(), through


def _laid_out(model: Classifier, x: Tensor) -> Tensor:
    """Images in the layout of the fastest backward pass (measured): channels last on a CPU, for our networks only."""
    if x.dim() == 4 and x.device.type == "cpu" and isinstance(model, Network):
        return x.contiguous(memory_format=torch.channels_last)
    return x


def _with_gradient(logits: Tensor) -> Tensor:
    if not logits.requires_grad:
        raise ModelError(NO_GRADIENT)
    return logits


def _result(value: Tensor, through: bool) -> Tensor:
    return value if through else value.detach()
