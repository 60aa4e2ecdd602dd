"""Where data sets are looked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast.data import DATASETS, Digits, Folder, Npz, data_root, resolve
from holdfast.errors import DataError


def test_the_root_is_the_argument_then_the_environment_then_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "stated"))
    assert data_root(tmp_path) == tmp_path
    assert data_root() == tmp_path / "stated"
    monkeypatch.setenv("HOLDFAST_DATA", "~/here")
    assert data_root() == Path.home() / "here"
    monkeypatch.delenv("HOLDFAST_DATA")
    for platform, variable in (("linux", "XDG_CACHE_HOME"), ("win32", "LOCALAPPDATA")):
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert data_root() == tmp_path / variable / "holdfast" / "data"
        monkeypatch.delenv(variable)
        assert Path.home() in data_root().parents
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data_root() == Path.home() / "Library" / "Caches" / "holdfast" / "data"


def test_names_directories_and_archives_resolve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root, here = tmp_path / "root", tmp_path / "here"
    root.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    (root / "small.npz").touch()
    (root / "photos").mkdir()
    (here / "mine.npz").touch()
    assert resolve("digits", root) == Digits()
    assert resolve("photos", root) == Folder(path="photos")
    assert resolve(str(root / "photos"), None) == Folder(path=str(root / "photos"))
    assert resolve("small", root) == resolve("small.npz", root) == Npz(path="small.npz")
    assert resolve("mine.npz", root) == Npz(path="mine.npz")
    (here / "small.npz").touch()
    assert resolve("small", root) == Npz(path=str(root / "small.npz"))


def test_what_does_not_resolve_lists_names_and_suggests_one(tmp_path: Path) -> None:
    (tmp_path / "other.npz").touch()
    with pytest.raises(DataError, match=r"^data: unknown name 'minst'; known: .*, other, .* Did you mean 'mnist'\?$"):
        resolve("minst", tmp_path)
    with pytest.raises(DataError, match="expected a path; give the path itself"):
        resolve("npz", tmp_path)


def test_the_current_directory_comes_before_the_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "root").mkdir()
    for place, value in ((tmp_path, 1), (tmp_path / "root", 2)):
        np.savez(place / "a.npz", x_test=np.full((1, 5, 5), value, np.uint8), y_test=np.array([0]))
    assert int(Npz(path="a.npz")(tmp_path / "root").test.x.max()) == 1


@pytest.mark.skipif("HOLDFAST_DATA" not in os.environ, reason="HOLDFAST_DATA is not set")
@pytest.mark.parametrize(("name", "sizes"), [("mnist", (60000, 10000)), ("cifar10_small", (10000, 2000))])
def test_real_data_when_there_is_some(name: str, sizes: tuple[int, int]) -> None:
    try:
        data = resolve(name)()
    except DataError as error:
        pytest.skip(str(error))
    assert data.train is not None
    assert (len(data.train), len(data.test)) == sizes


def test_every_name_is_an_instance_or_a_class_that_needs_fields() -> None:
    for name, source in DATASETS.items():
        assert isinstance(source, type) == (name in ("folder", "npy", "npz", "selected", "wav_folder", "waveforms"))
