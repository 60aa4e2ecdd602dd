"""CIFAR's records, from files and from the archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holdfast.data import Cifar10, Cifar100
from holdfast.data.cifar import COARSE, FINE
from holdfast.errors import DataError
from tests.data.layouts import pixels, records, same, tar_gz

X = pixels(10, 3, 32, 32)
Y = np.arange(10, dtype=np.uint8)[::-1]
BATCHES = {f"data_batch_{i + 1}.bin": records(X[2 * i : 2 * i + 2], Y[2 * i : 2 * i + 2]) for i in range(5)}
TEN = BATCHES | {"test_batch.bin": records(X[:3], Y[:3])}


def write(place: Path, files: dict[str, bytes]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(content)


@pytest.mark.parametrize("place", ["", "cifar10", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin"])
def test_cifar10_from_its_files(tmp_path: Path, place: str) -> None:
    write(tmp_path / place, TEN)
    data = Cifar10()(tmp_path)
    assert same(data.train, X, Y)
    assert same(data.test, X[:3], Y[:3])
    assert (data.name, data.classes[0], data.classes[9], data.shape) == ("cifar10", "airplane", "truck", (3, 32, 32))


def test_cifar10_from_the_archive_which_is_never_unpacked(tmp_path: Path) -> None:
    members = {"../evil.bin": b"evil"} | {f"cifar-10-batches-bin/{name}": content for name, content in TEN.items()}
    (tmp_path / "root").mkdir()
    tar_gz(tmp_path / "root" / "cifar-10-binary.tar.gz", members)
    assert same(Cifar10()(tmp_path / "root").train, X, Y)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["cifar-10-binary.tar.gz", "root"]


def test_cifar100_has_the_coarse_label_first(tmp_path: Path) -> None:
    assert (len(FINE), len(COARSE)) == (100, 20)
    fine = np.arange(100, dtype=np.uint8)
    coarse = fine // 5
    x = pixels(100, 3, 32, 32)
    files = {"train.bin": records(x, coarse, fine), "test.bin": records(x[:4], coarse[:4], fine[:4])}
    write(tmp_path / "cifar100", files)
    assert same(Cifar100()(tmp_path).train, x, fine)
    groups = Cifar100(coarse=True)(tmp_path)
    assert same(groups.train, x, coarse)
    assert groups.classes == COARSE


def test_a_broken_record_is_named(tmp_path: Path) -> None:
    write(tmp_path, TEN | {"data_batch_4.bin": TEN["data_batch_4.bin"][:-1]})
    with pytest.raises(DataError, match=r"data_batch_4\.bin: expected records of 3073 bytes, got 6145 bytes"):
        Cifar10()(tmp_path)


def test_a_wrong_label_is_named(tmp_path: Path) -> None:
    write(tmp_path, TEN | {"test_batch.bin": records(X[:2], np.array([3, 11], np.uint8))})
    with pytest.raises(DataError, match=r"test_batch\.bin: expected labels in 0\.\.9, got 11 at index 1"):
        Cifar10()(tmp_path)


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-binary.tar.gz"
    tar_gz(path, {f"cifar-10-batches-bin/{name}": content for name, content in BATCHES.items()})
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz: cannot be read: .*test_batch"):
        Cifar10()(tmp_path)
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz: cannot be read"):
        Cifar10()(tmp_path)


def test_missing_files_say_how_to_get_them(tmp_path: Path) -> None:
    for source, name in ((Cifar10(), "cifar10"), (Cifar100(), "cifar100")):
        with pytest.raises(DataError, match=f"^{name}: found neither .* get it with: holdfast data fetch {name}$"):
            source(tmp_path)


def test_an_archive_of_arrays_stands_for_the_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar10.npz", x_train=X.transpose(0, 2, 3, 1), y_train=Y, x_test=X[:1], y_test=Y[:1])
    assert same(Cifar10()(tmp_path).train, X, Y)
