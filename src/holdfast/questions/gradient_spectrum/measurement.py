r"""The gradient of the loss by frequency: derivatives along every wave at once, from one backward pass for each image.

.. math:: G_{ij} = \frac1{NC} \sum_{n, c} \bigl|\langle \nabla_{x_{n,c}} \ell(f(x_n), y_n),\, U_{ij} \rangle\bigr|
"""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.frequency import dct, fourier_projections
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.types import Classifier, Loss


@in_evaluation_mode
def gradient_maps(
    model: Classifier, x: Tensor, y: Tensor, *, loss: Loss | None = None, batch_size: int = 64
) -> tuple[Tensor, Tensor]:
    """Mean magnitude of the projections of the input gradient on all Fourier waves, and of its cosine transform.

    Args:
        model: the classifier, used in evaluation mode.
        x: images, (N, C, H, W).
        y: labels.
        loss: per example; None for the cross entropy.
        batch_size: images of a backward pass, of which each image takes part in one.

    Returns:
        Two maps, (H, W), float64.
    """
    sums = torch.zeros((2, *x.shape[-2:]), dtype=torch.float64, device=x.device)
    for rows in torch.split(torch.arange(len(x), device=x.device), batch_size):
        gradient = input_gradient(loss or cross_entropy, model, x[rows], y[rows])[1].double()
        sums += torch.stack([each.abs().mean(1).sum(0) for each in (fourier_projections(gradient), dct(gradient))])
    fourier, cosine = sums / len(x)
    return fourier, cosine
