"""Files of PyTorch: tensors and plain values only, never an arbitrary pickle."""

from __future__ import annotations

import io
import pickle
import re
import warnings
import zipfile
from pathlib import Path

import torch

from holdfast.budget import require_budget
from holdfast.errors import CheckpointError

STATE_DICT = 'save its weights alone, where its code is at hand: torch.save(model.state_dict(), "weights.pt")'
"""The remedy for files that hold more than weights."""


def from_torch(path: Path, data: bytes) -> object:
    """The content of a PyTorch file.

    Raises:
        CheckpointError: if it is damaged, too large, or holds anything but tensors and plain values.
    """
    try:
        require_small(data, str(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the causes of its warnings end in an error below
            return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except CheckpointError:
        raise
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"{path}: expected a state dict; got {_pickled(error)}; {STATE_DICT}") from error
    except RuntimeError as error:
        if "TorchScript" not in str(error):
            raise damaged(path, "a PyTorch weights file", error) from error
        raise CheckpointError(f"{path}: expected a state dict; got a TorchScript archive; {STATE_DICT}") from error
    except Exception as error:  # a damaged file may raise anything on its way through the unpickler
        raise damaged(path, "a PyTorch weights file", error) from error


def require_small(data: bytes, where: str) -> None:
    """Refuse a file of PyTorch whose members do not fit the budget, or are packed in a way that PyTorch does not use.

    Raises:
        CheckpointError: naming it.
        Exception: of many kinds, if it is damaged.
    """
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as members:
            require_budget(len(data) + sum(one.file_size for one in members.infolist()), where, error=CheckpointError)


def _pickled(error: pickle.UnpicklingError) -> str:
    """The objects in a file that are neither tensors nor plain values."""
    named = re.search(r"Unsupported (?:global: GLOBAL|class) ([\w.]+)", str(error))
    objects = f"objects ({named[1]})" if named else "another format or objects"
    return f"{objects}, as in a whole model that was pickled, that only unsafe unpickling would load"


def damaged(path: Path, expected: str, error: BaseException) -> CheckpointError:
    """The error that a damaged file ends in, in one line."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return CheckpointError(f"{path}: expected {expected}, got a damaged or truncated file or another format: {reason}")
