"""Networks that holdfast did not train, as their runs remember them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from holdfast.errors import CheckpointError, RecipeError
from holdfast.models.network import normalised
from holdfast.models.weights import load_weights
from holdfast.recipe import plain
from holdfast.recipe.schema import DataRecipe
from holdfast.recipe.strict import parse
from holdfast.runs.code import TrustedCode, require_trust, resolved
from holdfast.runs.networks import new_network
from holdfast.types import Architecture


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A network that holdfast did not train, and its images: enough to build both again.

    Paths and modules are as the user gave them, relative to the working directory.

    Args:
        model: how it is made.
        data: on which images.
        weights: file with its weights; None for those that it is made with.
        mean: per channel, subtracted from the images first.
        std: per channel, divides them.
        seed: of everything random.
    """

    model: Architecture
    data: DataRecipe
    weights: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    seed: int = 0

    def facts(self) -> dict[str, Any]:
        """For `run.json`."""
        fields: dict[str, Any] = plain(self, Foreign)
        return fields

    @classmethod
    def read(cls, facts: Mapping[str, Any], file: Path, *, trust: TrustedCode) -> Foreign:
        """What a run's file says of its network.

        Args:
            facts: what it says.
            file: the file, for messages.
            trust: whether the caller allows a function that the file names to be called. The file itself cannot.

        Raises:
            CheckpointError: if it was not written by holdfast, or names a factory and is not trusted.
        """
        try:
            foreign: Foreign = parse(Foreign, dict(facts), where=lambda path: ".".join(path))
        except RecipeError as error:
            raise CheckpointError(f"{file}: expected a network written by holdfast; {error}") from None
        require_trust(foreign.model, str(file), trust=trust, error=CheckpointError)
        ready: Foreign = resolved(foreign, f"{file}: ", trust=trust, error=CheckpointError)
        return ready

    def build(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """The network with its weights, its normalisation in front."""
        network = new_network(self.model, shape, classes, trust=True)  # as the caller, or who `read` it, allowed
        if self.weights is not None:
            load_weights(network, self.weights)
        if self.mean is None and self.std is None:
            return network
        channels = shape[0]
        try:
            return normalised(network, self.mean or (0.0,) * channels, self.std or (1.0,) * channels)
        except ValueError as error:
            raise RecipeError(f"mean and std: {error}") from None
