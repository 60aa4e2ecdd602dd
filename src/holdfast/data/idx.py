"""The IDX format of MNIST and its relatives."""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.arrays import one_error, read_member
from holdfast.budget import decompressed
from holdfast.data.dataset import Dataset, Split, checked
from holdfast.data.digits import DIGITS
from holdfast.data.npz import read_npz
from holdfast.data.roots import locate
from holdfast.errors import DataError
from holdfast.files.regular import read_regular

FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
"""Class names of Fashion-MNIST."""

HIRAGANA = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
"""Class names of Kuzushiji-MNIST."""

STEMS = ("train", "t10k")
_UNSIGNED_BYTE = 8


@dataclass(frozen=True, kw_only=True)
class Idx:
    """A data set in four IDX files, plain or `.gz`, as MNIST is published.

    The files are `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same with `t10k`, in the data set's
    directory of the data root or in the root itself. MNIST, Fashion-MNIST and KMNIST use the same file names, so give
    each its own directory. `NAME.npz` is read where these files are missing.

    Args:
        name: name of the data set and of its directory.
        classes: name of each class.
        elsewhere: further directories to look in, such as the one a distribution's package installs.
    """

    name: str
    classes: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()

    def find(self, root: Path | None = None) -> Path:
        """The directory with the files, or the `.npz` file."""
        wanted = "train-images-idx3-ubyte[.gz] and its like"
        return locate(self.name, root, lambda place: complete(place, STEMS), wanted, elsewhere=self.elsewhere)

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the files."""
        place = self.find(root)
        if place.suffix == ".npz":
            return read_npz(place, self.name, self.classes)
        train, test = (self._split(place, stem) for stem in STEMS)
        return Dataset(self.name, self.classes, train, test)

    def _split(self, place: Path, stem: str) -> Split:
        x, y, where = read_pair(place, stem)
        return checked(x, y, self.classes, where, complete=stem == "train")


MNIST = Idx(name="mnist", classes=DIGITS)
KMNIST = Idx(name="kmnist", classes=HIRAGANA)
FASHION_MNIST = Idx(name="fashion_mnist", classes=FASHION, elsewhere=("/usr/share/datasets/fashion-mnist",))


def complete(place: Path, stems: Sequence[str]) -> bool:
    """Whether a directory has the image and the label file of each stem, plain or compressed."""
    names = [place / name for stem in stems for name in _names(stem)]
    return all(name.is_file() or _compressed(name).is_file() for name in names)


def read_pair(
    place: Path, stem: str, archive: str | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], tuple[str, str]]:
    """Images (N, H, W) and labels (N,) of one split, and the file of each.

    Args:
        place: the directory.
        stem: beginning of the names of the two files.
        archive: a `.zip` file of that directory to look into when the files are not beside it.

    Raises:
        DataError: when a file is missing or damaged.
    """
    (x, where_x), (y, where_y) = (
        _read(place / name, axes, archive) for name, axes in zip(_names(stem), (3, 1), strict=True)
    )
    return x, y, (where_x, where_y)


def _read(path: Path, axes: int, archive: str | None) -> tuple[NDArray[np.uint8], str]:
    where, packed = str(path), _compressed(path)
    if path.is_file():
        return parse_idx(read_regular(path, error=DataError, follow=True), axes, where), where
    if packed.is_file() or archive is None:
        where = str(packed)
        with one_error(f"{where}: expected an IDX file compressed by gzip", DataError):
            data = decompressed(read_regular(packed, error=DataError, follow=True), where)
    else:
        member = f"{Path(archive).stem}/{packed.name}"
        where = f"{path.with_name(archive)}: {member}"
        with (
            one_error(f"{where}: expected an IDX file compressed by gzip", DataError),
            zipfile.ZipFile(path.with_name(archive)) as members,
        ):
            data = decompressed(read_member(members, members.getinfo(member), where, error=DataError), where)
    return parse_idx(data, axes, where), where


def parse_idx(data: bytes | bytearray, axes: int, where: str) -> NDArray[np.uint8]:
    """The array that the bytes of an IDX file describe: two zeros, type, number of axes, sizes, values.

    Raises:
        DataError: when the header or the length is wrong.
    """
    expected = bytes((0, 0, _UNSIGNED_BYTE, axes))
    start = 4 + 4 * axes
    if data[:4] != expected or len(data) < start:
        raise DataError(f"{where}: expected an IDX file that starts {expected.hex(' ')}, got {data[:4].hex(' ')}")
    shape = struct.unpack(f">{axes}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise DataError(f"{where}: expected {math.prod(shape)} bytes for shape {shape}, got {len(data) - start}")
    if 0 in shape:
        raise DataError(f"{where}: expected at least one value, got shape {shape}")
    values = np.frombuffer(data if isinstance(data, bytearray) else bytearray(data), np.uint8, offset=start)
    return values.reshape(shape)


def _names(stem: str) -> tuple[str, str]:
    return f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte"


def _compressed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")
