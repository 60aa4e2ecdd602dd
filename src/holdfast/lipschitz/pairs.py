r"""Bounds of the differences of every two logits, from the rows of the last layer.

Let the logits be :math:`W \varphi(x) + b` with features :math:`\varphi` that are :math:`K`-Lipschitz in
:math:`\ell_p`. By Hölder's inequality, with :math:`1/p + 1/q = 1`,

.. math:: |(o_i - o_j)(x) - (o_i - o_j)(z)| = |\langle w_i - w_j, \varphi(x) - \varphi(z)\rangle|
          \le \|w_i - w_j\|_q\, K\, \|x - z\|_p .

This is never above the bound by the constant :math:`\|W\|_p K` of all logits, since
:math:`\|w_i - w_j\|_q = \|W^\top (e_i - e_j)\|_q \le \|W^\top\|_q\, 2^{1/q} = \alpha_p \|W\|_p`.

*What the last layer is.* The forward pass is followed as a graph. A matrix that is the last operation on a value of
shape (N, K) is a last layer, after all linear layers next to it are merged into it: a normalisation or a dense layer
without activation before it, a temperature behind it. What is added to the logits changes no difference; dropout and
casts do nothing. A log-softmax takes the same number off every logit and leaves all differences as they are. The
difference of a sum of branches is the sum of their differences, so its bound is the sum of theirs. After any other
operation (a pooling, an activation, a concatenation) nothing is known of single pairs, and :math:`\alpha_p K_p` is
used.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.lipschitz.norms import Diagonal, LinearMap
from holdfast.lipschitz.radii import Norm
from holdfast.lipschitz.rounding import ELEMENTARY, double, gamma

DUAL_ORDER: dict[Norm, float] = {"l1": math.inf, "l2": 2, "linf": 1}
""":math:`q` of each norm."""


def row_differences(weight: Tensor, norm: Norm) -> Tensor:
    r""":math:`\|w_i - w_j\|_q`, rounded up, (K, K)."""
    rows = double(weight)
    lengths = [torch.linalg.vector_norm(rows - row, DUAL_ORDER[norm], dim=1) for row in rows]
    return torch.stack(lengths) * (1 + gamma(rows.shape[1] + ELEMENTARY))


def uniform_factor(layer: LinearMap) -> float | None:
    """The common factor of all outputs, if there is one."""
    if not isinstance(layer, Diagonal):
        return None
    scale = double(layer.scale).flatten()
    return float(scale[0].abs()) if bool((scale == scale[0]).all()) else None
