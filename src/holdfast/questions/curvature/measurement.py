r"""Curvature of the loss at an input: the squares of all eigenvalues of its Hessian, and the largest of them.

.. math:: \Lambda(x) = \sum_i \lambda_i^2 = \|H\|_F^2 = E\,\|H \varepsilon\|^2
          \approx \frac1K \sum_{j=1}^K \frac{\|\nabla\ell(x + t \varepsilon_j) - \nabla\ell(x)\|^2}{t^2},
          \qquad \varepsilon_j \sim N(0, I)

:math:`H` is the Hessian of the loss in the input. One draw has the variance :math:`2 \sum_i \lambda_i^4`, so that the
relative error of the mean is at most :math:`\sqrt{2 / K}` (32 % for 20 draws) and reaches that where one eigenvalue is
alone. Losses are summed over a batch and never averaged: a mean over :math:`B` examples would divide every value by
:math:`B^2`, which happened to the numbers of the paper.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection, TMLR,
    section 7.1, equation 21. It prints
    :math:`\sum_i \lambda_i^2 = \|H \varepsilon\|^2`; the expectation is missing. It prints
    :math:`H \varepsilon = \frac{d}{dt} H(x + t \varepsilon)`; the gradient is meant.
    Hutchinson, A Stochastic Estimator of the Trace of the Influence Matrix, 1989.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.gradients import Expansion, expansion
from holdfast.losses import cross_entropy
from holdfast.models.network import Normalise
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Corruption, Loss


@dataclass(frozen=True, kw_only=True)
class Curvature:
    r"""Curvature of each example, float64, (N,).

    Args:
        loss: :math:`\ell(x)`.
        gradient_norm: :math:`\|\nabla\ell(x)\|`.
        curvature: :math:`\sum_i \lambda_i^2`, estimated.
        curvature_error: its standard error, from the spread of the draws.
        trace: :math:`\sum_i \lambda_i`, estimated from the same draws as :math:`\varepsilon^\top H \varepsilon`.
        trace_error: its standard error.
    """

    loss: Tensor
    gradient_norm: Tensor
    curvature: Tensor
    curvature_error: Tensor
    trace: Tensor
    trace_error: Tensor


@in_evaluation_mode
def input_curvature(
    model: Classifier,
    x: Tensor,
    y: Tensor,
    *,
    draws: int = 20,
    step: float | None = 1e-2,
    loss: Loss = cross_entropy,
    rng: Streams | None = None,
) -> Curvature:
    """Curvature of the loss at each image, in [0, 1] pixel units; costs `draws` + 1 gradients.

    Args:
        model: the classifier, used in evaluation mode; `in_units` changes the unit of its inputs.
        x: images, (N, ...).
        y: labels, (N,).
        draws: random directions of each image, at least 2.
        step: :math:`t` of the finite differences; None for exact products, which see no bend at a kink of a ReLU.
        loss: per example.
        rng: random streams of the images.
    """
    return curvature_of(expansion(loss, model, x, y, step=step), draws=draws, rng=streams(rng, x))


def curvature_of(around: Expansion, *, draws: int = 20, rng: Streams) -> Curvature:
    """`input_curvature` of a loss that is expanded already."""
    if draws < 2:
        raise ValueError(f"draws must be at least 2, or there is no error to estimate, got {draws}")
    squares, forms = [], []
    for draw in range(draws):
        vector = rng.split(f"curvature {draw}").normal(around.gradient)
        product = around.product(vector).flatten(1).double()
        squares.append(product.square().sum(1))
        forms.append((product * vector.flatten(1)).sum(1))
    curvature, curvature_error = _mean_with_error(squares)
    trace, trace_error = _mean_with_error(forms)
    return Curvature(
        loss=around.values.double(),
        gradient_norm=torch.linalg.vector_norm(around.gradient.flatten(1).double(), dim=1),
        curvature=curvature,
        curvature_error=curvature_error,
        trace=trace,
        trace_error=trace_error,
    )


def _mean_with_error(draws: list[Tensor]) -> tuple[Tensor, Tensor]:
    values = torch.stack(draws)
    return values.mean(0), values.std(0) / math.sqrt(len(draws))


def in_units(model: Classifier, unit: Tensor | float) -> Classifier:
    r"""The classifier of :math:`u = x / s`: gradients are :math:`s` times those in pixels, Hessians :math:`s^2` times.

    Ask it about `x / unit`. With the deviations of the normalisation inside a network, (C, 1, 1), it gives the numbers
    of papers that differentiate with respect to normalised inputs; with one deviation :math:`s` for all channels
    :math:`\Lambda` is just :math:`s^4` times that in pixels. A step is in the new unit too.
    """
    return partial(_rescaled, model, unit)


def unit_of(model: object) -> Tensor:
    """The deviations of the normalisation inside a network, (C, 1, 1).

    Raises:
        ModelError: if the network does not normalise its images.
    """
    normalise = getattr(model, "normalise", None)
    if not isinstance(normalise, Normalise):
        kind = type(model).__name__
        raise ModelError(f"normalised: expected a network that normalises its images; got {kind}, which does not")
    return normalise.std


def _rescaled(model: Classifier, unit: Tensor | float, u: Tensor) -> Tensor:
    return model(u * unit)


@in_evaluation_mode
@torch.no_grad()
def right_under_noise(
    model: Classifier, x: Tensor, y: Tensor, *, noise: Corruption, draws: int = 10, rng: Streams | None = None
) -> Tensor:
    """How many of `draws` noisy copies of each image the classifier gets right, int64, (N,)."""
    if draws < 1:
        raise ValueError(f"draws must be at least 1, got {draws}")
    rng, right = streams(rng, x), torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for draw in range(draws):
        right += model(noise(x, rng=rng.split(f"noise {draw}"))).argmax(1) == y
    return right
