"""The perturbed images of every example, for those who want to keep them: one file beside each part of a ledger."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast import files
from holdfast.arrays import read_array
from holdfast.errors import LedgerError
from holdfast.evaluation.gallery import floats


def write_points(path: Path, z: Tensor) -> None:
    """Write the images of one block, whole or not at all."""
    array = (z if z.dtype == torch.float64 else z.float()).detach().cpu().numpy()
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    files.write_checked(path, buffer.getvalue())


def read_points(path: Path) -> np.ndarray[Any, Any]:
    """The images of one block."""
    return floats(read_array(files.read_checked(path), str(path), error=LedgerError), str(path))
