r"""b-flat minima: how far parameters can change without a change of the loss.

.. math:: b = \sup\{r : L(\theta + \epsilon) = L(\theta) \text{ for all } \|\epsilon\| \le r\}

Definition 3 of the paper also wants :math:`L(\theta + \epsilon) > L(\theta)` of *every* :math:`\|\epsilon\| > b`, which
holds only where the parameters of least loss form a ball; those of a linear classifier under a hinge loss form an
unbounded polyhedron. Here b is the radius of the largest ball around the parameters, as the paper's corollary 1 uses
it: parameters that are optimal for all inputs within :math:`\gamma` of the data are b-flat with
:math:`b \ge \sigma_{\min}(W) \gamma / \|x_{\max}\|` (`perturbations.parameter_ball`).

Reference:
    SPIDER, appendix D: definition 3, proposition 1 and corollary 1, as corrected here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def flat_radius_of_hinge(weight: Tensor, x: Tensor, y: Tensor, *, margin: float = 0.0) -> float:
    r"""Largest b of a linear classifier, hinge loss :math:`\frac1N \sum_i [m - (o_{y_i} - \max_{k \ne y_i} o_k)]_+`.

    .. math:: \min_{i,\, k \ne y_i} \frac{(w_{y_i} - w_k) \cdot x_i - m}{\sqrt2\, \|x_i\|}

    in the Frobenius norm of :math:`W`; 0 is proposition 1's 0-flat minimum.

    Args:
        weight: :math:`W`, (K, n), with loss 0.
        x: inputs, (N, n), none of them 0.
        y: labels, (N,).
        margin: :math:`m`.

    Raises:
        ValueError: if the loss is not 0, or an input is.
    """
    lengths = torch.linalg.vector_norm(x, dim=1)
    if bool((lengths == 0).any()):
        zeros = int((lengths == 0).sum())
        raise ValueError(f"x: expected inputs other than 0, whose loss no weight changes; {zeros} are 0: remove them")
    logits = x @ weight.T
    label = torch.nn.functional.one_hot(y, len(weight)).bool()
    slack = logits.gather(1, y[:, None]) - logits - margin
    distance = slack.masked_fill(label, math.inf).amin(1) / (math.sqrt(2) * lengths)
    if bool((distance < 0).any()):
        wrong = int((distance < 0).sum())
        raise ValueError(f"weight: expected hinge loss 0 for margin {margin}; it is positive for {wrong}")
    return float(distance.amin())


def flat_along(
    loss: Callable[[Tensor], Tensor], parameters: Tensor, direction: Tensor, *, longest: float = 1e6, steps: int = 80
) -> float:
    """How far along a direction a convex loss stays what it is at its minimum; `longest` if it does not change.

    The least losses of a convex function form a convex set, so that bisection finds where a ray leaves it.

    Args:
        loss: of parameters, a scalar.
        parameters: where it is least.
        direction: like the parameters; its length does not count.
        longest: where the search ends.
        steps: bisections.
    """
    least, unit = loss(parameters), direction / torch.linalg.vector_norm(direction)
    low, high = 0.0, longest
    if bool(loss(parameters + longest * unit) <= least):
        return longest
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if bool(loss(parameters + middle * unit) <= least) else (low, middle)
    return low
