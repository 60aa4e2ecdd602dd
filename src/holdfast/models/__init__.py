"""Networks by name; inputs are always images in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from holdfast.families import MODELS
from holdfast.models.logits import LogitsOf, with_logits
from holdfast.models.network import Network, Normalise, normalise_channels, normalised
from holdfast.models.weights import load_weights, read_metadata, read_state, to_safetensors, write_weights
from holdfast.rng import derive
from holdfast.types import Architecture

__all__ = [
    "MODELS",
    "Architecture",
    "LogitsOf",
    "Network",
    "Normalise",
    "build",
    "load_weights",
    "normalised",
    "read_metadata",
    "read_state",
    "to_safetensors",
    "with_logits",
    "write_weights",
]


def build(
    architecture: Architecture,
    shape: tuple[int, int, int],
    classes: int,
    *,
    seed: int = 0,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> nn.Module:
    """A network whose weights depend on the seed alone; the global random state stays as it was.

    Args:
        architecture: for instance `MODELS["resnet18"]` or `WideResNet(depth=16, widen=4)`.
        shape: channels, height, width of the images.
        classes: number of logits.
        seed: the run's seed.
        mean: per channel, subtracted first by a network of ours; None for 0. Other networks bring their own, and
            Lipschitz networks have none.
        std: per channel, divided by; None for 1.
    """
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed: it would reseed every GPU as well.
        torch.default_generator.manual_seed(derive(seed, "weights"))
        network = architecture(shape, classes)
    given = mean is not None or std is not None
    if given and isinstance(network, Network) and isinstance(network.normalise, Normalise):
        network.normalise = normalise_channels(shape[0], mean, std)
    return network
