r"""Changes of a layer's weights and changes of its input that do the same.

A change :math:`D` of a layer's matrix :math:`W` does to :math:`x` what a change :math:`\delta` of the input does where
:math:`W\delta = Dx`. All :math:`\|D\|_F \le \gamma` together are the inputs of an ellipsoid with semi-axes
:math:`\|x\| \gamma / \sigma_i` (theorem 2). In the other direction, the changes

.. math:: R = \{D : \text{for every input } x_i \text{ there is } \|\delta\| \le \gamma \text{ with } W\delta = D x_i\}

that inputs within :math:`\gamma` cover contain a ball (theorem 3) and, if the inputs span their space, lie in one
(theorem 4). The paper prints the reciprocal of the axes, squares instead of radii, and unions where a change must do
for every input; a union is not bounded.

Reference:
    SPIDER, appendices C and D: theorems 2 to 4, as corrected here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ellipsoid:
    """Changes of an input, centred at 0.

    Args:
        axes: lengths of the semi-axes, from the shortest on, (m,).
        directions: unit vectors along them, rows, (m, n).
    """

    axes: Tensor
    directions: Tensor


def input_ellipsoid(weight: Tensor, x: Tensor, gamma: float) -> Ellipsoid:
    r"""The shortest changes of the input `x` that do what changes of the matrix within `gamma` do.

    :math:`\delta = W^+ D x` for all :math:`\|D\|_F \le \gamma`: semi-axes :math:`\|x\| \gamma / \sigma_i` along the
    right singular vectors.

    Args:
        weight: :math:`W`, (m, n) of rank m.
        x: (n,).
        gamma: radius of the ball of changes.
    """
    _check_radius(gamma)
    if x.shape != weight.shape[1:]:
        raise ValueError(f"x: expected {weight.shape[1]} numbers for this matrix, got {tuple(x.shape)}")
    _, values, vectors = torch.linalg.svd(_full_rank(weight), full_matrices=False)
    return Ellipsoid(torch.linalg.vector_norm(x) * gamma / values, vectors)


def parameter_ball(weight: Tensor, longest: float, gamma: float) -> float:
    r"""Within this distance of the matrix, every change does to every input what some input within `gamma` does.

    .. math:: \sigma_{\min}(W)\, \gamma / \|x_{\max}\|

    Args:
        weight: :math:`W`, (m, n) of rank m.
        longest: largest norm of an input, :math:`\|x_{\max}\|`.
        gamma: radius of the ball of input changes.
    """
    _check_radius(gamma)
    if not longest > 0:
        raise ValueError(f"longest: expected a positive norm, got {longest}")
    return float(torch.linalg.svdvals(_full_rank(weight)).amin()) * gamma / longest


def parameter_superset_ball(weight: Tensor, inputs: Tensor, gamma: float) -> float:
    r"""No change farther than this from the matrix does to all inputs what inputs within `gamma` do.

    .. math:: \sigma_{\max}(W)\, \gamma\, \min_S \Bigl(\sum_{i, j} |G_{ij}|\Bigr)^{1/2}, \qquad G = (X_S X_S^T)^{-1}

    over all choices :math:`S` of as many independent inputs as they have coordinates: with :math:`Y = D X_S^T`, whose
    columns are at most :math:`\sigma_{\max} \gamma` long, :math:`\|D\|_F^2 = \operatorname{tr} Y G Y^T`. The bound is
    attained where the chosen inputs are orthogonal, or two, and are the only ones.

    Args:
        weight: :math:`W`, (m, n) of rank m.
        inputs: :math:`X`, (N, n); there are N over n choices, so this is for small examples.
        gamma: radius of the ball of input changes.

    Raises:
        ValueError: if the inputs do not span their space; then there is no such ball.
    """
    _check_radius(gamma)
    if inputs.dim() != 2 or inputs.shape[1] != weight.shape[-1]:
        raise ValueError(f"inputs: expected (N, {weight.shape[-1]}) for this matrix, got {tuple(inputs.shape)}")
    choices = [inputs[list(rows)] for rows in combinations(range(len(inputs)), inputs.shape[1])]
    spanning = [chosen for chosen in choices if int(torch.linalg.matrix_rank(chosen)) == len(chosen)]
    if not spanning:
        raise ValueError("inputs: expected some that span their space; a change that none of them sees has no bound")
    spread = min(float(torch.linalg.inv(chosen @ chosen.T).abs().sum()) for chosen in spanning)
    return float(torch.linalg.svdvals(_full_rank(weight)).amax()) * gamma * math.sqrt(spread)


def _check_radius(gamma: float) -> None:
    if not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma: expected a finite radius, not negative; got {gamma}")


def _full_rank(weight: Tensor) -> Tensor:
    if weight.dim() != 2 or weight.shape[0] > weight.shape[1] or int(torch.linalg.matrix_rank(weight)) < len(weight):
        raise ValueError(f"expected a matrix with independent rows, no more than columns; got {tuple(weight.shape)}")
    return weight
