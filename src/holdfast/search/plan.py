"""A recipe with ranges in it: read, tried out at the ends of its ranges, and filled in for every trial."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.errors import RecipeError, unknown
from holdfast.recipe import plain
from holdfast.recipe.load import override, places_of, read_recipe_text, read_yaml
from holdfast.recipe.schema import Recipe
from holdfast.recipe.strict import parse
from holdfast.recipe.sweeps import Origins, write_out_sweeps
from holdfast.runs.code import TrustedCode, resolved
from holdfast.search.ranges import RANGES, Range
from holdfast.search.schema import SearchRecipe

Where = Callable[[tuple[str, ...]], str]
"""Names the place of a path: file, line and the path itself."""

Steps = tuple[Any, ...]
"""Keys and positions from the top of a recipe to a value."""

SECTION = "search"
"""Name of the section, and of the key that tells a range from other values."""

FREE = ("name", "checks", "evaluate")
"""Fields of a recipe that may change while a search goes on: no trial's value depends on them."""


@dataclass(frozen=True)
class Plan:
    """What to search for, and how.

    Args:
        name: of the recipe; trials are in the directory of this name.
        settings: the section `search`.
        ranges: what is searched for, by the path of its field.
        paths: the steps to each of them.
        content: the recipe's values, with ranges in it.
        where: names the place of a path, given how checks were written out.
    """

    name: str
    settings: SearchRecipe
    ranges: Mapping[str, Range]
    paths: Mapping[str, Steps]
    content: Mapping[str, Any]
    where: Callable[[Origins], Where]

    def recipe(self, drawn: Mapping[str, Any], name: str) -> Recipe:
        """The recipe with a value in the place of every range.

        Args:
            drawn: a value for each range, as Optuna has it.
            name: of the run.

        Raises:
            RecipeError: a value that is not allowed there, with the file's line.
        """
        return self._filled({path: self.ranges[path].decode(value) for path, value in drawn.items()}, name)

    def trial(self, drawn: Mapping[str, Any], number: int) -> Recipe:
        """The recipe of a trial."""
        return self.recipe(drawn, f"{self.name}/trials/{number:04d}")

    def _filled(self, values: Mapping[str, Any], name: str) -> Recipe:
        one = copy.deepcopy(dict(self.content))
        for path, value in values.items():
            _put(one, self.paths[path], copy.deepcopy(value))
        origins = write_out_sweeps(one, Path(self.name))
        recipe: Recipe = parse(Recipe, {**one, "name": name}, where=self.where(origins))
        return recipe

    def resolved(self, trust: TrustedCode) -> Plan:
        """The same with the third-party checks in its goals imported.

        Raises:
            RecipeError: for code that is not trusted or cannot be used.
        """
        return replace(self, settings=resolved(self.settings, SECTION, trust=trust))

    def probe(self) -> Recipe:
        """A recipe of the search; first all ends of all ranges are tried, so that a bad range is refused at once."""
        *_, last = self.ends()
        return last

    def ends(self) -> Iterator[Recipe]:
        """A recipe for each end of each range."""
        first = {path: one.extremes()[0] for path, one in self.ranges.items()}
        for path, one in self.ranges.items():
            for value in one.extremes()[1:]:
                yield self._filled({**first, path: value}, self.name)
        yield self._filled(first, self.name)

    def identity(self) -> dict[str, Any]:
        """Everything that trials must have in common to be compared, as JSON has it."""
        recipe = plain(self.probe(), Recipe)
        return json.loads(  # type: ignore[no-any-return]
            json.dumps(
                {
                    "recipe": {key: value for key, value in recipe.items() if key not in FREE},
                    "ranges": {path: {type(one).__name__: plain(one, type(one))} for path, one in self.ranges.items()},
                    "objective": [plain(goal, type(goal)) for goal in self.settings.objective],
                },
                default=str,
            )
        )


