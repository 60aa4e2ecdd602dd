"""Street View House Numbers, cropped digits, in MATLAB files."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.budget import require_budget
from holdfast.data.dataset import Dataset, Split, checked
from holdfast.data.digits import DIGITS
from holdfast.data.npz import read_npz
from holdfast.data.roots import locate
from holdfast.errors import DataError


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


WIDTHS = {"uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "single": 4}
"""Bytes of one value of MATLAB's kinds; 8 of others."""


def _split(place: Path, part: str) -> Split:
    path = place / f"{part}_32x32.mat"
    arrays = _load(path)
    x, y = arrays["X"], arrays["y"]
    if x.ndim != 4 or y.ndim != 2 or y.shape[1] != 1 or not np.issubdtype(y.dtype, np.integer):
        raise DataError(
            f"{path}: expected X (H, W, C, N) and integers y (N, 1), came {x.shape} and {y.dtype} {y.shape}"
        )
    labels = np.where(y[:, 0] == 10, 0, y[:, 0])
    return checked(x.transpose(3, 2, 0, 1), labels, DIGITS, (f"{path}: X", f"{path}: y"), complete=part == "train")


def _load(path: Path) -> dict[str, NDArray[Any]]:
    from scipy.io import loadmat, whosmat
    from scipy.io.matlab import MatReadError

    try:
        stated = {name: math.prod(shape) * WIDTHS.get(kind, 8) for name, shape, kind in whosmat(path)}
        require_budget(sum(stated.get(name, 0) for name in ("X", "y")), str(path))
        arrays = loadmat(path, variable_names=("X", "y"))
    except (OSError, ValueError, TypeError, NotImplementedError, zlib.error, MatReadError) as error:
        raise DataError(f"{path}: expected a MATLAB file, cannot be read: {error}") from error
    for name in ("X", "y"):
        if not isinstance(arrays.get(name), np.ndarray):
            raise DataError(f"{path}: expected an array {name}")
    return dict(arrays)


def _complete(place: Path) -> bool:
    return all((place / f"{part}_32x32.mat").is_file() for part in ("train", "test"))
