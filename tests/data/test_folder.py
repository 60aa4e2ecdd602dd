"""Directories of image files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.data import Folder
from holdfast.data.folder import crop
from holdfast.errors import DataError
from tests.data.layouts import pixels


def save(path: Path, height: int = 6, width: int = 5, seed: int = 0) -> np.ndarray:
    """Write a random image without loss and return its pixels (C, H, W)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    array = pixels(height, width, 3, seed=seed)
    Image.fromarray(array).save(path)
    return array.transpose(2, 0, 1)


def test_train_and_test_directories(tmp_path: Path) -> None:
    for test in ("validation", "valid", "val", "test"):
        cat = save(tmp_path / "train" / "cat" / "1.png", seed=1)
        dog = save(tmp_path / "train" / "dog" / "deep" / "2.PNG", seed=2)
        other = save(tmp_path / test / "dog" / "3.png", seed=len(test))
        (tmp_path / "train" / "dog" / "notes.txt").write_text("no image")
        (tmp_path / "train" / "dog" / ".hidden.png").write_text("no image")
        data = Folder(path=str(tmp_path))()
        assert data.train is not None
        assert (data.name, data.classes, data.shape) == (tmp_path.name, ("cat", "dog"), (3, 6, 5))
        assert np.array_equal(data.train.x.numpy(), [cat, dog])
        assert data.train.y.tolist() == [0, 1]
        assert np.array_equal(data.test.x.numpy(), [other])
        assert data.test.y.tolist() == [1]


def test_a_flat_directory_is_a_test_split_unless_told_to_hold_out(tmp_path: Path) -> None:
    for name, count in (("a", 8), ("train", 4)):
        for i in range(count):
            save(tmp_path / name / f"{i}.png", seed=i)
    whole = Folder(path=str(tmp_path))()
    assert whole.train is None
    assert len(whole.test) == 12
    cut = Folder(path=str(tmp_path), holdout=0.25)()
    assert cut.train is not None
    assert cut.classes == ("a", "train")
    assert np.bincount(cut.test.y).tolist() == [2, 1]
    assert np.bincount(cut.train.y).tolist() == [6, 3]
    other = Folder(path=str(tmp_path), holdout=0.25, seed=1)()
    assert other.fingerprint() != cut.fingerprint() == Folder(path=str(tmp_path), holdout=0.25)().fingerprint()


def test_mixed_sizes_need_a_size(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png", 6, 5)
    save(tmp_path / "b" / "2.png", 6, 7)
    with pytest.raises(DataError, match=r"2\.png: expected 5x6 as .*1\.png, got 7x6; give a size to resize$"):
        Folder(path=str(tmp_path))()
    assert Folder(path=str(tmp_path), size=4)().shape == (3, 4, 4)
    assert Folder(path=str(tmp_path), size=4, resize="stretch", grey=True)().shape == (1, 4, 4)


def test_a_crop_is_the_centre_and_a_stretch_the_whole(tmp_path: Path) -> None:
    array = np.zeros((8, 16), np.uint8)
    array[:, :4], array[:, 12:] = 100, 200  # both ends, which a centred crop leaves out
    (tmp_path / "a").mkdir()
    Image.fromarray(array).save(tmp_path / "a" / "1.png")
    cropped = Folder(path=str(tmp_path), size=8, grey=True)().test.x
    assert (cropped == 0).all()
    stretched = Folder(path=str(tmp_path), size=8, grey=True, resize="stretch")().test.x[0, 0]
    assert stretched[:, 0].tolist() == [100] * 8
    assert stretched[:, -1].tolist() == [200] * 8


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (5, 5), (100, 3), (3, 100)])
@pytest.mark.parametrize("size", [1, 5, 32])
def test_a_crop_has_the_size_asked_for(shape: tuple[int, int], size: int) -> None:
    assert crop(Image.fromarray(pixels(*shape)), size).size == (size, size)


def test_grey_files_become_colour_and_back(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    grey = pixels(4, 5)
    Image.fromarray(grey).save(tmp_path / "a" / "1.png")
    colour = Folder(path=str(tmp_path))().test.x[0].numpy()
    assert np.array_equal(colour, np.stack([grey] * 3))
    assert np.array_equal(Folder(path=str(tmp_path), grey=True)().test.x[0, 0].numpy(), grey)


def test_damaged_and_deep_images_are_named(tmp_path: Path) -> None:
    save(tmp_path / "a" / "1.png")
    path = tmp_path / "a" / "2.png"
    save(path)
    for content in (b"", b"no image", path.read_bytes()[:60]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"2\.png: expected an image, cannot be read"):
            Folder(path=str(tmp_path))()
    Image.fromarray(np.zeros((6, 5), np.uint16)).save(path)
    with pytest.raises(DataError, match=r"2\.png: expected at most 8 bits per channel, got mode I"):
        Folder(path=str(tmp_path))()


def test_empty_unknown_and_missing_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected one directory of images per class, got none"):
        Folder(path=str(tmp_path))()
    save(tmp_path / "train" / "cat" / "1.png")
    with pytest.raises(DataError, match="expected a directory test, val, valid or validation beside train"):
        Folder(path=str(tmp_path))()
    save(tmp_path / "test" / "cats" / "1.png")
    with pytest.raises(DataError, match=r"cats: a class that train does not have: .*Did you mean 'cat'"):
        Folder(path=str(tmp_path))()
    (tmp_path / "test" / "cats").rename(tmp_path / "test" / "cat")
    with pytest.raises(DataError, match="expected no holdout"):
        Folder(path=str(tmp_path), holdout=0.5)()
    (tmp_path / "train" / "dog").mkdir()
    with pytest.raises(DataError, match=r"dog: expected images of class 'dog', got none"):
        Folder(path=str(tmp_path))()
    with pytest.raises(DataError, match="not found"):
        Folder(path="nowhere")(tmp_path)


def test_unknown_ways_to_resize_are_refused() -> None:
    with pytest.raises(DataError, match=r"folder\.resize: unknown name 'strech'.*Did you mean 'stretch'"):
        Folder(path="x", resize="strech")
    with pytest.raises(DataError, match=r"folder\.size: expected at least 1, got 0"):
        Folder(path="x", size=0)
