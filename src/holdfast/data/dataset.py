"""Labelled images in memory: a split, a data set of two splits, and how to cut them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.data.conversion import images, labels
from holdfast.errors import DataError
from holdfast.hierarchy import Hierarchy
from holdfast.rng import permutation

_CHUNK = 1024


@dataclass(frozen=True, eq=False)
class Split:
    """Labelled images; make one from foreign arrays with `checked`.

    Args:
        x: images (N, C, H, W), uint8 in 0..255 or float in [0, 1].
        y: labels (N,), int64.
        index: position of each example in its source's split, (N,), int64. It survives selection and shuffling, and
            keys the random streams and the rows of a ledger.
    """

    x: Tensor
    y: Tensor
    index: Tensor

    def __len__(self) -> int:
        return len(self.y)

    def select(self, rows: Tensor | Sequence[int] | slice) -> Split:
        """The examples in these rows, by position, mask or slice."""
        rows = rows if isinstance(rows, Tensor | slice) else torch.as_tensor(rows, dtype=torch.int64)
        return Split(self.x[rows], self.y[rows], self.index[rows])

    def batch(self, rows: Tensor | Sequence[int] | slice) -> tuple[Tensor, Tensor]:
        """Images of these rows as float32 in [0, 1], and their labels."""
        part = self.select(rows)
        x = part.x.to(torch.float32)
        return (x / 255 if part.x.dtype == torch.uint8 else x), part.y


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training split, if there is one, and a test split with the same classes and image shape.

    Args:
        name: short name for reports.
        classes: name of each class; its position is its label.
        train: what to fit, or None for a data set that is only for tests.
        test: what to measure on.
        hierarchy: groups of the classes, and what mistakes cost; None for none. Data with another hierarchy are other
            data, so that it is a part of the fingerprint.
    """

    name: str
    classes: tuple[str, ...]
    train: Split | None
    test: Split
    hierarchy: Hierarchy | None = None

    def __post_init__(self) -> None:
        if self.train is not None and self.train.x.shape[1:] != self.test.x.shape[1:]:
            got = tuple(self.test.x.shape[1:])
            raise DataError(f"{self.name}: expected test images of shape {tuple(self.train.x.shape[1:])}, got {got}")
        if self.hierarchy is not None and self.hierarchy.classes != self.classes:
            raise DataError(f"{self.name}: expected a hierarchy of its {len(self.classes)} classes, got one of others")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        channels, height, width = self.test.x.shape[1:]
        return channels, height, width

    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of images, labels, class names and hierarchy; computed once."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.classes).encode())
        for split in (self.train, self.test):
            for values in () if split is None else (split.x, split.y):
                digest.update(f"|{values.dtype}{tuple(values.shape)}".encode())
                digest.update(values.contiguous().numpy().data)
            digest.update(b"|")
        if self.hierarchy is not None:
            digest.update(self.hierarchy.digest.encode())
        return digest.hexdigest()


class Source(Protocol):
    """The source of a data set: a frozen dataclass whose fields name the files and how to read them."""

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read it; `root` is the directory with the user's data sets, None means `data_root()`."""
        ...


def checked(
    x: Tensor | NDArray[Any],
    y: Tensor | NDArray[Any],
    classes: Sequence[str],
    where: str | tuple[str, str],
    *,
    complete: bool = False,
) -> Split:
    """Check arrays from outside, and make a split of them.

    Args:
        x: images (N, C, H, W) or grey ones (N, H, W); uint8, or float in [0, 1].
        y: integer labels (N,).
        classes: name of each class.
        where: file or array for the messages, or a pair of them for `x` and `y`.
        complete: whether each class needs an example, as in a training split.

    Raises:
        DataError: in one line that says what was expected, what came, and where.
    """
    where_x, where_y = (where, where) if isinstance(where, str) else where
    checked_x, checked_y = images(x, where_x), labels(y, len(classes), where_y)
    if len(checked_x) != len(checked_y):
        raise DataError(f"{where_y}: expected one label for each of {len(checked_x)} images, got {len(checked_y)}")
    if complete:
        require_every_class(checked_y, classes, where_y)
    return Split(checked_x, checked_y, torch.arange(len(checked_y)))


