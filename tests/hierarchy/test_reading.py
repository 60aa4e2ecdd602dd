"""What is wrong with a stated hierarchy is one clear line."""

import pytest

from holdfast.hierarchy import costs_of_mistakes, costs_of_overlapping, hierarchy_of, hierarchy_of_facts

CLASSES = ("bird", "cat", "car", "ship")
GOOD = {"animals": ["bird", "cat"], "vehicles": ["car", "ship"]}


def test_classes_keep_their_order_whatever_that_of_the_groups():
    made = hierarchy_of(CLASSES, {"group": {"vehicles": ["ship", "car"], "animals": ["cat", "bird"]}})
    assert made.levels[0].groups == ("vehicles", "animals")
    assert made.levels[0].of == (1, 1, 0, 0)
    assert made.levels[0].members(0) == (2, 3)


def test_classes_whose_names_are_numbers_may_be_written_as_numbers():
    assert hierarchy_of(("0", "1"), {"group": {"a": [0], "b": ["1"]}}).levels[0].of == (0, 1)


@pytest.mark.parametrize(
    ("levels", "problem"),
    [
        ({"group": {**GOOD, "animals": ["brid", "cat"]}}, "hierarchy.group.animals: unknown name 'brid'; known: bird"),
        ({"group": {"animals": ["bird", "cat"], "vehicles": ["car"]}}, "hierarchy.group: .*got no group of 'ship'"),
        ({"group": {**GOOD, "pets": ["cat"]}}, "got 'cat' in 'animals' and in 'pets'"),
        ({"group": {**GOOD, "animals": ["bird", "cat", "bird"]}}, "got 'bird' in 'animals' twice"),
        ({"group": {**GOOD, "trees": []}}, "hierarchy.group.trees: expected a list of classes; got none"),
        ({"group": {**GOOD, "trees": "oak"}}, "expected a list of classes; got 'oak'"),
        ({"group": ["bird"]}, "hierarchy.group: expected groups by name"),
        ({"group": {}}, "hierarchy.group: expected groups by name"),
        ({"group": {"all": [*CLASSES]}}, "hierarchy.group: expected two groups or more; got one"),
        ({"a/b": GOOD}, "without a slash; got 'a/b'"),
        ({}, "expected a level of groups, or a severity; got neither"),
        (
            {"group": GOOD, "area": {"one": ["bird", "car"], "two": ["cat", "ship"]}},
            "every group of 'group' within one of 'area'; got 'animals' in 'one' and 'two'; levels go from fine to",
        ),
    ],
)
def test_a_hierarchy_that_is_none_is_refused_in_one_line(levels, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        hierarchy_of(CLASSES, levels)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("severity", "problem"),
    [
        ([[0, 1], [1, 0]], "expected a row and a column for each of 4 classes; got 2 rows of 2"),
        ([[0, 1, 1], [1, 0]], "expected a row and a column"),
        ([[1] * 4] * 4, "'bird' taken for 'bird': expected 0, since it is right; got 1"),
        ([[0, -1, 1, 1]] + [[0] * 4] * 3, "'bird' taken for 'cat': expected a number from 0 on; got -1"),
        ([[0, float("inf"), 1, 1]] + [[0] * 4] * 3, "got inf"),
        ([[0, float("nan"), 1, 1]] + [[0] * 4] * 3, "got nan"),
        ([[0] * 4] * 4, "expected a mistake that costs something"),
    ],
)
def test_costs_that_are_none_are_refused(severity, problem):
    with pytest.raises(ValueError, match=problem):
        hierarchy_of(CLASSES, {"group": GOOD}, severity)


def test_classes_of_one_name_are_refused():
    with pytest.raises(ValueError, match="classes of different names; got 'a' twice"):
        hierarchy_of(("a", "b", "a"), {"group": {"x": ["a", "b"]}})


def test_mistakes_that_are_not_stated_cost_one():
    costs = costs_of_mistakes(CLASSES, {"bird": {"ship": 5}, "car": {"ship": 0}})
    assert costs == [[0, 1, 1, 5], [1, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]
    for stated, problem in (
        ({"brid": {}}, "unknown name 'brid'"),
        ({"bird": {"sip": 2}}, "hierarchy.mistakes.bird: unknown name 'sip'"),
        ({"bird": {"ship": "dear"}}, "hierarchy.mistakes.bird.ship: expected a number; got 'dear'"),
        ({"bird": 2}, "expected costs by class; got 2"),
    ):
        with pytest.raises(ValueError, match=problem):
            costs_of_mistakes(CLASSES, stated)


def test_a_mistake_within_an_overlapping_group_costs_nothing():
    groups = {"small": ["bird", "cat"], "flies or swims": ["bird", "ship"], "drives": ["car"]}
    made = hierarchy_of(CLASSES, {}, costs_of_overlapping(CLASSES, groups)).border(severity=1)
    inside = [[CLASSES[k] for k in range(4) if not made.crossing[y, k]] for y in range(4)]
    assert inside == [["bird", "cat", "ship"], ["bird", "cat"], ["car"], ["bird", "ship"]]
    with pytest.raises(ValueError, match="got no group of 'car'"):
        costs_of_overlapping(CLASSES, {"small": ["bird", "cat", "ship"]})


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({}, "levels"),
        ([], "expected an object"),
        ({"levels": {"group": ["bird"]}}, "levels.group"),
        ({"levels": {"group": GOOD}, "more": 1}, "more"),
        ({"levels": {"group": {"animals": [1]}}}, "levels.group.animals.0"),
        ({"levels": {}}, "expected a level"),
    ],
)
def test_facts_of_no_hierarchy_are_refused(facts, problem):
    with pytest.raises(ValueError, match=problem):
        hierarchy_of_facts(facts, CLASSES)
