"""Archives of arrays, read and written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.data import Dataset, Memory, Npz, checked, write_npz
from holdfast.errors import DataError


def arrays(**changes: Any) -> dict[str, Any]:
    """A good archive's arrays, some of them changed or, by None, left out."""
    rng = np.random.default_rng(0)
    good = {
        "x_train": rng.integers(0, 256, (4, 6, 5, 3), np.uint8),
        "y_train": np.array([0, 1, 1, 0], np.uint8),
        "x_test": rng.integers(0, 256, (2, 6, 5, 3), np.uint8),
        "y_test": np.array([1, 1], np.uint8),
        "class_names": np.array(["cat", "dog"]),
    }
    return {key: value for key, value in (good | changes).items() if value is not None}


def test_reads_what_numpy_wrote(tmp_path: Path) -> None:
    content = arrays()
    np.savez(tmp_path / "pets.npz", **content)
    pets = Npz(path=str(tmp_path / "pets.npz"))()
    assert (pets.name, pets.classes, pets.shape) == ("pets", ("cat", "dog"), (3, 6, 5))
    assert pets.train is not None
    assert np.array_equal(pets.train.x.numpy(), content["x_train"].transpose(0, 3, 1, 2))
    assert pets.test.y.tolist() == [1, 1]
    assert pets.train.index.tolist() == [0, 1, 2, 3]


def test_test_arrays_alone_are_enough_and_labels_name_nameless_classes(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays(x_train=None, y_train=None, class_names=None))
    only = Npz(path="a.npz")(tmp_path)
    assert only.train is None
    assert only.classes == ("0", "1")


def test_coarse_labels_come_with_their_names(tmp_path: Path) -> None:
    coarse = {"y_train_coarse": np.array([0, 1, 2, 0]), "y_test_coarse": np.array([2, 2])}
    np.savez(tmp_path / "a.npz", **arrays(coarse_names=np.array(["x", "y", "z"]), **coarse))
    data = Npz(path="a.npz", coarse=True)(tmp_path)
    assert data.classes == ("x", "y", "z")
    assert data.test.y.tolist() == [2, 2]
    np.savez(tmp_path / "b.npz", **arrays())
    with pytest.raises(DataError, match=r"b\.npz: expected an array y_test_coarse, got "):
        Npz(path="b.npz", coarse=True)(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_test": None}, "expected an array x_test, got "),
        ({"y_train": None}, "expected an array y_train too, got "),
        ({"x_train": None}, "expected an array x_train too, got "),
        ({"y_test": np.array([1, 2])}, r"y_test: expected labels in 0\.\.1, got 2 at index 1"),
        ({"y_train": np.array([1, 1, 1, 1])}, "y_train: expected examples of every class, got none of class 0 'cat'"),
        ({"y_train": np.array([0, 1, 1])}, "y_train: expected one label for each of 4 images, got 3"),
        ({"x_test": np.full((2, 6, 5), 7.0)}, r"x_test: expected float images in \[0, 1\], got 7 at index 0"),
        ({"x_test": np.zeros((2, 3, 5, 3))}, "x_test: expected 1, 3 or 4 channels in axis 1 or in axis 3"),
        ({"x_test": np.zeros((2, 6, 6, 3))}, r"expected test images of shape \(3, 6, 5\), got \(3, 6, 6\)"),
        ({"class_names": np.array([1, 2])}, "class_names: expected a list of text"),
    ],
)
def test_a_bad_array_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays(**changes))
    with pytest.raises(DataError, match=f"bad.*: {message}") as caught:
        Npz(path="bad.npz")(tmp_path)
    assert "\n" not in str(caught.value)


class Bomb:
    """Does harm when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("key", ["x_test", "y_train", "class_names"])
def test_pickled_objects_are_never_loaded(tmp_path: Path, key: str) -> None:
    np.savez(tmp_path / "evil.npz", **arrays(**{key: np.array([Bomb(tmp_path / "harm")], dtype=object)}))
    with pytest.raises(DataError, match=rf"evil\.npz: {key}: expected an array; got pickled objects"):
        Npz(path="evil.npz")(tmp_path)
    assert not (tmp_path / "harm").exists()


def test_damaged_files_are_named(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "whole.npz", **arrays())
    content = bytearray((tmp_path / "whole.npz").read_bytes())
    (tmp_path / "short.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.npz").write_text("hello")
    content[100:160] = bytes(60)
    (tmp_path / "flipped.npz").write_bytes(content)
    for name in ("short", "text", "flipped"):
        with pytest.raises(DataError, match=rf"{name}\.npz: "):
            Npz(path=f"{name}.npz")(tmp_path)


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^nope\.npz: not found, neither as .*nope\.npz nor as .*nope\.npz$"):
        Npz(path="nope.npz")(tmp_path)


@pytest.mark.parametrize("shape", [(3, 6, 5), (1, 6, 5), (3, 6, 3), (3, 4, 5), (1, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_what_is_written_reads_back_equal(tmp_path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randint(0, 256, (5, *shape), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    x = x if dtype == torch.uint8 else x / 255
    data = Memory(train=(x, torch.tensor([0, 1, 0, 1, 1])), test=(x[:2], torch.tensor([0, 0])), classes=("ä", "b c"))()
    write_npz(data, tmp_path / "out.npz")
    assert Npz(path="out.npz")(tmp_path).fingerprint() == data.fingerprint()
    assert [file.name for file in tmp_path.iterdir()] == ["out.npz"]


def test_writing_refuses_what_could_not_be_read_back(tmp_path: Path) -> None:
    split = checked(torch.zeros(2, 3, 4, 4), torch.tensor([0, 0]), ("a",), "x")
    data = Dataset("tiny", ("a",), None, split)
    with pytest.raises(DataError, match="tiny: test: expected 1, 3 or 4 channels"):
        write_npz(data, tmp_path / "a.npz")
    with pytest.raises(DataError, match=r"ends in \.npz"):
        write_npz(data, tmp_path / "a.zip")
    (tmp_path / "there.npz").touch()
    with pytest.raises(DataError, match="exists already"):
        write_npz(data, tmp_path / "there.npz")
    good = Dataset("good", ("a",), None, checked(torch.zeros(2, 1, 4, 4), torch.tensor([0, 0]), ("a",), "x"))
    with pytest.raises(DataError, match="cannot be written"):
        write_npz(good, tmp_path / "there.npz" / "a.npz")
