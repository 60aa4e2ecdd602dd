"""Metrics for TensorBoard, an extra."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.training.records import Epoch


class Board:
    """Writes epochs as TensorBoard events.

    Args:
        path: directory of the events.
    """

    def __init__(self, path: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise RecipeError("--tensorboard: expected the extra; pip install 'holdfast[tensorboard]'") from None
        self._writer = SummaryWriter(str(path))

    def add(self, epoch: Epoch) -> None:
        """Write all numbers of an epoch; an epoch that is repeated after a kill replaces the one before."""
        numbers = {"lr": epoch.lr, "seconds": epoch.seconds}
        numbers |= {f"train/{name}": value for name, value in epoch.train.items()}
        numbers |= {f"validation/{name}": value for name, value in (epoch.validation or {}).items()}
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, epoch.epoch)
        self._writer.flush()
