r"""Waveforms in one `.npz` file, as inputs in [0, 1] of shape (N, 1, 1, L).

A waveform :math:`w` in [-1, 1] becomes :math:`x = (w + 1) / 2`: silence is one half, and what is true of images in
[0, 1] (the box, clipping, certificates) is true of sound. A budget :math:`\epsilon` for :math:`w`, in any norm, is
:math:`\epsilon / 2` for :math:`x`, and noise of variance :math:`\sigma^2` has :math:`\sigma^2 / 4`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from holdfast.budget import require_budget
from holdfast.data.dataset import Dataset, Split, checked, require_every_class
from holdfast.data.npz import Arrays, class_names, load_arrays, parts_of
from holdfast.data.roots import existing
from holdfast.errors import DataError, unknown

WANTED = ("x_", "y_", "speaker", "class_names", "rate")
PER_VALUE = 12
"""Bytes of a number in memory while it is converted and checked."""


@dataclass(frozen=True, kw_only=True)
class Waveforms:
    """A NumPy archive with `x_test`, `y_test` and, unless it is only for tests, `x_train`, `y_train`.

    Waveforms are int16 (N, L); -32768 becomes 0, silence 0.5. Beside them there may be `class_names`, the `rate` in
    samples per second, and who speaks: numbers `speaker_train` and `speaker_test`, with names in `speakers`.

    Args:
        path: the file, in the current directory or in the data root.
        length: samples to bring all waveforms to: silence is added at the end, or the end is cut off; None takes them
            as they are.
        rate: samples per second that the file must state; None takes any.
        test_speakers: names (without names, numbers) of those to test on, while all others train; none given keeps
            the file's own split.
    """

    path: str
    length: int | None = None
    rate: int | None = None
    test_speakers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_counts("waveforms", length=self.length, rate=self.rate)

    def find(self, root: Path | None = None) -> Path:
        """Where the file is."""
        return existing(self.path, root)

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the file."""
        path = self.find(root)
        arrays = load_arrays(path, WANTED)
        parts = parts_of(arrays, path)
        _require_rate(arrays, self.rate, path)
        names = class_names(arrays, [arrays[f"y_{part}"] for part in parts], None, path)
        splits = {part: self._split(arrays, part, names, path) for part in parts}
        if not self.test_speakers:
            return Dataset(path.stem, names, splits.get("train"), splits["test"])
        whole = _joined([splits[part] for part in parts], path)
        speakers = [name for part in parts for name in _speakers(arrays, part, len(splits[part]), path)]
        return Dataset(path.stem, names, *by_speaker(whole, speakers, self.test_speakers, names, str(path)))

    def _split(self, arrays: Arrays, part: str, names: tuple[str, ...], path: Path) -> Split:
        where = f"{path}: x_{part}", f"{path}: y_{part}"
        stored = arrays[f"x_{part}"]
        if stored.ndim != 2 or stored.dtype.kind != "i" or stored.dtype.itemsize != 2:
            raise DataError(f"{where[0]}: expected int16 waveforms (N, L), got {stored.dtype} {stored.shape}")
        length = self.length or stored.shape[1]
        require_budget(PER_VALUE * len(stored) * length, where[0])
        x = in_unit_interval(of_length(stored, length) / np.float32(2**15))
        return checked(x[:, None, None], arrays[f"y_{part}"], names, where, complete=part == "train")


def in_unit_interval(waveforms: NDArray[Any]) -> NDArray[Any]:
    """Inputs in [0, 1] of waveforms in [-1, 1]."""
    return (waveforms + 1) / 2


def of_length(waveforms: NDArray[Any], length: int) -> NDArray[Any]:
    """The same (..., L), ended early or continued in silence."""
    missing = max(0, length - waveforms.shape[-1])
    return np.pad(waveforms[..., :length], [*[(0, 0)] * (waveforms.ndim - 1), (0, missing)])


def by_speaker(
    whole: Split, speakers: Sequence[str], test: Sequence[str], classes: Sequence[str], where: str
) -> tuple[Split, Split]:
    """What all other speakers say, and what these do; positions in `whole` are the indices of both.

    Raises:
        DataError: for speakers that nobody is, or where the others leave out a class.
    """
    for name in test:
        if name not in speakers:
            raise DataError(f"{where}: test_speakers: {unknown(name, sorted(set(speakers)))}")
    chosen = torch.tensor([name in set(test) for name in speakers])
    train = whole.select(~chosen)
    require_every_class(train.y, classes, f"{where}: without {', '.join(test)}")
    return train, whole.select(chosen)


def require_counts(who: str, **values: int | None) -> None:
    """Refuse numbers below one."""
    for name, value in values.items():
        if value is not None and value < 1:
            raise DataError(f"{who}.{name}: expected at least 1, got {value}")


def _joined(splits: Sequence[Split], path: Path) -> Split:
    if len({split.x.shape[3] for split in splits}) != 1:
        raise DataError(f"{path}: expected waveforms of one length to share out among speakers; give a length")
    x, y = torch.cat([split.x for split in splits]), torch.cat([split.y for split in splits])
    return Split(x, y, torch.arange(len(y)))


def _speakers(arrays: Arrays, part: str, count: int, path: Path) -> list[str]:
    """The name of who speaks in each waveform."""
    numbers, names = arrays.get(f"speaker_{part}"), arrays.get("speakers")
    if numbers is None or numbers.shape != (count,) or numbers.dtype.kind not in "iu":
        got = "none" if numbers is None else f"{numbers.dtype} {numbers.shape}"
        raise DataError(f"{path}: test_speakers needs {count} whole numbers in speaker_{part}, got {got}")
    if names is None:
        return [str(number) for number in numbers.tolist()]
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(f"{path}: speakers: expected a list of text, got {names.dtype} {names.shape}")
    if numbers.min() < 0 or numbers.max() >= len(names):
        raise DataError(f"{path}: speaker_{part}: expected numbers in 0..{len(names) - 1}, got {numbers.max()}")
    return [str(names[number]) for number in numbers.tolist()]


def _require_rate(arrays: Arrays, rate: int | None, path: Path) -> None:
    stated = arrays.get("rate")
    if rate is not None and (stated is None or stated.size != 1 or stated.reshape(-1)[0] != rate):
        got = "none" if stated is None else ", ".join(map(str, stated.reshape(-1)[:3].tolist()))
        raise DataError(f"{path}: expected {rate} samples per second, got {got}; resample it")
