"""Recipe files: YAML with places for error messages, overrides, variants, seeds and sweeps."""

from __future__ import annotations

import itertools
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from holdfast.checks import Check
from holdfast.errors import RecipeError, unknown
from holdfast.recipe.merging import copied, merged, opened
from holdfast.recipe.parts import PARTS, Expanded, expanded
from holdfast.recipe.plain import describe
from holdfast.recipe.schema import FAMILIES, Recipe, hints_of
from holdfast.recipe.strict import parse
from holdfast.recipe.sweeps import Origins, before_sweeps, write_out_sweeps
from holdfast.yaml_text import LONGEST, load_yaml, parse_yaml

Path_ = tuple[str, ...]
Where = Callable[[Path_], str]
EXTRA = ("variants", "seeds")
OUT = Path("runs")
MOST_SEEDS = MOST_VARIANTS = MOST_RUNS = 1_000


def load_recipes(
    path: Path | str, overrides: Sequence[str] = (), *, only: Sequence[str] = (), out: Path = OUT
) -> list[Recipe]:
    """All runs of a recipe file.

    Args:
        path: the file.
        overrides: such as `train.epochs=5`; they win over what the file and its variants have.
        only: variants that are wanted; none for all.
        out: directory of all runs, where a variant with parts looks for them.
    """
    path = Path(path)
    text = read_recipe_text(path)
    return parse_recipes(text, overrides, file=path, only=only, out=out)


def read_recipe_text(path: Path) -> str:
    """The text of a recipe file.

    Raises:
        RecipeError: if it is not there, or is no text.
    """
    try:
        with path.open("rb") as file:  # perhaps a pipe
            return file.read(4 * LONGEST + 1).decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise RecipeError(f"{path}: expected a recipe in YAML; {reason}") from None


def parse_recipes(
    text: str, overrides: Sequence[str] = (), *, file: Path = Path("recipe"), only: Sequence[str] = (), out: Path = OUT
) -> list[Recipe]:
    """All runs that a recipe's text describes: every variant under every seed, or only these variants."""
    content, lines = read_yaml(text, file)
    if not isinstance(content, dict):
        raise RecipeError(f"{file}: expected a mapping with name, data, model, ...; got {type(content).__name__}")
    for text_ in (text_ for text_ in overrides if _of_the_file(text_)):
        override(content, text_)
    rest = [text_ for text_ in overrides if not _of_the_file(text_)]
    return recipes_of(content, rest, only=only, file=file, lines=lines, out=out)


def _of_the_file(override_text: str) -> bool:
    """Whether an override changes what all runs share: which variants and seeds there are, and the name."""
    return override_text.split("=")[0].split(".")[0].strip() in (*EXTRA, "name", "seed")


def recipes_of(
    content: dict[str, Any],
    overrides: Sequence[str] = (),
    *,
    only: Sequence[str] = (),
    file: Path = Path("recipe"),
    lines: Mapping[Path_, int] = MappingProxyType({}),
    out: Path = OUT,
) -> list[Recipe]:
    """All runs that the content of a recipe describes; in Python it may hold methods in the place of their names.

    Args:
        content: plain values and methods by name, which are used up.
        overrides: changes of every run, applied after those of its variant.
        only: variants that are wanted; none for all.
        file: where it comes from, for messages.
        lines: where each path is in it.
        out: directory of all runs.
    """
    content["name"] = content.get("name") or file.stem
    variants, seeds = _variants(content, file), _seeds(content, file)
    _require_known_keys(content, file, lines)

    def expand(variant: object, changes: Mapping[str, Any]) -> Iterator[Expanded]:
        own = copied(merged(content, changes, Recipe))
        for text in overrides:
            override(own, text)
        name = str(variant)
        if PARTS not in changes:
            return iter([Expanded(name, own, name)])
        where = places_of(file, lines, name)
        return expanded(name, own, where, lambda role: out / _name_of(content["name"], role, "{seed}"))

    each = itertools.chain.from_iterable(itertools.starmap(expand, variants.items()))
    every = list(itertools.islice(each, MOST_RUNS + 1))
    if len(every) * len(seeds) > MOST_RUNS:
        raise RecipeError(f"{file}: expected at most {MOST_RUNS} runs; got {len(every)} variants x {len(seeds)} seeds")
    _require_names(every, only, file)
    runs: list[Recipe] = []
    for one in every:
        of_variant = _runs_of(one, content["name"], seeds, file, lines)
        runs += of_variant if not only or one.of in only or one.name in only else []
    return runs


