r"""How strongly the logits of a classifier answer to their input: dual norms of gradients, which attacks see through.

With :math:`\|\cdot\|_*` dual to the norm of the adversary (the 1-norm for `linf`), :math:`\|\nabla f_i(x)\|_*` is how
fast class :math:`i` can be moved. All classes are differentiated together, by products of the Jacobian with a block of
unit vectors, and not one after the other.
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
"""Classes that are differentiated together, unless said otherwise; memory grows with it."""


def class_magnitudes(model: Classifier, x: Tensor, ball: Threat, *, block: int = BLOCK) -> tuple[Tensor, Tensor]:
    r"""Logits, and :math:`\|\nabla f_i(x)\|_*` of every class, both (N, K).

    Where gradients are being recorded and `x` needs one, so do both results: a white-box attack goes through the
    gradient's gradient. Elsewhere they are constants.

    Args:
        model: the classifier, in the mode it is judged in.
        x: images, (N, ...).
        ball: whose dual norm is meant; its size does not matter.
        block: classes that are differentiated together.
    """
    with _recording(x) as (z, through):
        logits = _with_gradient(model(z))
        classes = logits.shape[1]
        units = torch.eye(classes, dtype=logits.dtype, device=logits.device)
        found = []
        for first in range(0, classes, block):
            vectors = units[first : first + block, None].expand(-1, len(x), -1)
            last = first + block >= classes
            (rows,) = torch.autograd.grad(
                logits, z, vectors, is_grads_batched=True, create_graph=through, retain_graph=through or not last
            )
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
