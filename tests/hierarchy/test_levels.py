"""Borders of levels and thresholds, what mistakes cost, and what chance would give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RecipeError
from holdfast.hierarchy import hierarchy_of

CLASSES = tuple("abcde")
TWO = {"group": {"x": ["a", "c"], "y": ["b"], "z": ["d", "e"]}, "area": {"low": ["c", "b", "a"], "high": ["d", "e"]}}


def test_a_border_surrounds_the_groups_of_its_level():
    border = hierarchy_of(CLASSES, TWO).border("group")
    inside = [[k for k in range(5) if not border.crossing[y, k]] for y in range(5)]
    assert inside == [[0, 2], [1], [0, 2], [3, 4], [3, 4]]
    assert border.level.of == (0, 1, 0, 2, 2)
    assert hierarchy_of(CLASSES, TWO).border().name == "group"  # the finest
    assert hierarchy_of(CLASSES, TWO).border("area").level.groups == ("low", "high")


def test_costs_are_how_many_levels_up_two_classes_meet():
    assert hierarchy_of(CLASSES, TWO).costs.tolist() == [
        [0, 2, 1, 3, 3],
        [2, 0, 2, 3, 3],
        [1, 2, 0, 3, 3],
        [3, 3, 3, 0, 1],
        [3, 3, 3, 1, 0],
    ]


@pytest.mark.parametrize("level", ["group", "area"])
def test_a_threshold_of_these_costs_has_the_border_of_a_level(level):
    made = hierarchy_of(CLASSES, TWO)
    cost = {"group": 2, "area": 3}[level]
    assert np.array_equal(made.border(severity=cost).crossing, made.border(level).crossing)
    assert made.border(severity=cost).level is None


def test_a_threshold_counts_mistakes_that_cost_at_least_as_much():
    made = hierarchy_of(("a", "b"), {}, [[0, 2.5], [1, 0]])
    assert made.border(severity=2.5).crossing.tolist() == [[False, True], [False, False]]
    assert made.border(severity=0.5).crossing.tolist() == [[False, True], [True, False]]


# Given a wrong class drawn evenly: 6 animals and 4 vehicles, and 20 groups of 5 (METHODS 8; the thesis has 50 and 5 %).
@pytest.mark.parametrize(("sizes", "chance"), [((6, 4), 0.6 * 5 / 9 + 0.4 * 3 / 9), ((5,) * 20, 4 / 99)])
def test_chance_of_the_right_group_is_that_of_a_wrong_class_drawn_evenly(sizes, chance):
    groups, first = {}, 0
    for number, size in enumerate(sizes):
        groups[f"g{number}"] = [f"c{first + n}" for n in range(size)]
        first += size
    border = hierarchy_of([f"c{n}" for n in range(first)], {"group": groups}).border()
    assert border.chance() == pytest.approx(chance, abs=1e-15)


def test_chance_among_some_examples_depends_on_their_classes():
    border = hierarchy_of(CLASSES, TWO).border("group")
    assert border.chance([1, 1]) == 0  # alone in its group
    assert border.chance([0, 1]) == pytest.approx(1 / 8)
    assert border.inside(3) == 1


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9).filter(lambda of: len(set(of)) > 1))
def test_facts_are_read_back_as_the_same_hierarchy(of):
    from holdfast.hierarchy import hierarchy_of_facts

    classes = [f"c{n}" for n in range(len(of))]
    groups = {f"g{one}": [classes[n] for n in range(len(of)) if of[n] == one] for one in sorted(set(of))}
    made = hierarchy_of(
        classes, {"group": groups}, [[abs(i - j) for j in of] for i in of] if len(set(of)) > 1 else None
    )
    assert hierarchy_of_facts(made.facts(), classes) == made
    assert hierarchy_of_facts(made.facts(), classes).digest == made.digest


def test_another_group_or_cost_is_another_hierarchy():
    other = {**TWO, "group": {"x": ["a", "b"], "y": ["c"], "z": ["d", "e"]}}
    made = [
        hierarchy_of(CLASSES, TWO),
        hierarchy_of(CLASSES, other),
        hierarchy_of(CLASSES, TWO, [[2 * (i != j) for j in range(5)] for i in range(5)]),
        hierarchy_of(tuple("abcdf"), {"group": {"x": ["a", "c"], "y": ["b"], "z": ["d", "f"]}}),
    ]
    assert len({one.digest for one in made}) == 4


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ({"level": "grup"}, "hierarchy: level: unknown name 'grup'; known: area, group. Did you mean 'group'?"),
        ({"severity": 4}, "expected a severity above 0, at most 3; got 4"),
        ({"severity": 0}, "expected a severity above 0"),
        ({"level": "group", "severity": 1}, "expected a level or a severity; got 'group' and 1"),
    ],
)
def test_borders_that_do_not_exist_are_one_line(stated, problem):
    with pytest.raises(RecipeError, match=problem.replace("?", r"\?")):
        hierarchy_of(CLASSES, TWO).border(**stated)


def test_a_hierarchy_of_costs_alone_has_no_level():
    with pytest.raises(RecipeError, match="expected a level of groups"):
        hierarchy_of(("a", "b"), {}, [[0, 1], [1, 0]]).border()