def _runs_of(one: Expanded, name: object, seeds: Sequence[int], file: Path, lines: Mapping[Path_, int]) -> list[Recipe]:
    """A variant, or a part of one, under every seed."""
    where = places_of(file, lines, one.of, write_out_sweeps(one.content, file), one.role)
    contents = [{**one.content, "name": _name_of(name, one.name, seed), "seed": seed} for seed in seeds]
    runs = [one.finished(parse(Recipe, content, where=where)) for content in contents]
    _distinct(runs[-1], file)
    return runs


def _require_names(every: Sequence[Expanded], only: Sequence[str], file: Path) -> None:
    """Refuse variants of the same name, and those that are wanted where they are not."""
    names = [one.name for one in every]
    if doubled := [name for number, name in enumerate(names) if name in names[:number]]:
        raise RecipeError(f"{file}: variants: expected each name once; got '{doubled[0]}' twice, once of parts")
    for name in only:
        if name not in names or not name:
            raise RecipeError(f"{file}: variants: {unknown(name, [name for name in names if name])}")


def _name_of(recipe: object, variant: object, seed: object) -> str:
    """Of a run."""
    return "/".join(filter(None, [str(recipe), str(variant), f"seed-{seed}"]))


def _variants(content: dict[str, Any], file: Path) -> dict[Any, dict[str, Any]]:
    """What each variant changes; one without a name if the recipe has none."""
    variants = content.pop("variants", None) or {"": {}}
    if not isinstance(variants, dict):
        raise RecipeError(f"{file}: variants: expected names with what they change; got {type(variants).__name__}")
    if len(variants) > MOST_VARIANTS:
        raise RecipeError(f"{file}: variants: expected at most {MOST_VARIANTS}; got {len(variants)}; split the recipe")
    for variant, changes in variants.items():
        if not isinstance(changes or {}, dict):
            raise RecipeError(f"{file}: variants.{variant}: expected a mapping; got {type(changes).__name__}")
        if fixed := {"name", "seed"} & set(changes or {}):
            raise RecipeError(f"{file}: variants.{variant}.{min(fixed)}: the same in all variants; set it outside")
    return {variant: changes or {} for variant, changes in variants.items()}


def _seeds(content: dict[str, Any], file: Path) -> list[int]:
    seeds = content.pop("seeds", None)
    if seeds is None:
        seeds = [content.get("seed", 0)]
    if isinstance(seeds, list) and len(seeds) > MOST_SEEDS:
        raise RecipeError(f"{file}: seeds: expected at most {MOST_SEEDS}; got {len(seeds)}; split the recipe")
    whole = isinstance(seeds, list) and all(type(seed) is int and abs(seed) < 2**63 for seed in seeds)
    if not whole or not seeds or len(set(seeds)) < len(seeds):
        raise RecipeError(f"{file}: seeds: expected a list of different whole numbers; got {seeds!r}")
    return list(seeds)


def _distinct(recipe: Recipe, file: Path) -> None:
    """The ledger tells checks apart by their labels, so none may come twice."""
    for name in ("checks", "epoch_checks"):
        counts = Counter(describe(check, Check)[1] for check in getattr(recipe, name))
        for label, count in counts.items():
            if count > 1:
                raise RecipeError(f"{file}: {name}: expected each check once; got '{label}' {count} times")


def _require_known_keys(content: dict[str, Any], file: Path, lines: Mapping[Path_, int]) -> None:
    names = [f.name for f in fields(Recipe)]
    for key in content:
        if key not in names:
            line = f":{lines[(str(key),)]}" if (str(key),) in lines else ""
            if key == "search":
                raise RecipeError(f"{file}{line}: search: this recipe has ranges; use `holdfast search`")
            raise RecipeError(f"{file}{line}: {unknown(key, [*names, *EXTRA])}")


