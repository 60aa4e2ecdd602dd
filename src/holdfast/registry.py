"""Choices by name: what a name stands for is imported when it is first used; installed packages may add names.

A package adds a name with an entry point in the group of the family, such as `holdfast.attacks`. Its metadata is read
to know the name; its code is imported when somebody uses it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from importlib import import_module, invalidate_caches
from importlib.metadata import distributions
from typing import Any, Generic, TypeVar, cast

from holdfast.errors import RecipeError

Entry = TypeVar("Entry")

RESERVED = "python"
"""The name that stands for third-party code by its import path in every family."""


@dataclass(frozen=True)
class Target:
    """What a name stands for, before it is imported.

    Args:
        path: `package.module:Name`.
        fields: with which the class is called; None to take the object as it is.
        package: that declares the name as an entry point; empty for holdfast.
    """

    path: str
    fields: Mapping[str, Any] | None = field(default=None, hash=False)
    package: str = ""

    @property
    def module(self) -> str:
        """The module to import."""
        return self.path.partition(":")[0]

    def load(self) -> Any:
        """Import it.

        Raises:
            RecipeError: if third-party code cannot be imported, or is not what a recipe can use.
        """
        if not self.package:
            entry = getattr(import_module(self.module), self.path.partition(":")[2])
            return entry if self.fields is None else entry(**self.fields)
        try:
            return require_usable(imported(self.path, installed_only=True), self.path)
        except RecipeError as error:
            raise RecipeError(f"entry point '{self.path}' of package {self.package}: {error}") from error


def instance(path: str, /, **fields: Any) -> Target:
    """An instance of a class, for recipes to change its fields."""
    return Target(path, fields)


class Registry(Mapping[str, Entry], Generic[Entry]):
    """The names of a family with what they stand for: classes, instances to change, or functions.

    Args:
        family: its name; installed packages add to it in the entry points `holdfast.<family>`.
        targets: our own names, with `package.module:Name` or an `instance`.
        including: registries whose names are names of this one, too.
    """

    def __init__(
        self, family: str, targets: Mapping[str, str | Target], *, including: Sequence[Registry[Any]] = ()
    ) -> None:
        self.family = family
        self._own = {name: Target(one) if isinstance(one, str) else one for name, one in targets.items()}
        self._including = including
        self._loaded: dict[str, Entry] = {}

    def targets(self, name: str) -> list[Target]:
        """Everything that has this name; more than one is a collision."""
        own = [self._own[name]] if name in self._own else []
        inherited = [target for one in self._including for target in one.targets(name)]
        return [*own, *inherited, *installed().get(f"holdfast.{self.family}", {}).get(name, ())]

    def package(self, name: str) -> str:
        """The package that a name comes from; empty for our own."""
        return " and ".join(target.package for target in self.targets(name) if target.package)

    def __getitem__(self, name: str) -> Entry:
        if name not in self._loaded:
            targets = self.targets(name)
            if not targets:
                raise KeyError(name)
            if len(targets) > 1:
                others = " and of ".join(sorted(target.package for target in targets if target.package))
                ours = "a name of holdfast's own and " if not all(target.package for target in targets) else ""
                raise RecipeError(
                    f"{self.family}: '{name}' is {ours}an entry point of {others}; uninstall what you do not need, or "
                    "ask its author for another name"
                )
            if name == RESERVED and targets[0].package:
                raise RecipeError(
                    f"{self.family}: '{name}' is an entry point of {targets[0].package}, but stands for an import path "
                    "in every recipe; uninstall it, or ask its author for another name"
                )
            self._loaded[name] = self._load(name, targets[0])
        return self._loaded[name]

    def _load(self, name: str, target: Target) -> Entry:
        try:
            return cast(Entry, target.load())
        except RecipeError as error:
            raise RecipeError(f"{self.family}: '{name}': {error}") from error

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.targets(name))

    def __iter__(self) -> Iterator[str]:
        inherited = (name for one in self._including for name in one)
        return iter(dict.fromkeys([*inherited, *self._own, *installed().get(f"holdfast.{self.family}", {})]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def usable(self, *, only_imported: bool = False) -> Iterator[tuple[str, Entry]]:
        """Names with what they stand for, without those of packages that are broken or collide.

        Args:
            only_imported: only what some module has imported already; any value in memory is of one of these.
        """
        for name in self:
            if only_imported and not any(target.module in sys.modules for target in self.targets(name)):
                continue
            try:
                yield name, self[name]
            except RecipeError:
                continue


@cache
def installed() -> Mapping[str, Mapping[str, Sequence[Target]]]:
    """The entry points of installed packages, by group and name; nothing is imported.

    What lies in the working directory is not installed, even where Python would import it from there.
    """
    groups: dict[str, dict[str, list[Target]]] = {}
    packages: set[str] = set()
    for one in distributions(path=_path_without_working_directory()):
        if "[holdfast." not in (one.read_text("entry_points.txt") or "") or one.metadata["Name"] in packages:
            continue  # of a package that is installed twice, Python imports the first
        packages.add(package := one.metadata["Name"])
        for point in one.entry_points:
            groups.setdefault(point.group, {}).setdefault(point.name, []).append(Target(point.value, package=package))
    return groups


def imported(path: str, *, installed_only: bool = False, word: str = "Name") -> Any:
    """Import the third-party object `package.module:Name`.

    Args:
        path: the name.
        installed_only: whether the working directory is left out; otherwise it is looked into last.
        word: for what comes after the colon.

    Raises:
        RecipeError: if it cannot be imported, or is not there.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise RecipeError(f"expected 'package.module:{word}', got '{path}'")
    try:
        invalidate_caches()
        with _working_directory_hidden() if installed_only else working_directory_importable():
            module = import_module(module_name)
    except (Exception, SystemExit) as error:  # third-party code may raise anything while it is imported
        raise RecipeError(f"cannot import '{module_name}': {one_line(error)}") from error
    if not callable(getattr(module, name, None)):
        what = "has no callable" if hasattr(module, name) else "has no"
        raise RecipeError(f"module '{module_name}' {what} '{name}'")
    return getattr(module, name)


