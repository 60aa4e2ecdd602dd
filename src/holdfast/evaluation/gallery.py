"""A few images before and after a check, for the report."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from holdfast import files
from holdfast.errors import LedgerError
from holdfast.evaluation.batch import Row


def read_images(path: Path) -> np.ndarray[Any, Any]:
    """The images after a check, as they were kept."""
    try:
        with np.load(io.BytesIO(files.read_checked(path)), allow_pickle=False) as arrays:
            z: np.ndarray[Any, Any] = arrays["z"]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise LedgerError(f"{path}: expected a gallery of holdfast ({error}); delete it and repeat") from None
    return z


def keep_images(path: Path, before: Tensor, x: Tensor, z: Tensor, rows: Sequence[Row], **names: str) -> None:
    """Write images before and after, with their predictions before and what the ledger says of them."""
    arrays: dict[str, Any] = {
        "x": x.float().cpu().numpy(), "z": z.float().cpu().numpy(), "before": before.cpu().numpy(),
        "example": [row["example"] for row in rows], "label": [row["label"] for row in rows],
        "after": [row["prediction"] for row in rows], "distance": [row["distance"] for row in rows],
        "norm": rows[0]["norm"], **names,
    }  # fmt: skip
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{k: np.asarray(array) for k, array in arrays.items()})
    files.write_checked(path, buffer.getvalue())
