"""Where networks run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.errors import RecipeError

if TYPE_CHECKING:
    import torch

Device = Annotated[
    str | None,
    typer.Option("--device", help="Device to run on: cpu, cuda, cuda:1 or mps (default: cuda where available)."),
]

KINDS = ("cpu", "cuda", "mps", "xpu")


def device_of(text: str | None) -> torch.device:
    """The device that the user names, else the first GPU, else the CPU.

    Raises:
        RecipeError: if this machine has no such device.
    """
    import torch

    if text is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
        if device.type not in KINDS:
            raise RuntimeError(f"known: {', '.join(KINDS)}")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        line = str(error).strip().partition("\n")[0]
        raise RecipeError(f"--device: expected a device of this machine, such as cpu; got '{text}' ({line})") from None
    return device


def trained_on(accelerator: str, device: str | None) -> str:
    """Where a network is trained: on the device that the user names, else on the recipe's."""
    import torch

    if device is not None or accelerator != "auto":
        return device or accelerator
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
