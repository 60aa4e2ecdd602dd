"""SVHN's MATLAB files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from holdfast.data import Svhn
from holdfast.errors import DataError
from tests.data.layouts import pixels, same

X = pixels(11, 3, 32, 32)
Y = np.array([10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], np.uint8)


def write(place: Path, part: str, **arrays: Any) -> None:
    place.mkdir(parents=True, exist_ok=True)
    savemat(place / f"{part}_32x32.mat", {"X": X.transpose(2, 3, 1, 0), "y": Y[:, None]} | arrays, do_compression=True)


def test_reads_the_official_layout_and_labels_nought_0(tmp_path: Path) -> None:
    write(tmp_path / "svhn", "train")
    write(tmp_path / "svhn", "test", X=X[:2].transpose(2, 3, 1, 0), y=Y[:2, None])
    data = Svhn()(tmp_path)
    assert same(data.train, X, Y % 10)
    assert same(data.test, X[:2], np.array([0, 1]))
    assert data.classes == tuple("0123456789")


def test_bad_arrays_are_named(tmp_path: Path) -> None:
    write(tmp_path, "train")
    write(tmp_path, "test", y=Y[:, None] + 3)
    with pytest.raises(DataError, match=r"test_32x32\.mat: y: expected labels in 0\.\.9, got 13 at index 0"):
        Svhn()(tmp_path)
    write(tmp_path, "test", y=Y[:, None] / 2)
    with pytest.raises(DataError, match=r"test_32x32\.mat: expected X \(H, W, C, N\) and integers y"):
        Svhn()(tmp_path)
    savemat(tmp_path / "test_32x32.mat", {"y": Y})
    with pytest.raises(DataError, match=r"test_32x32\.mat: expected an array X"):
        Svhn()(tmp_path)


def test_damaged_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^svhn: found neither train_32x32\.mat .* fetch svhn$"):
        Svhn()(tmp_path)
    write(tmp_path, "train")
    write(tmp_path, "test")
    path = tmp_path / "test_32x32.mat"
    whole = path.read_bytes()
    for content in (b"", b"<html>", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"test_32x32\.mat: "):
            Svhn()(tmp_path)