def require_every_class(y: Tensor, classes: Sequence[str], where: str) -> None:
    """Refuse labels among which a class is missing.

    Raises:
        DataError: naming the first.
    """
    empty = (torch.bincount(y, minlength=len(classes)) == 0).nonzero()
    if len(empty):
        label = int(empty[0])
        raise DataError(f"{where}: expected examples of every class, got none of class {label} '{classes[label]}'")


def split_validation(split: Split, share: float, seed: int) -> tuple[Split, Split]:
    """Cut a share off, class by class, as (the rest, the share); both keep the order of their indices.

    The second part has `round(share * N)` examples and of each class its share, rounded up or down.

    Raises:
        DataError: when `share` is not between 0 and 1, or would leave a part empty or take a whole class.
    """
    if not 0 < share < 1:
        raise DataError(f"validation share: expected a number between 0 and 1, got {share}")
    counts = torch.bincount(split.y)
    exact = counts.to(torch.float64) * share
    taken = exact.floor().to(torch.int64)
    short = round(share * len(split)) - int(taken.sum())
    taken[(exact - taken).argsort(descending=True, stable=True)[:short]] += 1
    whole = ((taken == counts) & (counts > 0)).nonzero()
    if int(taken.sum()) == 0:
        raise DataError(f"validation share: expected at least one of {len(split)} examples, {share} takes none")
    if len(whole):
        label = int(whole[0])
        raise DataError(f"validation share: {share} takes all {counts[label]} examples of class {label}")
    chosen = _rank_in_class(split.y, seed, "validation") < taken[split.y]
    return _in_index_order(split.select(~chosen)), _in_index_order(split.select(chosen))


def subset(split: Split, n: int, seed: int) -> Split:
    """A random choice of `n` examples, spread evenly over the classes where sizes allow, in the order of their indices.

    A smaller subset of the same seed is part of a larger one.

    Raises:
        DataError: when `n` is not in 1 .. N.
    """
    if not 1 <= n <= len(split):
        raise DataError(f"subset: expected between 1 and {len(split)} examples, got {n}")
    count = int(split.y.max()) + 1
    turn = permutation(count, seed, "subset classes")[split.y]
    order = (_rank_in_class(split.y, seed, "subset") * count + turn).argsort()
    return _in_index_order(split.select(order[:n]))


def first(split: Split, n: int) -> Split:
    """The `n` examples of the lowest indices: the first of their source, as published protocols take them.

    Raises:
        DataError: when `n` is not in 1 .. N.
    """
    if not 1 <= n <= len(split):
        raise DataError(f"first: expected between 1 and {len(split)} examples, got {n}")
    return split.select(split.index.argsort(stable=True)[:n])


def channel_statistics(split: Split) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel over all pixels of images in [0, 1], in float64."""
    pixels = len(split) * split.x.shape[2] * split.x.shape[3]
    mean = _sums(split, torch.zeros(split.x.shape[1], dtype=torch.float64), 1) / pixels
    variance = _sums(split, mean, 2) / pixels
    return tuple(mean.tolist()), tuple(variance.sqrt().tolist())


def _sums(split: Split, centre: Tensor, power: int) -> Tensor:
    """Sum of (pixel - centre)**power per channel, some images at a time to spare memory."""
    total = torch.zeros_like(centre)
    for start in range(0, len(split), _CHUNK):
        x = split.batch(slice(start, start + _CHUNK))[0].to(torch.float64)
        total += (x - centre[:, None, None]).pow_(power).sum((0, 2, 3))
    return total


def _rank_in_class(y: Tensor, seed: int, purpose: str) -> Tensor:
    """Place of each example in a random order of its class, 0, 1, 2, ...; (N,)."""
    shuffled = permutation(len(y), seed, purpose)
    order = shuffled[y[shuffled].argsort(stable=True)]  # class by class, in random order within each
    counts = torch.bincount(y)
    starts = (counts.cumsum(0) - counts)[y[order]]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(y)) - starts
    return rank


def _in_index_order(split: Split) -> Split:
    return split.select(split.index.argsort(stable=True))
