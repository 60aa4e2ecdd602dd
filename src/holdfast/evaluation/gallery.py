"""A few images before and after a check, for the report."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from holdfast import files
from holdfast.arrays import read_archive
from holdfast.errors import LedgerError
from holdfast.evaluation.batch import Row


def read_images(path: Path, shape: Sequence[int] | None = None) -> np.ndarray[Any, Any]:
    """The images after a check, as they were kept; `shape` is that of an image, where it is known."""
    arrays = read_archive(files.read_checked(path), str(path), "z".__eq__, error=LedgerError)
    return floats(arrays.get("z"), f"{path}: z", shape)


def floats(array: np.ndarray[Any, Any] | None, what: str, shape: Sequence[int] | None = None) -> np.ndarray[Any, Any]:
    """An array of floats, as images after a check are.

    Raises:
        LedgerError: if it is another or none.
    """
    fits = shape is None or (array is not None and array.shape[1:] == tuple(shape))
    if array is None or array.dtype.kind != "f" or array.ndim != 4 or not fits:
        got = "none" if array is None else f"{array.dtype} {array.shape}"
        raise LedgerError(f"{what}: expected images (N, C, H, W) as floats, got {got}; delete the file and repeat")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def keep_images(path: Path, before: Tensor, x: Tensor, z: Tensor, rows: Sequence[Row], **names: str) -> None:
    """Write images before and after, with their predictions before and their rows of the ledger."""
    arrays: dict[str, Any] = {
        "x": x.float().cpu().numpy(), "z": z.float().cpu().numpy(), "before": before.cpu().numpy(),
        "example": [row["example"] for row in rows], "label": [row["label"] for row in rows],
        "after": [row["prediction"] for row in rows], "distance": [row["distance"] for row in rows],
        "norm": rows[0]["norm"], **names,
    }  # fmt: skip
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{k: np.asarray(array) for k, array in arrays.items()})
    files.write_checked(path, buffer.getvalue())
