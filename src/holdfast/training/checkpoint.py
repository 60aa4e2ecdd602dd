"""What training leaves behind: weights for everybody, and a state from which it goes on as if never stopped."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast import files
from holdfast.errors import CheckpointError, TrainingError
from holdfast.models import write_weights
from holdfast.recipe import Recipe
from holdfast.runs import Bases, Run, Splits, weights_metadata

KEYS = {"model", "optimizer", "mean", "objective", "judge", "step", "finished", "sums", "seconds"}
"""What a state holds."""


def save_weights(
    run: Run,
    label: str,
    recipe: Recipe,
    splits: Splits,
    state: dict[str, Tensor],
    epoch: int,
    bases: Bases | None = None,
) -> None:
    """Write `best` or `last` weights with recipe, hashes and the bases of a composite."""
    bad = [name for name, tensor in state.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if bad:
        raise TrainingError(f"epoch {epoch}: weights are not finite ({bad[0]}); earlier weights are kept in {run.path}")
    write_weights(run.weights(label), state, weights_metadata(recipe, splits, state, epoch, bases))


def save_state(path: Path, state: dict[str, Any]) -> None:
    """Write everything that resuming needs, in one file that appears whole or not at all."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    files.write_checked(path, buffer.getvalue())


def load_state(path: Path) -> dict[str, Any] | None:
    """The state written last, or None; loaded with `weights_only`, so no code in it can run."""
    if not path.exists():
        return None
    content = files.read_checked(path, error=CheckpointError, remedy="; start over with --fresh")
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file may raise anything on its way through the unpickler
        line = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise CheckpointError(
            f"{path}: expected training state written by holdfast ({line}); start over with --fresh"
        ) from error
    if not isinstance(state, dict) or not state.keys() >= KEYS:
        raise CheckpointError(f"{path}: expected training state written by holdfast; start over with --fresh")
    return state
