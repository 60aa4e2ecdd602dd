"""The perturbed images of every example, for those who want to keep them: one file beside each part of a ledger."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast import files
from holdfast.arrays import read_array
from holdfast.errors import LedgerError
from holdfast.evaluation.gallery import floats
from holdfast.evaluation.subject import Subject
from holdfast.results.ledger import Ledger
from holdfast.results.summaries import unsettled


def write_points(path: Path, z: Tensor) -> None:
    """Write the images of one block, whole or not at all."""
    array = (z if z.dtype == torch.float64 else z.float()).detach().cpu().numpy()
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    files.write_checked(path, buffer.getvalue())


def read_points(path: Path, shape: Sequence[int] | None = None) -> np.ndarray[Any, Any]:
    """The images of one block; `shape` is that of an image, where it is known."""
    return floats(read_array(files.read_checked(path), str(path), error=LedgerError), str(path), shape)


def take_over(kept: Ledger, ledger: Ledger, subject: Subject) -> None:
    """Copy rows of these weights to the ledger of their run, unless it has as much."""
    for path in kept.parts():
        rows = kept.part(path.stem)
        if set(rows.select("weights", "weights_hash").iter_rows()) != {(subject.weights, subject.hash[:12])}:
            continue  # of weights that training has replaced since
        present = ledger.part(path.stem) if ledger.has(path.stem) else None
        if present is None or rows.select(unsettled().sum()).item() < present.select(unsettled().sum()).item():
            ledger.append(path.stem, rows)
