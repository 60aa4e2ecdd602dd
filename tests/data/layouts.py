"""Small data sets in the official binary layouts."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def idx(array: NDArray[np.uint8]) -> bytes:
    """An IDX file: magic number, sizes in big-endian order, values."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(place: Path, stem: str, x: NDArray[np.uint8], y: NDArray[np.uint8], packed: bool) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, array in ((f"{stem}-images-idx3-ubyte", x), (f"{stem}-labels-idx1-ubyte", y)):
        if packed:
            (place / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (place / name).write_bytes(idx(array))


def pixels(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    """Random bytes."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def records(x: NDArray[np.uint8], *labels: NDArray[np.uint8]) -> bytes:
    """CIFAR's records: label bytes, then the planes of an image."""
    return np.concatenate([*(label[:, None] for label in labels), x.reshape(len(x), -1)], axis=1).tobytes()


def tar_gz(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def same(split: Any, x: NDArray[np.uint8], y: NDArray[Any]) -> bool:
    """Whether a split has exactly these images and labels."""
    return bool(np.array_equal(split.x.numpy(), x) and np.array_equal(split.y.numpy(), y))
