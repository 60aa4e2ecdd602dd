"""YAML from strangers: plain values only, and no more of them than a recipe can sensibly have."""

from __future__ import annotations

from typing import Any

import yaml

from holdfast.errors import RecipeError
from holdfast.json_text import LARGEST

LONGEST = 5_000_000
"""Characters of a text."""

UNREADABLE = (ValueError, OverflowError, TypeError, AttributeError, LookupError)
"""What PyYAML raises for dates and numbers that are none, and bytes that are no text."""

MOST_VALUES = 100_000
"""Values in a text, those that aliases repeat counted as often as they stand there."""


MOST_LETTERS = 100
"""Of a whole number, in whatever base."""


class Loader(yaml.SafeLoader):
    """Safe YAML in which a key given twice is an error."""

    def construct_scalar(self, node: Any) -> Any:
        """Refuse text that no file can hold: halves of characters."""
        value = super().construct_scalar(node)
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise yaml.constructor.ConstructorError(None, None, "half a character (a surrogate)", node.start_mark)
        return value

    def construct_yaml_int(self, node: Any) -> int:
        """Refuse whole numbers that no field can hold; Python reads and writes only so many digits."""
        text = str(node.value)
        value = LARGEST if len(text) > MOST_LETTERS else int(super().construct_yaml_int(node))
        if abs(value) >= LARGEST:
            problem = f"the number {text[:12]}... of {len(text)} digits is too large"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that is there already."""
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node)
            if isinstance(key, str) and key in seen:
                mark = key_node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"'{key}' is given twice", mark)
            seen.add(key if isinstance(key, str) else id(key_node))
        return super().construct_mapping(node, deep)


Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)


def parse_yaml(text: str | bytes) -> tuple[Any, Any]:
    """The values of a text, and its node, which knows the line of each.

    Raises:
        yaml.YAMLError: if it is no YAML, has tags, or stands for too many values.
    """
    if len(text) > LONGEST:
        raise yaml.YAMLError(f"got {len(text):,} characters, more than {LONGEST:,}")
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        _require_few(node)
        return (None if node is None else loader.construct_document(node)), node
    except RecursionError:
        raise yaml.YAMLError("got values nested too deeply") from None
    except UNREADABLE as error:
        raise yaml.YAMLError(str(error)) from None


def load_yaml(text: str | bytes) -> Any:
    """The values of a text; see `parse_yaml`."""
    return parse_yaml(text)[0]


def load_mapping(text: str | bytes, what: str) -> dict[str, Any]:
    """The fields that a text describes.

    Raises:
        RecipeError: if it is no YAML, or anything but fields; `what` names it.
    """
    try:
        value = load_yaml(text)
    except yaml.YAMLError as error:
        raise RecipeError(f"{what}: expected YAML; {getattr(error, 'problem', None) or error}") from None
    if not isinstance(value, dict):
        raise RecipeError(f"{what}: expected fields; got {type(value).__name__}")
    return value


def _require_few(root: Any) -> None:
    """Count values as often as they are repeated, without repeating them."""
    sizes: dict[int, int] = {}
    waiting, open_ = [(root, False)], set[int]()
    while waiting:
        node, done = waiting.pop()
        if id(node) in sizes:
            continue
        inner = _inner(node)
        if done:
            open_.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(one)] for one in inner)
            if sizes[id(node)] > MOST_VALUES:
                raise yaml.YAMLError(f"got more than {MOST_VALUES:,} values; split the file, or leave out aliases")
        elif id(node) in open_:
            raise yaml.YAMLError("got values nested without end")
        else:
            open_.add(id(node))
            waiting += [(node, True), *((one, False) for one in inner)]


def _inner(node: Any) -> list[Any]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
