"""What training leaves behind: weights for everybody, and a state from which it goes on as if never stopped."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from holdfast import files
from holdfast.errors import CheckpointError, TrainingError
from holdfast.models.pytorch_file import require_small
from holdfast.models.weights import to_safetensors
from holdfast.recipe.schema import Recipe
from holdfast.runs.card import weights_metadata
from holdfast.runs.directory import Run
from holdfast.runs.networks import Bases
from holdfast.runs.splits import Splits
from holdfast.training.state import START_OVER, check_state

FLUSH_SECONDS = 1.0
"""Epochs that end within this time of the last write are written together: each write waits for the disk."""


def weights_content(
    recipe: Recipe, splits: Splits, state: dict[str, Tensor], epoch: int, bases: Bases | None = None, *, kept: str,
    given: bool = False, origins: Mapping[str, Any] | None = None,
) -> bytes:  # fmt: skip
    """A file of weights, with recipe, hashes, bases of a composite and origins; without recipe for a network `given`.

    Raises:
        TrainingError: if a weight is not finite.
    """
    bad = [name for name, tensor in state.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if bad:
        raise TrainingError(f"{recipe.name}: epoch {epoch}: expected finite weights, got others in {bad[0]}; {kept}")
    return to_safetensors(state, weights_metadata(None if given else recipe, splits, state, epoch, bases, origins))


def state_content(state: dict[str, Any]) -> bytes:
    """A file with everything that resuming needs."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


class TrainingFiles(dict[Path, bytes]):
    """Files of one run that wait to be written.

    Args:
        run: which; the file of its state makes the others count, and appears last.
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run, self._flushed = run, time.monotonic()

    def have(self, path: Path) -> bool:
        """Whether the file is there, or waits."""
        return path in self or path.exists()

    @property
    def kept(self) -> str:
        """Which weights are left when training fails, for people."""
        last = self.have(self._run.weights("last"))
        return f"the last good weights are in {self._run.path}" if last else "no weights were saved before"

    @property
    def seconds_since_flush(self) -> float:
        """How old the files on disk are."""
        return time.monotonic() - self._flushed

    def flush(self, *, at_once: bool = True) -> None:
        """Write them, or leave them for later unless it is time."""
        if not at_once and self.seconds_since_flush < FLUSH_SECONDS:
            return
        if self:
            files.write_together(dict(sorted(self.items(), key=lambda item: item[0] == self._run.state)))
            self.clear()
        self._flushed = time.monotonic()


def load_state(path: Path) -> dict[str, Any] | None:
    """The state written last, or None; loaded with `weights_only`, so no code in it can run."""
    if not path.exists():
        return None
    content = files.read_checked(path, error=CheckpointError, remedy=f"; {START_OVER}")
    try:
        require_small(content, str(path))
        state: Any = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    except Exception as error:  # a damaged file may raise anything on its way through the unpickler
        line = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise CheckpointError(f"{path}: expected training state written by holdfast ({line}); {START_OVER}") from error
    try:
        return check_state(state)
    except ValueError as error:
        raise CheckpointError(f"{path}: expected training state written by holdfast ({error}); {START_OVER}") from None
