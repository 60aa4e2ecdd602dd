"""IDX files as MNIST and EMNIST publish them."""

from __future__ import annotations

import gzip
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast.data import DATASETS, Emnist, Idx
from holdfast.data.emnist import CLASSES
from holdfast.data.idx import parse_idx
from holdfast.errors import DataError
from tests.data.layouts import idx, pixels, same, write_idx

X, Y = pixels(12, 5, 4), np.array([*range(10), 3, 3], np.uint8)
T, U = pixels(3, 5, 4, seed=1), np.array([9, 0, 9], np.uint8)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist"])
@pytest.mark.parametrize("inside", [False, True])
def test_reads_the_official_files(tmp_path: Path, name: str, packed: bool, inside: bool) -> None:
    place = tmp_path / name if inside else tmp_path
    write_idx(place, "train", X, Y, packed)
    write_idx(place, "t10k", T, U, packed)
    source = DATASETS[name]
    assert isinstance(source, Idx)
    data = source(tmp_path)
    assert same(data.train, X[:, None], Y)
    assert same(data.test, T[:, None], U)
    assert data.name == name
    assert len(data.classes) == 10


def test_an_archive_stands_for_the_files_and_a_package_for_both(tmp_path: Path) -> None:
    source = Idx(name="mnist", classes=tuple("0123456789"), elsewhere=(str(tmp_path / "system"),))
    write_idx(tmp_path / "system", "train", X, Y, True)
    write_idx(tmp_path / "system", "t10k", T, U, True)
    assert source.find(tmp_path / "root") == tmp_path / "system"
    (tmp_path / "root").mkdir()
    np.savez(tmp_path / "root" / "mnist.npz", x_train=X[::-1], y_train=Y[::-1], x_test=T, y_test=U)
    data = source(tmp_path / "root")
    assert same(data.train, X[::-1, None], Y[::-1])
    assert data.classes == source.classes


def test_debians_fashion_mnist_is_looked_for() -> None:
    source = DATASETS["fashion_mnist"]
    assert isinstance(source, Idx)
    assert source.elsewhere == ("/usr/share/datasets/fashion-mnist",)
    assert source.classes[9] == "Ankle boot"


def test_missing_files_say_where_and_how_to_get_them(tmp_path: Path) -> None:
    write_idx(tmp_path / "kmnist", "train", X, Y, True)
    source = DATASETS["kmnist"]
    assert isinstance(source, Idx)
    with pytest.raises(DataError, match=r"^kmnist: found neither .* in .*kmnist, .*; get it with: .* fetch kmnist$"):
        source(tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (idx(X)[:-1], "expected 240 bytes for shape .*, got 239"),
        (idx(X) + b"0", "expected 240 bytes for shape .*, got 241"),
        (idx(Y), "expected an IDX file that starts 00 00 08 03, got 00 00 08 01"),
        (b"<html>", "expected an IDX file"),
        (idx(X)[:9], "expected an IDX file"),
        (b"", "expected an IDX file"),
    ],
)
def test_a_damaged_file_is_named(data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"^some file: {message}"):
        parse_idx(data, 3, "some file")


def test_a_broken_gzip_is_named(tmp_path: Path) -> None:
    source = DATASETS["mnist"]
    assert isinstance(source, Idx)
    write_idx(tmp_path, "train", X, Y, True)
    write_idx(tmp_path, "t10k", T, U, True)
    path = tmp_path / "t10k-labels-idx1-ubyte.gz"
    for content in (path.read_bytes()[:-9], b"plain"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte\.gz: expected an IDX file compressed by gzip"):
            source(tmp_path)


def test_a_wrong_label_is_named_with_its_file_and_index(tmp_path: Path) -> None:
    source = DATASETS["mnist"]
    assert isinstance(source, Idx)
    write_idx(tmp_path, "train", X, Y, False)
    write_idx(tmp_path, "t10k", T, np.array([1, 10, 1], np.uint8), False)
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte: expected labels in 0\.\.9, got 10 at index 1"):
        source(tmp_path)


def test_the_six_ways_of_emnist_have_their_classes() -> None:
    # Table II of arXiv:1702.05373: 62, 47, 47, 26, 10 and 10 classes.
    sizes = {name: len(classes) for name, classes in CLASSES.items()}
    assert sizes == {"byclass": 62, "bymerge": 47, "balanced": 47, "letters": 26, "digits": 10, "mnist": 10}
    assert CLASSES["balanced"][36] == "a"
    assert CLASSES["balanced"][46] == "t"
    with pytest.raises(DataError, match=r"emnist\.split: unknown name 'letter'.*Did you mean 'letters'"):
        replace(Emnist(), split="letter")


@pytest.mark.parametrize("form", ["plain", "gz", "zip"])
@pytest.mark.parametrize("split", ["letters", "digits"])
def test_emnist_is_turned_upright_and_letters_count_from_nought(tmp_path: Path, split: str, form: str) -> None:
    count = len(CLASSES[split])
    labels = np.arange(count, dtype=np.uint8)
    x = pixels(count, 4, 4)
    place = tmp_path / "emnist"
    write_idx(place, f"emnist-{split}-train", x, labels + (split == "letters"), form != "plain")
    write_idx(place, f"emnist-{split}-test", x[:2], labels[:2] + (split == "letters"), form != "plain")
    if form == "zip":
        with zipfile.ZipFile(place / "gzip.zip", "w") as archive:
            for file in place.glob("*.gz"):
                archive.write(file, f"gzip/{file.name}")
                file.unlink()
    data = Emnist(split=split)(tmp_path)
    assert data.name == f"emnist_{split}"
    assert same(data.train, x.transpose(0, 2, 1)[:, None], labels)
    assert same(data.test, x[:2].transpose(0, 2, 1)[:, None], labels[:2])


def test_an_emnist_archive_without_the_split_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
        archive.writestr("gzip/other.gz", gzip.compress(b""))
    with pytest.raises(
        DataError, match=r"gzip\.zip: gzip/emnist-mnist-train-images-idx3-ubyte\.gz: expected an IDX file"
    ):
        Emnist(split="mnist")(tmp_path)
    (tmp_path / "gzip.zip").unlink()
    with pytest.raises(DataError, match=r"^emnist: found neither gzip\.zip.*emnist_mnist\.npz.*data fetch emnist$"):
        Emnist(split="mnist")(tmp_path)
