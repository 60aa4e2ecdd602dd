"""How much noise a classifier bears."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.corruptions.noise import GaussianNoise
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.statistics import noise_area
from holdfast.types import Classifier


@dataclass(frozen=True)
class NoiseCurve:
    """Accuracy against the standard deviation of Gaussian noise.

    Args:
        sigmas: deviations, from 0 on.
        accuracies: mean accuracy at each.
    """

    sigmas: tuple[float, ...]
    accuracies: tuple[float, ...]

    @property
    def area(self) -> float:
        """AUC_GN, the normalised area."""
        return noise_area(self.accuracies, self.sigmas)


@in_evaluation_mode
def noise_curve(
    model: Classifier,
    x: Tensor,
    y: Tensor,
    *,
    step: float = 0.2,
    draws: int = 100,
    stop: float = 0.13,
    largest: float = 10.0,
    batch_size: int = 1024,
    rng: Streams | None = None,
) -> NoiseCurve:
    """Add more and more noise, without clipping, until accuracy is down to guessing.

    Args:
        model: the classifier, used in evaluation mode.
        x: images, (N, ...).
        y: labels, (N,).
        step: between deviations; the paper takes 0.2 for MNIST and 0.1 for CIFAR-10.
        draws: noisy copies of each image.
        stop: accuracy that ends the curve; the paper takes 0.03 above one of ten classes.
        largest: deviation that ends it anyway.
        batch_size: images per pass.
        rng: random streams of the images.

    Reference:
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, appendix B.2.
    """
    if not (step > 0 and draws >= 1):
        raise ValueError(f"step must be positive and draws at least 1, got {step} and {draws}")
    rng, sigmas, accuracies = streams(rng, x), [0.0], [_accuracy(model, [x], [y], batch_size)]
    while accuracies[-1] > stop and sigmas[-1] + step <= largest:
        sigmas.append(len(sigmas) * step)
        noisy = _copies(x, sigmas[-1], draws, rng)
        accuracies.append(_accuracy(model, noisy, [y] * draws, batch_size))
    return NoiseCurve(tuple(sigmas), tuple(accuracies))


def _copies(x: Tensor, sigma: float, draws: int, rng: Streams) -> Iterator[Tensor]:
    noise = GaussianNoise(sigma, clip=False)
    for draw in range(draws):
        yield noise(x, rng=rng.split(f"noise {sigma:.6g}, draw {draw}"))


@torch.no_grad()
def _accuracy(model: Classifier, copies: Iterator[Tensor] | list[Tensor], labels: list[Tensor], size: int) -> float:
    right = total = 0
    for x, y in zip(copies, labels, strict=True):
        for start in range(0, len(x), size):
            piece = slice(start, start + size)
            right += int((model(x[piece]).argmax(1) == y[piece]).sum())
        total += len(y)
    return right / total