def one_line(error: BaseException) -> str:
    """The type of an error and the first line of its message."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def require_usable(entry: Any, path: str) -> Any:
    """Refuse a class whose fields no recipe could state, and methods that may change after they were read."""
    frozen = is_dataclass(entry) and bool(entry.__dataclass_params__.frozen)  # type: ignore[union-attr]
    if (is_dataclass(entry) or isinstance(entry, type)) and not frozen:
        what = "is a dataclass that is not frozen" if is_dataclass(entry) else "is another class"
        raise RecipeError(f"expected a frozen dataclass, an instance of one or a function; '{path}' {what}")
    return entry


def _path_without_working_directory() -> list[str]:
    """Where modules come from, without the working directory."""
    here = os.path.realpath(os.getcwd())
    return [place for place in sys.path if place and os.path.realpath(place) != here]


@contextmanager
def _working_directory_hidden() -> Iterator[None]:
    """Let no module come from the working directory."""
    before, hidden = list(sys.path), _path_without_working_directory()
    sys.path[:] = hidden
    try:
        yield
    finally:
        sys.path[:] = [*before, *(place for place in sys.path if place not in hidden)]


@contextmanager
def working_directory_importable() -> Iterator[None]:
    """Let modules come from the working directory, after everything that is installed."""
    here = os.getcwd()
    before = list(sys.path)
    # Last, so that no file there takes the place of an installed module, also where Python itself has put it first.
    sys.path[:] = [*(place for place in before if place not in ("", here)), here]
    try:
        yield
    finally:
        added = [place for place in sys.path if place not in before and place != here]
        sys.path[:] = [*before, *added]
