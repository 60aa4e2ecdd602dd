"""Checks of arrays before they become a split; every message says what was expected, what came, and where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.errors import DataError

CHANNELS = (1, 3, 4)
"""Numbers of channels that an image file may have; they decide which axis of a stored array is that of channels."""


_DTYPES = (np.uint8, np.float16, np.float32, np.float64)
_MOST_CLASSES = 100_000  # a larger label is no class number


def channels_first(array: NDArray[Any], where: str) -> NDArray[Any]:
    """Bring an array from a file to (N, C, H, W).

    (N, H, W) is grey and gets a channel axis. Of (N, a, b, c), `c` is the channel axis when `c` is 1, 3 or 4 and `a` is
    not, and `a` is when `a` is 1, 3 or 4 and `c` is not. Anything else is an error, not a guess.

    Raises:
        DataError: when the rule does not name one channel axis.
    """
    if array.ndim == 3:
        return array[:, None]
    if array.ndim != 4:
        raise DataError(f"{where}: expected images (N, H, W), (N, C, H, W) or (N, H, W, C), got shape {array.shape}")
    first, last = array.shape[1] in CHANNELS, array.shape[3] in CHANNELS
    if first == last:
        kind = "both could hold" if first else "neither holds"
        raise DataError(
            f"{where}: expected 1, 3 or 4 channels in axis 1 or in axis 3, got shape {array.shape}, where {kind} them"
        )
    return array if first else np.moveaxis(array, 3, 1)


def images(x: Tensor | NDArray[Any], where: str) -> Tensor:
    """Images (N, C, H, W) as a contiguous uint8 or float32 tensor; (N, H, W) gets a channel axis.

    Raises:
        DataError: for another shape or dtype, no image at all, or a float that is NaN or outside [0, 1].
    """
    if isinstance(x, np.ndarray):
        native = x.dtype.newbyteorder("=")
        if native not in _DTYPES:
            raise DataError(f"{where}: expected uint8 or float images, got {x.dtype}")
        x = torch.from_numpy(np.ascontiguousarray(x, native))
    values = x.detach().cpu()
    if values.dtype != torch.uint8 and not values.is_floating_point():
        raise DataError(f"{where}: expected uint8 or float images, got {_name(values)}")
    values = values[:, None] if values.ndim == 3 else values
    if values.ndim != 4 or 0 in values.shape:
        raise DataError(f"{where}: expected at least one image, (N, C, H, W), got shape {tuple(values.shape)}")
    if values.dtype == torch.uint8:
        return values.contiguous()
    outside = ~((values >= 0) & (values <= 1))
    if outside.any():
        at = outside.flatten(1).any(1).nonzero()[0].item()
        got = values[int(at)][outside[int(at)]][0].item()
        raise DataError(f"{where}: expected float images in [0, 1], got {got:g} at index {at}")
    return values.to(torch.float32).contiguous()


def labels(y: Tensor | NDArray[Any], count: int, where: str) -> Tensor:
    """Labels (N,) in 0 .. count-1 as int64.

    Raises:
        DataError: for another shape, labels that are not integers, or one out of range.
    """
    array = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
    if not np.issubdtype(array.dtype, np.integer):
        raise DataError(f"{where}: expected integer labels, got {array.dtype}")
    if array.ndim != 1:
        raise DataError(f"{where}: expected labels of shape (N,), got shape {array.shape}")
    outside = (array < 0) | (array >= count)
    if outside.any():
        at = int(outside.argmax())
        raise DataError(f"{where}: expected labels in 0..{count - 1}, got {array[at]} at index {at}")
    return torch.from_numpy(array.astype(np.int64))


def label_names(arrays: Sequence[NDArray[Any]], where: str) -> tuple[str, ...]:
    """Names for the classes of nameless labels: "0", "1", ... up to the highest that occurs.

    Raises:
        DataError: when a label is too high to be a class number.
    """
    highest = max((int(y.max()) for y in arrays if y.size and y.dtype.kind in "iu"), default=-1)
    if highest >= _MOST_CLASSES:
        raise DataError(f"{where}: expected labels below {_MOST_CLASSES}, got {highest}")
    return tuple(str(label) for label in range(highest + 1))


def _name(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")
