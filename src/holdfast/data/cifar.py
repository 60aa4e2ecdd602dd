"""CIFAR-10 and CIFAR-100 in their binary format, extracted or still in the `.tar.gz`."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.budget import require_budget
from holdfast.data.dataset import Dataset, checked
from holdfast.data.npz import read_npz
from holdfast.data.roots import locate
from holdfast.errors import DataError
from holdfast.files.regular import read_regular

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""Class names of CIFAR-10."""

_FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""
FINE = tuple(_FINE.split())
"""Class names of CIFAR-100."""

_COARSE = """
aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture
insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2
"""
COARSE = tuple(_COARSE.split())
"""Names of the twenty groups of five classes of CIFAR-100."""

SHAPE = (3, 32, 32)
COPIES = 2
"""Copies of a file's records in memory."""


@dataclass(frozen=True)
class Layout:
    """Location and record layout of a data set's binary files.

    Args:
        archive: the official file.
        folder: the directory in it.
        train: file names of the training split, in order.
        test: file names of the test split.
        labels: label bytes before the pixels of each record.
    """

    archive: str
    folder: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    labels: int

    def complete(self, place: Path) -> bool:
        """Whether `place` has the archive, or the files themselves, in their folder or not."""
        return (place / self.archive).is_file() or self._extracted(place) is not None

    def read(self, place: Path, names: Sequence[str], label: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Images and the `label`-th labels of these files together."""
        directory = self._extracted(place)
        if directory is not None:
            blocks = [_parse(_bytes(directory / name), self.labels, str(directory / name)) for name in names]
        else:
            blocks = self._unpack(place / self.archive, names)
        records = np.concatenate(blocks)
        return records[:, self.labels :].reshape(-1, *SHAPE), records[:, label]

    def _extracted(self, place: Path) -> Path | None:
        for directory in (place / self.folder, place):
            if all((directory / name).is_file() for name in (*self.train, *self.test)):
                return directory
        return None

    def _unpack(self, archive: Path, names: Sequence[str]) -> list[NDArray[np.uint8]]:
        """Read members into memory; nothing is written, so no name in the archive can leave its directory."""
        blocks = []
        try:
            with tarfile.open(archive) as members:
                for name in names:
                    entry = members.getmember(f"{self.folder}/{name}")
                    member = members.extractfile(entry) if entry.isreg() and not entry.issparse() else None
                    if member is None:
                        raise DataError(f"{archive}: {self.folder}/{name}: expected a file")
                    require_budget(COPIES * entry.size, f"{archive}: {name}")
                    blocks.append(_parse(member.read(), self.labels, f"{archive}: {name}"))
        except (OSError, EOFError, KeyError, ValueError, tarfile.TarError, zlib.error) as error:
            raise DataError(f"{archive}: cannot be read: {error}") from error
        return blocks


TEN = Layout(
    "cifar-10-binary.tar.gz",
    "cifar-10-batches-bin",
    tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    ("test_batch.bin",),
    1,
)
HUNDRED = Layout("cifar-100-binary.tar.gz", "cifar-100-binary", ("train.bin",), ("test.bin",), 2)


@dataclass(frozen=True, kw_only=True)
class Cifar10:
    """CIFAR-10, from `cifar-10-binary.tar.gz`, the `.bin` files in it, or `cifar10.npz`.

    Reference:
        Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
    """

    def find(self, root: Path | None = None) -> Path:
        """The directory with the files, or the `.npz` file."""
        return locate("cifar10", root, TEN.complete, f"{TEN.archive} or its .bin files")

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the files."""
        place = self.find(root)
        if place.suffix == ".npz":
            return read_npz(place, "cifar10", CIFAR10)
        return _read("cifar10", place, TEN, CIFAR10, 0)


@dataclass(frozen=True, kw_only=True)
class Cifar100:
    """CIFAR-100, from `cifar-100-binary.tar.gz`, the `.bin` files in it, or `cifar100.npz`.

    Args:
        coarse: the twenty groups as labels instead of the hundred classes.

    Reference:
        Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
    """

    coarse: bool = False

    def find(self, root: Path | None = None) -> Path:
        """The directory with the files, or the `.npz` file."""
        return locate("cifar100", root, HUNDRED.complete, f"{HUNDRED.archive} or its .bin files")

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the files."""
        name, classes, place = (
            ("cifar20", COARSE, self.find(root)) if self.coarse else ("cifar100", FINE, self.find(root))
        )
        if place.suffix == ".npz":
            return read_npz(place, name, classes, coarse=self.coarse)
        return _read(name, place, HUNDRED, classes, 0 if self.coarse else 1)


def _read(name: str, place: Path, layout: Layout, classes: tuple[str, ...], label: int) -> Dataset:
    train, test = (
        checked(*layout.read(place, names, label), classes, _where(place, names), complete=names is layout.train)
        for names in (layout.train, layout.test)
    )
    return Dataset(name, classes, train, test)


def _where(place: Path, names: Sequence[str]) -> str:
    return f"{place}: {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "")


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path, error=DataError, follow=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _parse(data: bytes, labels: int, where: str) -> NDArray[np.uint8]:
    """Records (N, labels + 3072): label bytes, then the red, green and blue planes row by row."""
    length = labels + SHAPE[0] * SHAPE[1] * SHAPE[2]
    if not data or len(data) % length:
        raise DataError(f"{where}: expected records of {length} bytes, got {len(data)} bytes")
    return np.frombuffer(data, np.uint8).reshape(-1, length)
