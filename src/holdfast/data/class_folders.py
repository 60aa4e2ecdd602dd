"""Directories of files, one directory per class, whatever is in the files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.dataset import Dataset, Split, checked
from holdfast.errors import DataError, unknown

TESTS = ("test", "val", "valid", "validation")
"""Directories that may hold the test split beside `train`; the first that exists does."""

HINT = "for IDX, CIFAR or MATLAB files give the data set's name, and the directory as data root"

Cut = Callable[[Split, Sequence[Path]], tuple[Split, Split]]
"""All examples and their files to a training split and a test split."""


@dataclass(frozen=True)
class ClassFolders:
    """Either `path/train/CLASS/...` and `path/test/CLASS/...` (or val, valid, validation), or `path/CLASS/...`.

    Args:
        path: the directory.
        suffixes: of the files to read; others are passed over.
        what: one such file, for messages, such as "image".
        stack: reads files to an array for `checked`.
    """

    path: Path
    suffixes: Sequence[str]
    what: str
    stack: Callable[[Sequence[Path]], NDArray[Any]]

    def read(self, cut: Cut | None) -> Dataset:
        """All files; without `train/`, `cut` makes the training split, and None makes all the test split.

        Raises:
            DataError: where there is nothing to read, or a directory of tests beside a cut.
        """
        name = self.path.resolve().name
        if (self.path / "train").is_dir() and _directories(self.path / "train"):  # not a class of that name
            return self._in_two(name, cut)
        classes = self._classes(self.path)
        whole, paths = self._split(self.path, classes, complete=True)
        if cut is None:
            return Dataset(name, classes, None, whole)
        return Dataset(name, classes, *cut(whole, paths))

    def _in_two(self, name: str, cut: Cut | None) -> Dataset:
        tests = [self.path / test for test in TESTS if (self.path / test).is_dir()]
        if not tests:
            raise DataError(f"{self.path}: expected a directory {', '.join(TESTS[:-1])} or {TESTS[-1]} beside train")
        if cut is not None:
            raise DataError(f"{self.path}: has its own test split {tests[0].name}, expected no holdout, got one")
        classes = self._classes(self.path / "train")
        for directory in _directories(tests[0]):
            if directory.name not in classes:
                raise DataError(f"{directory}: a class that train does not have: {unknown(directory.name, classes)}")
        train, _ = self._split(self.path / "train", classes, complete=True)
        test, _ = self._split(tests[0], classes)
        return Dataset(name, classes, train, test)

    def _split(self, path: Path, classes: Sequence[str], *, complete: bool = False) -> tuple[Split, list[Path]]:
        paths, labels = [], []
        for label, name in enumerate(classes):
            some = files_below(path / name, self.path, self.suffixes, self.what)
            if complete and not some:
                raise DataError(f"{path / name}: expected {self.what}s of class '{name}', got none")
            paths += some
            labels += [label] * len(some)
        if not paths:
            raise DataError(f"{path}: expected {self.what}s, got none")
        return checked(self.stack(paths), np.array(labels), classes, str(path)), paths

    def _classes(self, path: Path) -> tuple[str, ...]:
        names = tuple(directory.name for directory in _directories(path)) if path.is_dir() else ()
        if not names:
            raise DataError(f"{path}: expected one directory of {self.what}s per class, got none ({HINT})")
        return names


def files_below(path: Path, within: Path, suffixes: Sequence[str], what: str) -> list[Path]:
    """Files with certain endings below a directory, sorted; hidden ones are passed over.

    Args:
        path: the directory.
        within: the directory that links must not lead out of.
        suffixes: endings, in small letters.
        what: one such file, for messages.

    Raises:
        DataError: for one that is not a regular file in the directory `within`, such as a link that leads out of it.
    """
    chosen = sorted(
        file
        for file in (path.rglob("*") if path.is_dir() else ())
        if file.suffix.lower() in suffixes and not file.name.startswith(".") and not file.is_dir()
    )
    inside = within.resolve()
    for file in chosen:
        if not file.is_file() or not file.resolve().is_relative_to(inside):
            got = "a link that leads out of the directory" if file.is_file() else "a special file"
            article = "an" if what[0] in "aeiou" else "a"
            raise DataError(f"{file}: expected {article} {what} file, got {got}; copy the {what} there")
    return chosen


def _directories(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