def load_plan(path: Path | str, overrides: Sequence[str] = ()) -> Plan:
    """Read a recipe file with ranges in it.

    Args:
        path: the file.
        overrides: such as `train.epochs=5` or `search.trials=10`, applied before anything is read.
    """
    path = Path(path)
    text = read_recipe_text(path)
    return parse_plan(text, overrides, file=path)


def parse_plan(text: str, overrides: Sequence[str] = (), *, file: Path = Path("recipe")) -> Plan:
    """What a recipe's text with ranges in it plans.

    Raises:
        RecipeError: one line with file and line, for ranges and sections that cannot be, for a recipe without ranges
            and for values that the recipe would refuse.
    """
    content, lines = read_yaml(text, file)
    if not isinstance(content, dict):
        raise RecipeError(f"{file}: expected a mapping with name, data, model, ...; got {type(content).__name__}")
    section = content.pop(SECTION, None) or {}
    for change in overrides:
        own = change.removeprefix(f"{SECTION}.")
        if own != change and isinstance(section, dict):
            override(section, own, SearchRecipe, example="search.trials=10")
        else:
            override(content, change)
    where = places_of(file, lines)
    for several in ("variants", "seeds"):
        if content.pop(several, None) is not None:
            raise RecipeError(f"{where((several,))}: a search is about one run; leave this out, or make it a choice")
    ranges = {".".join(map(str, path)): (path, _range(value, path, where)) for path, value in _ranges(content, ())}
    if not ranges:
        raise RecipeError(
            f"{file}: expected a range in the place of a value, such as {{search: log, low: 0.001, high: 1}}; got none"
        )
    plan = Plan(
        name=str(content.get("name") or file.stem),
        settings=_settings(section, file, where),
        ranges={name: one for name, (_, one) in ranges.items()},
        paths={name: path for name, (path, _) in ranges.items()},
        content=content,
        where=lambda origins: places_of(file, lines, "", origins),
    )
    _require_measurable(plan, plan.probe(), where)
    return plan


def _settings(section: Any, file: Path, where: Where) -> SearchRecipe:
    if isinstance(section, dict):
        goals = section.get("objective")
        for goal in goals if isinstance(goals, list) else [goals]:
            if isinstance(goal, dict):
                write_out_sweeps(goal, file)
    settings: SearchRecipe = parse(SearchRecipe, section, where=lambda path: where((SECTION, *path)))
    return settings


def _require_measurable(plan: Plan, recipe: Recipe, where: Where) -> None:
    """Refuse what the recipe cannot answer before anything is trained."""
    settings = plan.settings
    held = any(not goal.checks or goal.split == "validation" for goal in settings.objective)
    if not recipe.data.validation and (held or settings.pruning.method != "none"):
        raise RecipeError(f"{where(('data',))}: a search judges on validation images; set data.validation, such as 0.2")
    if recipe.train.fabric.devices > 1:
        raise RecipeError(f"{where(('train', 'fabric'))}: a search trains each trial on one device; use --workers")
    for path, one in plan.ranges.items():
        if settings.sampler == "grid" and not one.grid():
            place = where(tuple(map(str, plan.paths[path])))
            raise RecipeError(f"{place}: sampler grid needs ranges that can be counted: choice, int, or a step")


def _ranges(value: Any, path: Steps) -> Iterator[tuple[Steps, Mapping[str, Any]]]:
    """All ranges below a value, as they stand in the file, with their paths."""
    if isinstance(value, dict) and SECTION in value:
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _ranges(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _ranges(inner, (*path, number))


def _range(value: Mapping[str, Any], path: Steps, where: Where) -> Range:
    kind, place = value[SECTION], tuple(map(str, path))
    if not isinstance(kind, str) or kind not in RANGES:
        raise RecipeError(f"{where((*place, SECTION))}: {unknown(kind, RANGES)}")
    fields = {key: inner for key, inner in value.items() if key != SECTION}
    read: Range = parse(RANGES[kind], fields, where=lambda below: where((*place, *below)))
    return read


def _put(holder: Any, path: Steps, value: Any) -> None:
    """Set what stands at a path."""
    *steps, last = path
    for step in steps:
        holder = holder[step]
    holder[last] = value
