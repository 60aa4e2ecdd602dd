"""Networks with their images, ready to be checked or asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from holdfast.checks import Check
from holdfast.data.dataset import Split
from holdfast.errors import RecipeError
from holdfast.evaluation.subject import Subject
from holdfast.recipe.schema import EvaluateRecipe
from holdfast.runs.directory import Run
from holdfast.runs.splits import Splits


@dataclass(frozen=True)
class Ready:
    """Networks with their images, and the run that keeps their results.

    Args:
        run: the run.
        subjects: the networks, the one that matters first; none where a question is about the data alone.
        splits: the images.
        checks: what to try on them.
        how: and how.
        seed: of everything random.
        device: where the networks are.
    """

    run: Run
    subjects: Sequence[Subject]
    splits: Splits
    checks: Sequence[Check]
    how: EvaluateRecipe
    seed: int
    device: torch.device


NO_IMAGES = Splits(
    name="none", classes=(), shape=(1, 1, 1), fingerprint="", train=None, validation=None,
    test=Split(torch.zeros(0, 1, 1, 1), torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)),
)  # fmt: skip
"""What a question of theory is asked about."""


def to_device(model: Any, device: torch.device) -> None:
    """Move a network there; a plain function stays where it is."""
    if isinstance(model, torch.nn.Module):
        model.to(device)


def default_device() -> torch.device:
    """The first GPU or, without one, the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


KINDS = ("cpu", "cuda", "mps", "xpu")


def device_named(name: torch.device | str, where: str = "device") -> torch.device:
    """The device of this name.

    Args:
        name: such as cpu or cuda:1.
        where: what states it, for the message.

    Raises:
        RecipeError: if this machine has no such device.
    """
    kind = str(name).partition(":")[0]
    if kind not in KINDS:
        kinds = ", ".join(KINDS)
        raise RecipeError(f"{where}: expected a device of this machine, such as cpu; got '{name}' (known: {kinds})")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        line = str(error).strip().partition("\n")[0]
        raise RecipeError(f"{where}: expected a device of this machine, such as cpu; got '{name}' ({line})") from None
    return device
