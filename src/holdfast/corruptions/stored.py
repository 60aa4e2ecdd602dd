"""Corrupted images that were made beforehand, such as CIFAR-10-C."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.conversion import images as checked_images
from holdfast.data.npy import SEVERITIES, fifth, in_memory, open_npy
from holdfast.data.roots import existing
from holdfast.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Images from `path/kind.npy` in place of the test images, as CIFAR-10-C stores them.

    The file holds a copy of the whole test set for each of the five severities; an example is found by its index, and
    its label must be the one in `path/labels.npy`.

    Args:
        path: the directory, in the current directory or in the data root.
        kind: name of the file.
        severity: 1 to 5.
    """

    family: ClassVar = "stored corruptions"

    path: str
    kind: str
    severity: int

    def __post_init__(self) -> None:
        if not 1 <= self.severity <= SEVERITIES:
            raise ValueError(f"severity: expected 1 to {SEVERITIES}, got {self.severity}")
        if not self.kind or Path(self.kind).name != self.kind:
            raise ValueError(f"kind: expected the name of a file without its ending, got {self.kind!r}")

    def check(self) -> None:
        """Refuse missing and unsuitable files."""
        _opened(str(existing(self.path, None) / f"{self.kind}.npy"))

    def take(self, index: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The stored images of examples, as `x` in shape, dtype and device.

        Args:
            index: positions of the examples in the test set.
            x: their images.
            y: their labels.
        """
        file = existing(self.path, None) / f"{self.kind}.npy"
        images, labels = _opened(str(file))
        images, labels = fifth(images, self.severity), fifth(labels, self.severity)
        rows = index.cpu().numpy()
        if len(rows) and rows.max() >= len(images):
            raise DataError(f"{file}: expected an image for example {rows.max()}, has {len(images)} of each severity")
        if not np.array_equal(labels[rows], y.cpu().numpy()):
            raise DataError(f"{file}: expected the labels of the test set, got others; is it of another data set?")
        chosen = checked_images(in_memory(images[rows]), str(file))
        if chosen.shape != x.shape:
            raise DataError(f"{file}: expected images of shape {tuple(x.shape[1:])}, got {tuple(chosen.shape[1:])}")
        return (chosen / 255 if chosen.dtype == torch.uint8 else chosen).to(x)


@lru_cache(maxsize=4)
def _opened(file: str) -> tuple[NDArray[Any], NDArray[Any]]:
    return open_npy(Path(file))
