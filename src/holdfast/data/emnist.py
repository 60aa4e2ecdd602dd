"""EMNIST: handwritten digits and letters, in IDX files with rows and columns exchanged."""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.data.dataset import Dataset, Split, checked
from holdfast.data.digits import DIGITS
from holdfast.data.idx import complete, read_pair
from holdfast.data.npz import read_npz
from holdfast.data.roots import locate
from holdfast.errors import DataError, unknown

_MERGED = (*DIGITS, *string.ascii_uppercase, *"abdefghnqrt")

CLASSES: dict[str, tuple[str, ...]] = {
    "balanced": _MERGED,
    "byclass": (*DIGITS, *string.ascii_uppercase, *string.ascii_lowercase),
    "bymerge": _MERGED,
    "digits": DIGITS,
    "letters": tuple(string.ascii_lowercase),
    "mnist": DIGITS,
}
"""Class names of each of the six ways EMNIST is cut."""

ARCHIVE = "gzip.zip"
"""The official file with all of them."""


@dataclass(frozen=True, kw_only=True)
class Emnist:
    """EMNIST, upright, labels from 0.

    Reads `emnist-SPLIT-train-images-idx3-ubyte` and its like, plain, `.gz`, or inside the official `gzip.zip`; else
    `emnist_SPLIT.npz`. The IDX files store each image transposed and count letters from 1; both are put right here.

    Args:
        split: balanced, byclass, bymerge, digits, letters or mnist.

    Reference:
        Cohen et al., EMNIST: an extension of MNIST to handwritten letters, 2017, arXiv:1702.05373.
    """

    split: str = "balanced"

    def __post_init__(self) -> None:
        if self.split not in CLASSES:
            raise DataError(f"emnist.split: {unknown(self.split, CLASSES)}")

    def find(self, root: Path | None = None) -> Path:
        """The directory with the files, or the `.npz` file."""
        wanted = f"{ARCHIVE}, emnist-{self.split}-train-images-idx3-ubyte[.gz] and its like"
        return locate("emnist", root, self._complete, wanted, packed=f"emnist_{self.split}.npz")

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the files."""
        name, classes, place = f"emnist_{self.split}", CLASSES[self.split], self.find(root)
        if place.suffix == ".npz":
            return read_npz(place, name, classes)
        train, test = (self._read(place, part) for part in ("train", "test"))
        return Dataset(name, classes, train, test)

    def _read(self, place: Path, part: str) -> Split:
        x, y, where = read_pair(place, f"emnist-{self.split}-{part}", ARCHIVE)
        labels = y.astype(np.int64) - (self.split == "letters")
        return checked(x.transpose(0, 2, 1), labels, CLASSES[self.split], where, complete=part == "train")

    def _complete(self, place: Path) -> bool:
        stems = [f"emnist-{self.split}-{part}" for part in ("train", "test")]
        return (place / ARCHIVE).is_file() or complete(place, stems)
