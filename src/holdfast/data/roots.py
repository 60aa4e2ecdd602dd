"""Locations of data sets on disk, and the meaning of the text after `--data`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from holdfast.data.dataset import Source
from holdfast.errors import DataError, unknown


def data_root(explicit: str | Path | None = None) -> Path:
    """The directory with the user's data sets: the argument, or `HOLDFAST_DATA`, or the user's cache directory."""
    if explicit is not None:
        return Path(explicit).expanduser()
    if stated := os.environ.get("HOLDFAST_DATA"):
        return Path(stated).expanduser()
    return _cache() / "holdfast" / "data"


def _cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def existing(path: str, root: Path | None) -> Path:
    """The file or directory a source's `path` field names: in the current directory or, failing that, in the data root.

    Raises:
        DataError: when it is in neither.
    """
    places = (Path(path).expanduser(), data_root(root) / path)
    for place in places:
        if place.exists():
            return place
    raise DataError(f"{path}: not found, neither as {places[0].absolute()} nor as {places[1]}")


def locate(
    name: str,
    root: Path | None,
    complete: Callable[[Path], bool],
    wanted: str,
    *,
    packed: str | None = None,
    elsewhere: Sequence[str] = (),
) -> Path:
    """The directory with a named data set's own files, or its `.npz` file.

    Looks in the data set's directory of the root, in the root itself, then `elsewhere`.

    Args:
        name: the data set, its directory, and what to fetch.
        root: the data root, None for `data_root()`.
        complete: whether a directory has all the files.
        wanted: the files, for the message.
        packed: name of the archive that may replace the files, `NAME.npz` by default.
        elsewhere: further directories.

    Raises:
        DataError: when it is in none of them; the message names the places and how to fetch it.
    """
    packed = packed or f"{name}.npz"
    places = (data_root(root) / name, data_root(root), *map(Path, elsewhere))
    for place in places:
        if complete(place):
            return place
        if (place / packed).is_file():
            return place / packed
    looked = ", ".join(str(place) for place in places)
    raise DataError(f"{name}: found neither {wanted} nor {packed} in {looked}; get it with: holdfast data fetch {name}")


def resolve(text: str, root: Path | None = None, *, size: int | None = None, grey: bool = False) -> Source:
    """The source that `text` names.

    In this order: a registered name; an existing directory, read as an image folder; an existing `.npz` or `.npy` file,
    in the current directory or the root; a name for which the root has `NAME.npz`.

    Args:
        text: what the user typed.
        root: the data root.
        size: height and width to which images of a folder are resized.
        grey: read the images of a folder in one channel.

    Raises:
        DataError: when it is none of these, with the known names and the nearest; or not a folder, with size or grey.
    """
    from holdfast.data.folder import Folder

    source = _named(text, root)
    if isinstance(source, Folder):
        return replace(source, size=size, grey=grey)
    if size is not None or grey:
        raise DataError(f"{text}: expected an image folder beside size or grey; got {type(source).__name__.lower()}")
    return source


def _named(text: str, root: Path | None) -> Source:
    from holdfast.data.folder import Folder
    from holdfast.data.npy import Npy
    from holdfast.data.npz import Npz
    from holdfast.families import DATASETS

    if text in DATASETS:
        source: Source | type[Source] = DATASETS[text]
        if isinstance(source, type):
            raise DataError(f"{text}: expected a path; give the path itself instead of '{text}'")
        return source
    places = (Path(text).expanduser(), data_root(root) / text)
    if any(place.is_dir() for place in places):
        return Folder(path=text)
    if any(place.is_file() for place in places) and text.endswith((".npz", ".npy")):
        return Npz(path=text) if text.endswith(".npz") else Npy(path=text)
    packed = data_root(root) / f"{text}.npz"
    if packed.is_file():
        # Relative to the root, so that a recipe works elsewhere too, unless the current directory has such a file.
        return Npz(path=str(packed) if Path(packed.name).exists() else packed.name)
    stored = [file.stem for file in data_root(root).glob("*.npz")]
    raise DataError(f"data: {unknown(text, {*DATASETS, *stored})}")
