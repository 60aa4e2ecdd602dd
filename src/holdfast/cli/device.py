"""Where networks run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import torch

Device = Annotated[
    str | None,
    typer.Option("--device", help="Device to run on: cpu, cuda, cuda:1 or mps (default: cuda where available)."),
]


def device_of(text: str | None) -> torch.device:
    """The device that the user names; by default the first GPU or, without one, the CPU.

    Raises:
        RecipeError: if this machine has no such device.
    """
    from holdfast.conduct.ready import default_device, device_named

    return default_device() if text is None else device_named(text, "--device")


def trained_on(accelerator: str, device: str | None) -> str:
    """Where a network is trained: on the device that the user names, by default on the recipe's."""
    import torch

    if device is not None or accelerator != "auto":
        return device or accelerator
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
