"""Corrupted copies of a test set in `.npy` files, as CIFAR-10-C has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import map_array, read_array
from holdfast.budget import require_budget
from holdfast.data.conversion import label_names
from holdfast.data.dataset import Dataset, checked
from holdfast.data.roots import existing
from holdfast.errors import DataError
from holdfast.files.regular import read_regular

SEVERITIES = 5
LABELS = "labels.npy"
COPIES = 2
"""Copies of the images in memory while they are checked."""


@dataclass(frozen=True, kw_only=True)
class Npy:
    """One file of corrupted images, (5 n, H, W, C) in order of severity, beside a file `labels.npy`.

    Args:
        path: the file, in the current directory or in the data root.
        severity: 1 to 5 for that fifth of the file; None for all of it.
    """

    path: str
    severity: int | None = None

    def __post_init__(self) -> None:
        if self.severity is not None and not 1 <= self.severity <= SEVERITIES:
            raise DataError(f"npy.severity: expected 1 to {SEVERITIES}, got {self.severity}")

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the images; their classes are numbers."""
        path = existing(self.path, root)
        x, y = open_npy(path)
        if self.severity is not None:
            x, y = fifth(x, self.severity), fifth(y, self.severity)
        require_budget(COPIES * x.nbytes, str(path))
        names = label_names([y], str(path.parent / LABELS))
        where = str(path), str(path.parent / LABELS)
        name = path.stem if self.severity is None else f"{path.stem}-{self.severity}"
        return Dataset(name, names, None, checked(in_memory(x), y, names, where))


def open_npy(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Images, left on disk, and their labels.

    Raises:
        DataError: when one of the files is missing or damaged, or they do not match.
    """
    labels = path.parent / LABELS
    for file in (path, labels):
        if not file.is_file():
            raise DataError(f"{file}: not found")
    x = map_array(path, error=DataError)
    y = read_array(read_regular(labels, error=DataError, follow=True), str(labels), error=DataError)
    if x.ndim not in (3, 4) or y.ndim != 1 or len(x) != len(y) or len(x) % SEVERITIES:
        raise DataError(
            f"{path}: expected {SEVERITIES} n images and as many labels in {LABELS}, got {x.shape} and {y.shape}"
        )
    return x, y


def in_memory(x: NDArray[Any]) -> NDArray[Any]:
    """A copy of images (N, H, W, C) or (N, H, W) with the channels first."""
    return np.array(np.moveaxis(x, 3, 1) if x.ndim == 4 else x[:, None])


def fifth(array: NDArray[Any], severity: int) -> NDArray[Any]:
    """The part of an array for one severity."""
    size = len(array) // SEVERITIES
    return array[(severity - 1) * size : severity * size]
