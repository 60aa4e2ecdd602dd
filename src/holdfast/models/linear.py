"""Multinomial logistic regression on the pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import nn

from holdfast.models.layers import check_image
from holdfast.models.network import Network


@dataclass(frozen=True, kw_only=True)
class Linear:
    """A linear classifier; with `feature_dim` it factors through that many features.

    Args:
        feature_dim: length of the feature vector before the head; None for the pixels themselves.
    """

    feature_dim: int | None = None

    def __call__(self, shape: tuple[int, int, int], classes: int) -> Network:
        """Build the network."""
        check_image("linear", shape)
        return Network(
            [nn.Flatten()],
            nn.Identity(),
            channels=shape[0],
            features=math.prod(shape),
            classes=classes,
            feature_dim=self.feature_dim,
        )
