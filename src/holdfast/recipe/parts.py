"""Parts: a variant that stands for a network of groups, one of the classes of each group, and the HAR made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from holdfast import files
from holdfast.corruptions.noise import Clean
from holdfast.data.hierarchies import group_sizes
from holdfast.errors import DataError, RecipeError, unknown
from holdfast.hierarchy import needs_hierarchy
from holdfast.recipe.merging import copied, merged, opened
from holdfast.recipe.schema import DataRecipe, Recipe, TrainRecipe
from holdfast.recipe.strict import parse

PARTS = "parts"
"""Of a variant that stands for several runs."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """How the runs of a HAR network differ.

    Args:
        level: whose groups have networks of their own; None for the finest.
        groups: what the network of the groups changes in the variant, such as `{train: {epochs: 5}}`.
        leaves: what the networks of the classes of each group change.
    """

    level: str | None = None
    groups: dict[str, Any] = field(default_factory=dict)
    leaves: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("groups", "leaves"):
            if fixed := {"name", "seed"} & getattr(self, name).keys():
                raise ValueError(f"{name}.{min(fixed)}: the same in all parts; set it outside")


@dataclass(frozen=True)
class Expanded:
    """The content of a run that a recipe describes.

    Args:
        name: of its variant.
        content: plain values, without seed.
        of: the variant that the recipe has.
        role: `groups` or `leaves` for a part.
    """

    name: str
    content: dict[str, Any]
    of: str
    role: str | None = None

    def finished(self, recipe: Recipe) -> Recipe:
        """The recipe of the run; checks that need the hierarchy are left to the whole."""
        if self.role is None:
            return recipe
        checks, epoch_checks = (
            tuple(check for check in checks if not needs_hierarchy(check))
            for checks in (recipe.checks, recipe.epoch_checks)
        )
        return replace(recipe, checks=checks or (Clean(),), epoch_checks=epoch_checks)


def expanded(
    variant: str, content: dict[str, Any], where: Callable[[tuple[str, ...]], str], path_of: Callable[[str], Path]
) -> Iterator[Expanded]:
    """The runs of a variant with parts: each part, then the whole.

    Args:
        variant: its name.
        content: its fields, without sweeps written out.
        where: names the place of a path.
        path_of: where the run of a variant is.

    Raises:
        RecipeError: if the recipe does not state the groups, or has no such level.
    """
    parts: Parts = parse(Parts, content.pop(PARTS) or {}, where=lambda at: where((PARTS, *at)))
    level, sizes = _level(content, parts.level, where)
    several = [group for group, size in sizes.items() if size > 1]
    names = dict(zip(several, files.safe_names(several), strict=True))

    def part(role: str, name: str, view: str) -> Expanded:
        own = merged(content, getattr(parts, role), Recipe)
        return Expanded(f"{variant}.{name}", copied(merged(own, {"data": {"view": view}}, Recipe)), variant, role)

    yield part("groups", "groups", level)
    for group, name in names.items():
        yield part("leaves", f"leaves.{name}", f"{level}/{group}")
    model = {
        "groups": path_of(f"{variant}.groups").as_posix(),
        "leaves": {group: path_of(f"{variant}.leaves.{name}").as_posix() for group, name in names.items()},
        "level": level,
    }
    fabric = opened(content.pop("train", None), TrainRecipe).get("fabric")
    rest = {key: value for key, value in content.items() if key != "epoch_checks"}
    whole = {**rest, "model": {"har": model}, **({} if fabric is None else {"train": {"fabric": fabric}})}
    yield Expanded(variant, whole, variant)


def _level(
    content: Mapping[str, Any], wanted: str | None, where: Callable[[tuple[str, ...]], str]
) -> tuple[str, Mapping[str, int]]:
    """The name of a level, and the number of classes of each of its groups."""
    data: DataRecipe = parse(DataRecipe, content.get("data"), where=lambda at: where(("data", *at)))
    try:
        levels = group_sizes(data.hierarchy, data.source)
    except DataError as error:
        raise RecipeError(f"{where((PARTS,))}: {error}") from error
    if wanted is not None and wanted not in levels:
        raise RecipeError(f"{where((PARTS, 'level'))}: {unknown(wanted, levels)}")
    name = next(iter(levels)) if wanted is None else wanted
    return name, levels[name]
