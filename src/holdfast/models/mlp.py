"""Fully connected networks."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from torch import nn

from holdfast.models.layers import Activation, activation, check_image, dense, scaled
from holdfast.models.network import Network


@dataclass(frozen=True, kw_only=True)
class MLP:
    """A multilayer perceptron; each hidden layer is a stage.

    Args:
        hidden: units of the hidden layers.
        width: multiplier of all hidden layers.
        activation: after each hidden layer.
        feature_dim: length of a linear neck before the head; None for no neck.
    """

    hidden: tuple[int, ...] = (256, 256)
    width: float = 1.0
    activation: Activation = "relu"
    feature_dim: int | None = None

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("mlp", shape)
        sizes = [math.prod(shape), *(scaled(units, self.width) for units in self.hidden)]
        layers = [nn.Sequential(dense(a, b), activation(self.activation)) for a, b in itertools.pairwise(sizes)]
        return Network(
            [nn.Flatten(), *layers],
            nn.Identity(),
            channels=shape[0],
            features=sizes[-1],
            classes=classes,
            feature_dim=self.feature_dim,
        )
