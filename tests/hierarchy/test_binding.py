"""Methods get the hierarchy of the data where they state none; others stay the same objects."""

from dataclasses import dataclass

import pytest

from holdfast.errors import RecipeError
from holdfast.hierarchy import Hierarchy, hierarchy_of, needs_hierarchy, with_hierarchy

ONE, OTHER = (hierarchy_of(("a", "b"), {"group": {name: ["a"], "rest": ["b"]}}) for name in ("x", "y"))


@dataclass(frozen=True)
class Inner:
    steps: int = 1
    hierarchy: Hierarchy | None = None


@dataclass(frozen=True)
class Outer:
    attack: object
    others: tuple = ()


def test_every_method_inside_gets_it_and_nothing_else_changes():
    plain = Inner(2, OTHER)
    bound = with_hierarchy(Outer(Inner(), (Inner(3), plain)), ONE)
    assert bound == Outer(Inner(1, ONE), (Inner(3, ONE), plain))
    assert with_hierarchy(bound, OTHER) is bound
    assert with_hierarchy(Outer(5, ("text", None)), None) == Outer(5, ("text", None))


def test_a_method_that_needs_one_and_gets_none_is_refused():
    with pytest.raises(RecipeError, match=r"checks\[1\]: Inner: expected data with a hierarchy"):
        with_hierarchy(Outer(Inner()), None, "checks[1]")
    assert needs_hierarchy(Outer(Inner()))
    assert not needs_hierarchy(Outer(Inner(1, ONE)))