def override(content: dict[str, Any], text: str, kind: Any = Recipe, *, example: str = "train.epochs=5") -> None:
    """Apply `path.to.key=value`; a step to another name of a choice replaces the one there.

    Args:
        content: the fields so far, which are changed.
        text: what the user wrote.
        kind: the dataclass whose fields they are; None where it is not known.
        example: for those who wrote something else.
    """
    path, separator, value = text.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise RecipeError(f"--set: expected something like {example}; got {text!r}")
    try:
        read = load_yaml(value)
    except yaml.YAMLError:
        raise RecipeError(f"--set {path}: expected a YAML value; got {value!r}") from None
    holder: Any = content
    for number, key in enumerate(keys):
        place = f"--set {'.'.join(keys[: number + 1])}"
        last = number == len(keys) - 1
        if isinstance(holder, list):
            step: Any = _position(key, len(holder), place)
            kind = typing.get_args(kind)[0] if typing.get_args(kind) else None
        else:
            step, kind = key, _below(holder, key, kind)
        if last:
            holder[step] = read
        else:
            held = holder[step] if isinstance(holder, list) else holder.get(step)
            holder[step] = held if isinstance(held, list) else opened(held, kind)
            holder = holder[step]


def _below(holder: dict[str, Any], key: str, kind: Any) -> Any:
    """The type of what stands under a key; a new name of a choice first clears the old one."""
    if kind in FAMILIES:
        if key not in holder:
            holder.clear()
        entry = FAMILIES[kind].get(key)  # None for a third-party method, whose fields nobody knows yet
        return entry if isinstance(entry, type) else type(entry)
    below = hints_of(kind).get(key) if is_dataclass(kind) else None
    inner = [a for a in typing.get_args(below) if a is not type(None)]
    return inner[0] if type(None) in typing.get_args(below) else below


def _position(key: str, length: int, place: str) -> int:
    if not key.isdigit() or int(key) >= length:
        raise RecipeError(f"{place}: expected a position below {length} in a list; got {key!r}")
    return int(key)


def read_yaml(text: str, file: Path) -> tuple[Any, dict[Path_, int]]:
    """The file's values, and the line of every key."""
    try:
        value, node = parse_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RecipeError(f"{file}{line}: expected YAML; {getattr(error, 'problem', None) or error}") from None
    return copied(value), dict(_lines(node, ()))


def _lines(node: Any, path: Path_) -> Iterator[tuple[Path_, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*path, str(key.value)), key.start_mark.line + 1
            yield from _lines(value, (*path, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*path, str(number)), value.start_mark.line + 1
            yield from _lines(value, (*path, str(number)))


def places_of(
    file: Path, lines: Mapping[Path_, int], variant: str = "", origins: Origins = MappingProxyType({}),
    part: str | None = None,
) -> Where:  # fmt: skip
    """Names the place of a path: file, line where the nearest key stands, and the path itself.

    Args:
        file: the file.
        lines: where each path is in it.
        variant: whose changes come first.
        origins: of its sweeps.
        part: of the variant, whose changes come before.
    """
    of_variant = ("variants", variant)
    prefixes = [of_variant, *([(*of_variant, PARTS, part)] if part else [])]

    def depth_of(path: Path_) -> int:
        return next((n for n in range(len(path), 0, -1) if path[:n] in lines), 0)

    def place(path: Path_) -> str:
        path = before_sweeps(path, origins)
        full, deepest = path, max(depth_of(path), 1)
        for prefix in prefixes:
            changed = (*prefix, *path)
            if depth_of(changed) - len(prefix) >= deepest:
                full, deepest = changed, depth_of(changed) - len(prefix)
        line = lines.get(full[: depth_of(full)])
        return ": ".join(filter(None, [f"{file}:{line}" if line else str(file), ".".join(full)]))

    return place
