"""Arrays in one `.npz` file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import files
from holdfast.arrays import read_archive
from holdfast.data.conversion import CHANNELS, channels_first, label_names
from holdfast.data.dataset import Dataset, Split, checked
from holdfast.data.roots import existing
from holdfast.errors import DataError

WANTED = ("x_", "y_", "class_names", "fine_names", "coarse_names")
"""Beginnings of the names of the arrays that are read."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Npz:
    """A NumPy archive with `x_test`, `y_test` and, unless it is only for tests, `x_train`, `y_train`.

    Images are (N, H, W), (N, H, W, C) or (N, C, H, W), see `channels_first`; uint8, or float in [0, 1]. Class names are
    read from `class_names` (or `fine_names` and `coarse_names`), else they are the labels. Never unpickles.

    Args:
        path: the file, in the current directory or in the data root.
        coarse: take the labels from `y_train_coarse` and `y_test_coarse`.
    """

    path: str
    coarse: bool = False

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the file."""
        path = existing(self.path, root)
        return read_npz(path, path.stem, coarse=self.coarse)


def read_npz(path: Path, name: str, classes: Sequence[str] | None = None, *, coarse: bool = False) -> Dataset:
    """Read an archive laid out as `Npz` says; `classes` are for a file that does not name its own.

    Raises:
        DataError: for a damaged file, a missing array, pickled objects, or arrays that are not images and labels.
    """
    suffix = "_coarse" if coarse else ""
    arrays = load_arrays(path, WANTED)
    parts = parts_of(arrays, path, suffix)
    names = class_names(arrays, [arrays[f"y_{part}{suffix}"] for part in parts], classes, path, coarse)
    splits = {part: _split(arrays, part, suffix, names, path) for part in parts}
    return Dataset(name, names, splits.get("train"), splits["test"])


def parts_of(arrays: Arrays, path: Path, suffix: str = "") -> list[str]:
    """Which of "train" and "test" an archive has.

    Raises:
        DataError: when one of its arrays is missing, or the test split is.
    """
    for array in ("x_test", f"y_test{suffix}"):
        if array not in arrays:
            raise DataError(f"{path}: expected an array {array}, got {', '.join(sorted(arrays)) or 'none'}")
    parts = [part for part in ("train", "test") if f"x_{part}" in arrays or f"y_{part}{suffix}" in arrays]
    for part in parts:
        for array in (f"x_{part}", f"y_{part}{suffix}"):
            if array not in arrays:
                raise DataError(f"{path}: expected an array {array} too, got {', '.join(sorted(arrays))}")
    return parts


def write_npz(dataset: Dataset, path: Path) -> None:
    """Write a data set as one archive that `Npz` reads back equal, in one step: whole or not at all.

    `idx_train` and `idx_test` are the positions of the examples in their source.

    Raises:
        DataError: when the file exists, cannot be written, or the images' shape cannot be recovered from the array.
    """
    if path.suffix != ".npz":
        raise DataError(f"{path}: expected a name that ends in .npz")
    if path.exists():
        raise DataError(f"{path}: exists already; delete it or give another name")
    arrays = {"class_names": np.array(dataset.classes)}
    for name, split in (("train", dataset.train), ("test", dataset.test)):
        if split is not None:
            arrays[f"x_{name}"] = _stored(split, f"{dataset.name}: {name}")
            arrays |= {f"y_{name}": split.y.numpy(), f"idx_{name}": split.index.numpy()}

    try:
        with files.replacing(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error


def _stored(split: Split, where: str) -> NDArray[Any]:
    """Grey images as (N, H, W), others as (N, H, W, C), or as (N, C, H, W) where that would be ambiguous."""
    x = split.x.numpy()
    if x.shape[1] == 1:
        return x[:, 0]
    last = np.moveaxis(x, 1, 3)
    stored = x if last.shape[1] in CHANNELS else last
    channels_first(stored, where)
    return stored


def _split(arrays: Arrays, part: str, suffix: str, names: tuple[str, ...], path: Path) -> Split:
    where = f"{path}: x_{part}", f"{path}: y_{part}{suffix}"
    x = channels_first(arrays[f"x_{part}"], where[0])
    return checked(x, arrays[f"y_{part}{suffix}"], names, where, complete=part == "train")


def class_names(
    arrays: Arrays, labels: list[NDArray[Any]], classes: Sequence[str] | None, path: Path, coarse: bool = False
) -> tuple[str, ...]:
    """The names that an archive has or, failing that, the caller's or the labels."""
    keys = ("coarse_names",) if coarse else ("class_names", "fine_names")
    for key in keys:
        if key in arrays:
            if arrays[key].ndim != 1 or arrays[key].dtype.kind != "U":
                raise DataError(f"{path}: {key}: expected a list of text, got {arrays[key].dtype} {arrays[key].shape}")
            return tuple(arrays[key].tolist())
    if classes is not None:
        return tuple(classes)
    return label_names(labels, str(path))


def load_arrays(path: Path, wanted: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Arrays of an archive whose names begin in one of these ways; others, which may be large, stay on disk."""
    files.require_regular(path, error=DataError)
    return read_archive(path, str(path), lambda name: name.startswith(wanted), error=DataError)
