"""Networks by name; inputs are always images in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from holdfast.models.allconv import AllConv, AllConvAugMix
from holdfast.models.cnn import CNN
from holdfast.models.densenet import DenseNet
from holdfast.models.external import Python, Timm, Torchvision
from holdfast.models.linear import Linear
from holdfast.models.lipschitz import LipschitzCNN, LipschitzMLP
from holdfast.models.logits import LogitsOf, with_logits
from holdfast.models.mlp import MLP
from holdfast.models.mobilenet import MobileNetV3Small
from holdfast.models.network import Architecture, Network, Normalise, normalise_channels, normalised
from holdfast.models.preactresnet import PreActResNet
from holdfast.models.resnet import ResNet
from holdfast.models.vit import ViT
from holdfast.models.weights import load_weights, read_metadata, read_state, to_safetensors, write_weights
from holdfast.models.wideresnet import WideResNet
from holdfast.rng import derive

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

MODELS: dict[str, Architecture | type[Architecture]] = {
    "linear": Linear(),
    "mlp": MLP(),
    "cnn": CNN(),
    "lenet": CNN(blocks=((32,), (64,)), kernel=3, pool=2, hidden=(200,), feature_dim=None),
    "cnn6": CNN(blocks=((64, 64), (128, 128), (256, 256)), kernel=3, pool=2, feature_dim=None),
    "cnn8": CNN(blocks=((64, 64), (128, 128), (256, 256, 256, 256)), kernel=3, pool=2, feature_dim=None),
    "resnet10": ResNet(blocks=(1, 1, 1, 1)),
    "resnet18": ResNet(blocks=(2, 2, 2, 2)),
    "resnet34": ResNet(blocks=(3, 4, 6, 3)),
    "resnet50": ResNet(blocks=(3, 4, 6, 3), bottleneck=True),
    "preactresnet18": PreActResNet(blocks=(2, 2, 2, 2)),
    "wrn-40-1": WideResNet(depth=40, widen=1),
    "wrn-40-2": WideResNet(depth=40, widen=2),
    "wrn-28-10": WideResNet(depth=28, widen=10),
    "wrn-34-10": WideResNet(depth=34, widen=10),
    "allconv": AllConv(),
    "allconv-augmix": AllConvAugMix(),
    "densenet": DenseNet(),
    "mobilenetv3-small": MobileNetV3Small(),
    "vit-tiny": ViT(),
    "lipschitz-mlp": LipschitzMLP(),
    "lipschitz-cnn": LipschitzCNN(),
    "python": Python,
    "timm": Timm,
    "torchvision": Torchvision,
}
"""Prototypes to take fields over from; a class where fields have no defaults."""


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
