"""A few images before and after a check, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.evaluation.batch import Row
from holdfast.results import write_atomically
from holdfast.types import Classifier


def keep_images(path: Path, model: Classifier, x: Tensor, z: Tensor, rows: Sequence[Row], **names: str) -> None:
    """Write images before and after, with what the ledger says of them."""
    with torch.no_grad():
        before = model(x).argmax(1)
    arrays: dict[str, Any] = {
        "x": x.float().cpu().numpy(), "z": z.float().cpu().numpy(), "before": before.cpu().numpy(),
        "example": [row["example"] for row in rows], "label": [row["label"] for row in rows],
        "after": [row["prediction"] for row in rows], "distance": [row["distance"] for row in rows],
        "norm": rows[0]["norm"], **names,
    }  # fmt: skip

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{k: np.asarray(array) for k, array in arrays.items()})

    write_atomically(path, write)
