r"""How strongly the logits of a classifier answer to their input: dual norms of gradients, which attacks see through.

With :math:`\|\cdot\|_*` dual to the norm of the adversary (the 1-norm for `linf`), :math:`\|\nabla f_i(x)\|_*` is how
fast class :math:`i` can be moved. Products of the Jacobian with unit vectors give them, a block of classes at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.gradients import NO_GRADIENT
from holdfast.types import Classifier, Threat

BLOCK = 10
"""Classes that are differentiated together on accelerators; on a CPU one after the other is faster (measured)."""


def class_magnitudes(model: Classifier, x: Tensor, ball: Threat, *, block: int | None = None) -> tuple[Tensor, Tensor]:
    r"""Logits, and :math:`\|\nabla f_i(x)\|_*` of every class, both (N, K).

    Where gradients are being recorded and `x` needs one, so do both results: a white-box attack goes through the
    gradient's gradient. Elsewhere they are constants.

    Args:
        model: the classifier, in the mode it is judged in.
        x: images, (N, ...).
        ball: whose dual norm is meant; its size does not matter.
        block: classes that are differentiated together; None for what is fast on the device.
    """
    with _recording(x) as (z, through):
        logits = _with_gradient(model(z))
        classes = logits.shape[1]
        block = block or (1 if x.device.type == "cpu" else BLOCK)
        units = torch.eye(classes, dtype=logits.dtype, device=logits.device)
        found = []
        for first in range(0, classes, block):
            vectors = units[first : first + block, None].expand(-1, len(x), -1)
            keep = through or first + block < classes
            rows = _products(logits, z, vectors, create_graph=through, retain_graph=keep)
            found.append(ball.dual(rows.flatten(0, 1)).view(len(rows), len(x)))
        return _result(logits, through), _result(torch.cat(found).T, through)


def top_magnitude(model: Classifier, x: Tensor, ball: Threat) -> tuple[Tensor, Tensor]:
    r"""Logits, (N, K), and :math:`\|\nabla \max_i f_i(x)\|_*`, (N, 1): one backward pass for any number of classes."""
    with _recording(x) as (z, through):
        logits = _with_gradient(model(z))
        # The largest by index and not by `amax`, which shares the gradient between equal ones.
        largest = logits.gather(1, logits.detach().argmax(1, keepdim=True))
        (rows,) = torch.autograd.grad(largest.sum(), z, create_graph=through)
        return _result(logits, through), _result(ball.dual(rows)[:, None], through)


def _products(logits: Tensor, z: Tensor, vectors: Tensor, **graph: bool) -> Tensor:
    """The Jacobian times each of the vectors, (B, N, ...); one alone needs no batching over vectors, which costs."""
    if len(vectors) == 1:
        return torch.autograd.grad(logits, z, vectors[0], **graph)[0][None]
    return torch.autograd.grad(logits, z, vectors, is_grads_batched=True, **graph)[0]


@contextmanager
def _recording(x: Tensor) -> Iterator[tuple[Tensor, bool]]:
    """The input to differentiate with respect to, and whether the caller goes on through the results."""
    through = torch.is_grad_enabled() and x.requires_grad
    with torch.enable_grad():
        yield x if through else x.detach().requires_grad_(), through


def _with_gradient(logits: Tensor) -> Tensor:
    if not logits.requires_grad:
        raise ModelError(NO_GRADIENT)
    return logits


def _result(value: Tensor, through: bool) -> Tensor:
    return value if through else value.detach()
