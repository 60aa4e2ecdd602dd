"""Data that is already in memory: tensors, any map-style data set of PyTorch, or batches of a loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import IterableDataset

from holdfast.data.conversion import label_names
from holdfast.data.dataset import Dataset, Split, checked
from holdfast.errors import DataError
from holdfast.hierarchy import Hierarchy


class MapDataset(Protocol):
    """A map-style data set: numbered pairs of image and label."""

    def __len__(self) -> int:
        """Number of examples."""
        ...

    def __getitem__(self, index: int, /) -> Any:
        """Image (C, H, W), or a PIL image, and integer label."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Memory:
    """Tensors, map-style data sets, or loaders, as a data set.

    Images are (N, C, H, W) or grey (N, H, W), uint8 or float in [0, 1]: a transform of the data set must not normalise,
    since holdfast's models do that themselves. Map-style data sets are read once, in order; of loaders, the batches of
    one pass, as they come.

    Args:
        test: pair of images and labels, a map-style data set, or a loader: anything that yields batches of both.
        train: the same to train on, or None.
        classes: name of each class; None takes the labels for names.
        name: name of the data set.
        hierarchy: groups of the classes, and what mistakes cost; None for none.
    """

    test: tuple[Tensor, Tensor] | MapDataset | Iterable[Any]
    train: tuple[Tensor, Tensor] | MapDataset | Iterable[Any] | None = None
    classes: Sequence[str] | None = None
    name: str = "memory"
    hierarchy: Hierarchy | None = None

    def __call__(self, root: Path | None = None) -> Dataset:
        """Check and convert; `root` is not used."""
        test = tensors_of(self.test, f"{self.name}: test")
        train = None if self.train is None else tensors_of(self.train, f"{self.name}: train")
        classes = self._names([y for _, y in (test, *((train,) if train else ()))])
        splits: list[Split | None] = [
            part and checked(*part, classes, f"{self.name}: {where}", complete=where == "train")
            for part, where in ((train, "train"), (test, "test"))
        ]
        assert splits[1] is not None
        return Dataset(self.name, classes, splits[0], splits[1], self.hierarchy)

    def _names(self, labels: list[Tensor]) -> tuple[str, ...]:
        if self.classes is not None:
            return tuple(self.classes)
        return label_names([y.detach().cpu().numpy() for y in labels], self.name)


@contextmanager
def advising_normalisation(remedy: str) -> Iterator[None]:
    """Add a remedy to the error about images outside [0, 1], most of which are normalised."""
    try:
        yield
    except DataError as error:
        if "in [0, 1]" in str(error):
            raise DataError(f"{error}; {remedy}") from None
        raise


def tensors_of(examples: tuple[Tensor, Tensor] | MapDataset | Iterable[Any], where: str) -> tuple[Tensor, Tensor]:
    """Images and labels as tensors, from any form that `Memory` takes; `where` is for messages."""
    if isinstance(examples, tuple):
        if len(examples) != 2 or not all(isinstance(part, Tensor) for part in examples):
            raise DataError(f"{where}: expected a pair of tensors, images and labels, or a map-style data set")
        return examples
    if isinstance(examples, IterableDataset):  # one example after the other
        return _items(list(examples), where)
    if not hasattr(examples, "__getitem__"):
        return _batches(examples, where)
    return _items(examples, where)  # type: ignore[arg-type]


def _batches(loader: Iterable[Any], where: str) -> tuple[Tensor, Tensor]:
    """All batches of a loader, one after the other."""
    parts: list[tuple[Tensor, Tensor]] = []
    for number, batch in enumerate(loader):
        pair = tuple(batch) if isinstance(batch, list | tuple) else ()
        if len(pair) != 2 or not all(isinstance(part, Tensor) for part in pair) or len(pair[0]) != len(pair[1]):
            got = f"{type(batch).__name__} of {len(pair)}" if pair else type(batch).__name__
            raise DataError(f"{where}: batch {number}: expected a tensor of images and one of labels, got {got}")
        parts.append(pair)
    if not parts:
        raise DataError(f"{where}: expected at least one batch, got none")
    return torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])


def _items(examples: MapDataset, where: str) -> tuple[Tensor, Tensor]:
    pixels: list[Tensor] = []
    labels: list[int] = []
    for index in range(len(examples)):
        x, y = _example(examples[index], f"{where}: index {index}")
        if pixels and x.shape != pixels[0].shape:
            shapes = tuple(pixels[0].shape), tuple(x.shape)
            raise DataError(f"{where}: expected images of shape {shapes[0]}, got {shapes[1]} at index {index}")
        pixels.append(x)
        labels.append(y)
    if not pixels:
        raise DataError(f"{where}: expected at least one example, got none")
    return torch.stack(pixels), torch.tensor(labels)


def _example(item: Any, where: str) -> tuple[Tensor, int]:
    try:
        x, y = item
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: expected an image and a label, got {type(item).__name__}") from error
    if isinstance(x, Image.Image):
        pixels = np.asarray(x)
        x = torch.tensor(pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1))
        x = x[None] if x.ndim == 2 else x
    if not isinstance(x, Tensor):
        raise DataError(f"{where}: expected a tensor or a PIL image, got {type(x).__name__}")
    label = y.item() if isinstance(y, Tensor | np.generic) else y
    if isinstance(label, bool) or not isinstance(label, int):
        raise DataError(f"{where}: expected an integer label, got {label!r}")
    return x, label
