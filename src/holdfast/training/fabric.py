"""Lightning Fabric: the devices and the precision that a network is trained with."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from holdfast.errors import RecipeError
from holdfast.recipe.schema import FabricRecipe
from holdfast.rng import derive

if TYPE_CHECKING:
    from lightning_fabric import Fabric

FORWARD_METHODS = ("features", "stages", "moments", "decide")
"""What objectives call of a network besides the network itself."""


def launch(settings: FabricRecipe, device: torch.device | None = None) -> Fabric:
    """All processes at work.

    Args:
        settings: of the recipe.
        device: instead of the recipe's accelerator.

    Raises:
        RecipeError: for settings that Fabric refuses.
    """
    from lightning_fabric import Fabric

    try:
        fabric = Fabric(**{**asdict(settings), **_placed(device)})
    except (ValueError, RuntimeError) as error:  # its own errors are of these kinds
        raise RecipeError(f"train.fabric: {str(error).splitlines()[0]}") from None
    fabric.launch()
    fabric.barrier()  # the first process has made the directory ready
    return fabric


def set_up(fabric: Fabric, network: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, Any]:
    """Network and optimizer on the devices."""
    model, stepping = fabric.setup(network, optimizer)
    for method in FORWARD_METHODS:
        if inspect.ismethod(getattr(network, method, None)):  # layers of foreign networks have such names, too
            model.mark_forward_method(method)
    # Fabric refuses gradients that do not go through it, of which objectives take many on the way to their loss;
    # the loss itself does go through it.
    model._register_backward_hook = _as_it_is
    return model, stepping


@contextmanager
def seeded(device: torch.device, seed: int, purpose: str) -> Iterator[None]:
    """Seed torch's global generators, for layers such as dropout, and give them back as they were."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(derive(seed, purpose))
        if device.type == "cuda":
            torch.cuda.manual_seed(derive(seed, purpose))
        yield


def _placed(device: torch.device | None) -> dict[str, Any]:
    """Fabric's arguments for one device; empty for the device of the recipe."""
    if device is None:
        return {}
    return {"accelerator": device.type, "devices": 1 if device.index is None else [device.index]}


def _as_it_is(tensor: Tensor) -> Tensor:
    return tensor
