"""Street View House Numbers, cropped digits, in MATLAB files."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.dataset import Dataset, Split, checked
from holdfast.data.digits import DIGITS
from holdfast.data.mat import read_mat
from holdfast.data.npz import read_npz
from holdfast.data.roots import locate
from holdfast.errors import DataError
from holdfast.files.regular import read_regular


@dataclass(frozen=True, kw_only=True)
class Svhn:
    """SVHN's 32x32 colour digits, from `train_32x32.mat` and `test_32x32.mat`, or `svhn.npz`; 0 is labelled 0, not 10.

    Reference:
        Netzer et al., Reading Digits in Natural Images with Unsupervised Feature Learning, NIPS workshop 2011.
    """

    def find(self, root: Path | None = None) -> Path:
        """The directory with the files, or the `.npz` file."""
        return locate("svhn", root, _complete, "train_32x32.mat and test_32x32.mat")

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the files."""
        place = self.find(root)
        if place.suffix == ".npz":
            return read_npz(place, "svhn", DIGITS)
        train, test = (_split(place, part) for part in ("train", "test"))
        return Dataset("svhn", DIGITS, train, test)


ARRAYS = ("X", "y")


def _split(place: Path, part: str) -> Split:
    path = place / f"{part}_32x32.mat"
    arrays = _load(path)
    x, y = arrays["X"], arrays["y"]
    if x.ndim != 4 or y.ndim != 2 or y.shape[1] != 1 or not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"{path}: expected X (H, W, C, N) and integers y (N, 1), got {x.shape} and {y.dtype} {y.shape}")
    labels = np.where(y[:, 0] == 10, 0, y[:, 0])
    return checked(x.transpose(3, 2, 0, 1), labels, DIGITS, (f"{path}: X", f"{path}: y"), complete=part == "train")


def _load(path: Path) -> dict[str, NDArray[Any]]:
    try:
        arrays = read_mat(read_regular(path, error=DataError, follow=True), ARRAYS, str(path))
    except (ValueError, zlib.error) as error:
        raise DataError(f"{path}: expected a MATLAB file, cannot be read: {error}") from error
    for name in ARRAYS:
        if name not in arrays:
            raise DataError(f"{path}: expected an array {name}")
    return arrays


def _complete(place: Path) -> bool:
    return all((place / f"{part}_32x32.mat").is_file() for part in ("train", "test"))
