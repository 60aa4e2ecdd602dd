r"""Errors under a wave of one frequency, and the first order of what it does to the loss.

.. math:: E_{ij} = \frac1N \sum_n 1\bigl\{f\bigl(\mathrm{clip}(x_n + r_n\, v\, U_{ij})\bigr) \ne y_n\bigr\}
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.frequency import fourier_wave
from holdfast.questions.fourier_map import Frequency, independent
from holdfast.questions.gradient_spectrum.measurement import gradient_maps
from holdfast.questions.question import Material, Record
from holdfast.types import Loss


def around(material: Material, loss: Loss | None) -> Record:
    """The size of the images, the errors on them, and the first-order map of the independent frequencies."""
    size = material.x.shape[-2:]
    fourier, _ = gradient_maps(material.model, material.x, material.y, loss=loss, batch_size=material.batch_size)
    clean = wrong(material, torch.zeros(size, dtype=torch.float64), (0, 0), clip=False)
    return {
        "size": list(size),
        "clean": float(clean.double().mean()),
        "first_order": [float(fourier[place]) for place in independent(*size)],
    }


def errors(material: Material, frequencies: Sequence[Frequency], *, length: float, clip: bool) -> Record:
    """Share of wrong answers under the wave of each frequency, of all images and of every second one.

    One forward pass for each image and frequency.
    """
    height, width = material.x.shape[-2:]
    waves = (length * fourier_wave(height, width, *frequency) for frequency in frequencies)
    answers = [wrong(material, wave, name, clip=clip) for wave, name in zip(waves, frequencies, strict=True)]
    table = torch.stack(answers).double()
    return {"errors": table.mean(1), "halves": [table[:, first::2].mean(1) for first in (0, 1)]}


@torch.no_grad()
def wrong(material: Material, wave: Tensor, frequency: Frequency, *, clip: bool) -> Tensor:
    """Which images are answered wrongly with a wave, (H, W), added to each channel with a random sign, (N,)."""
    name, wave, answers = "wave {} {}".format(*frequency), wave.to(material.x), []
    for rows in torch.split(torch.arange(len(material.x)), material.batch_size):
        x, y = material.x[rows], material.y[rows]
        signs = 2 * material.rng[rows].split(name).integers(2, (x.shape[1],), x.device) - 1
        z = x + signs[..., None, None] * wave
        answers.append(material.model(z.clamp(0, 1) if clip else z).argmax(1) != y)
    return torch.cat(answers)
