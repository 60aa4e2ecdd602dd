"""How alike two networks answer, which way their input gradients point, and which frequencies are attacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.frequency import bands, dct
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.types import Attack, Classifier


@dataclass(frozen=True)
class Measurement:
    """A source and M other networks on the same images.

    Args:
        others: the other networks.
        attack: makes the perturbations of each network.
        bands: of frequencies, B.
    """

    columns: ClassVar[Mapping[str, str]] = {
        "divergence": "for each other network the divergence of its answer from that of the source, in nats",
        "agreement": "whether each other network predicts the same class as the source",
        "cosine": "cosine of the input gradients of the source and of each other network; NaN where one is zero",
        "energy": "share of each band of frequencies in the perturbations of the source and of each other network",
    }

    others: Sequence[Classifier]
    attack: Attack
    bands: int

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """Columns (N, M), and (N, 1 + M, B) for the perturbations."""
        networks = (model, *self.others)
        logits, gradients = zip(*(_logits_and_gradient(one, x, y) for one in networks), strict=True)
        energies = [self._energy(one, x, y, rng.split("perturbation")) for one in networks]
        return {
            "divergence": torch.stack([divergence(logits[0], one) for one in logits[1:]], 1),
            "agreement": torch.stack([one.argmax(1) == logits[0].argmax(1) for one in logits[1:]], 1),
            "cosine": torch.stack([cosine(gradients[0], one) for one in gradients[1:]], 1),
            "energy": torch.stack(energies, 1),
        }

    def _energy(self, network: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
        z = self.attack(network, x, y, rng=rng)
        return energy_by_band(z.double() - x.double(), self.bands)


def _logits_and_gradient(network: Classifier, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Logits, (N, K), and the gradient of the loss at the images, in double precision."""
    _, gradient, logits = input_gradient(cross_entropy, network, x, y)
    return logits.double(), gradient.double()


def divergence(source: Tensor, other: Tensor) -> Tensor:
    """KL(other || source) of logits, (N,), in nats: what alignment lowers, at temperature 1."""
    logarithm = other.log_softmax(1)
    result: Tensor = (logarithm.exp() * (logarithm - source.log_softmax(1))).sum(1)
    return result.clamp(min=0)


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """The cosine of the angle between two gradients, (N,); NaN where one is zero."""
    # Each is divided by its largest value first: gradients of sure networks may be too small to be squared.
    first, second = (each.flatten(1) / each.flatten(1).abs().amax(1, keepdim=True) for each in (first, second))
    return F.cosine_similarity(first, second, dim=1, eps=0.0)


def energy_by_band(perturbation: Tensor, count: int) -> Tensor:
    """Share of the squared cosine coefficients in each band, (N, count), low to high; zeros of no perturbation."""
    height, width = perturbation.shape[-2:]
    squares = dct(perturbation).square().sum(1).flatten(1)
    number = bands(height, width, count).flatten().to(squares.device)
    by_band = squares.new_zeros(len(squares), count).index_add_(1, number, squares)
    whole = by_band.sum(1, keepdim=True)
    return torch.where(whole > 0, by_band / whole, 0.0)
