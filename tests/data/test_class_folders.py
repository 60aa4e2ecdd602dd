"""Directories with a directory per class, whatever the files hold; images and recordings have their own tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from holdfast.data import Split
from holdfast.data.class_folders import ClassFolders, files_below
from holdfast.errors import DataError


def sizes(paths: Sequence[Path]) -> NDArray[np.uint8]:
    """An image of one pixel for each file: its length."""
    return np.array([len(path.read_bytes()) for path in paths], np.uint8).reshape(-1, 1, 1, 1)


def write(path: Path, length: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(length))


def test_a_cut_gets_every_example_with_its_file(tmp_path: Path) -> None:
    for number, name in enumerate(("b/2.x", "a/1.x", "a/deep/3.X", "a/4.y", "a/.5.x", ".c/6.x")):
        write(tmp_path / name, number + 1)
    seen: list[str] = []

    def cut(whole: Split, paths: Sequence[Path]) -> tuple[Split, Split]:
        seen.extend(path.name for path in paths)
        return whole, whole.select([0])

    data = ClassFolders(tmp_path, (".x",), "letter", sizes).read(cut)
    assert seen == ["1.x", "3.X", "2.x"]
    assert data.classes == ("a", "b")
    assert data.train is not None
    assert data.train.x.flatten().tolist() == [2, 3, 1]
    assert data.train.y.tolist() == [0, 0, 1]
    assert data.test.x.flatten().tolist() == [2]


def test_what_is_not_there_is_named_after_the_files(tmp_path: Path) -> None:
    folders = ClassFolders(tmp_path, (".x",), "letter", sizes)
    with pytest.raises(DataError, match="expected one directory of letters per class, got none"):
        folders.read(None)
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match="a: expected letters of class 'a', got none"):
        folders.read(None)


def test_links_that_lead_out_and_special_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "out.x", 1)
    write(tmp_path / "in/a/1.x", 1)
    (tmp_path / "in/a/2.x").symlink_to(tmp_path / "in/a/1.x")
    assert len(files_below(tmp_path / "in/a", tmp_path / "in", (".x",), "image")) == 2
    (tmp_path / "in/a/3.x").symlink_to(tmp_path / "out.x")
    with pytest.raises(DataError, match=r"3\.x: expected an image file, got a link that leads out of the directory"):
        files_below(tmp_path / "in/a", tmp_path / "in", (".x",), "image")
    (tmp_path / "in/a/3.x").unlink()
    (tmp_path / "in/a/4.x").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"4\.x: expected a letter file, got a special file; copy the letter there"):
        files_below(tmp_path / "in/a", tmp_path / "in", (".x",), "letter")
