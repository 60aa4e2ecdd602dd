"""Queries on groups: by hand, against simulation, and the chance levels that the thesis rounds."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import LedgerError
from holdfast.hierarchy import hierarchy_of
from holdfast.results import accuracies
from holdfast.results.groups import (
    across,
    right_group_given_wrong_class,
    severities,
    worst_severities,
)
from holdfast.results.recorded_checks import Budget
from holdfast.results.worst_case import worst_case
from holdfast.statistics import wilson
from tests.results.test_ledger import rows as ledger_rows

CLASSES = tuple("abcd")
HIERARCHY = hierarchy_of(CLASSES, {"group": {"x": ["a", "b"], "y": ["c", "d"]}})
BORDER = HIERARCHY.border()


def rows(label, prediction, check="clean", **columns):
    """Rows of one check with these labels and predictions."""
    right = [one == other for one, other in zip(label, prediction, strict=True)]
    return ledger_rows(right, check=check, label=label, prediction=prediction, **columns)


def attack(label, prediction, eps=0.1, **columns):
    """Rows of PGD."""
    params = json.dumps({"threat": {"linf": {"eps": eps}}})
    count = len(label)
    stated = {"method": ["pgd"] * count, "params": [params] * count, "to_the_end": [True] * count}
    return rows(label, prediction, f"pgd eps={eps}", **{**stated, **columns})


def test_an_example_is_right_about_its_group_if_the_prediction_is_in_it():
    seen = across(rows([0, 0, 2, 3], [0, 1, 1, 2]), BORDER)
    assert seen["correct"].to_list() == [True, True, False, True]
    assert seen["label"].to_list() == [0, 0, 1, 1]
    assert seen["prediction"].to_list() == [0, 0, 0, 1]
    assert accuracies(seen)["accuracy"].to_list() == [0.75]
    assert seen.columns == rows([0], [0]).columns


def test_of_a_general_border_labels_are_0_and_crossing_predictions_1():
    border = hierarchy_of(CLASSES, {}, [[0, 1, 5, 5], [1, 0, 1, 5], [1, 1, 0, 1], [1, 1, 1, 0]]).border(severity=2)
    seen = across(rows([0, 0, 1, 2], [1, 2, 3, 0]), border)
    assert seen["correct"].to_list() == [True, False, False, True]
    assert seen["label"].to_list() == [0, 0, 0, 0]
    assert seen["prediction"].to_list() == [0, 1, 1, 0]


def test_a_certifier_that_abstains_is_wrong_about_class_and_group():
    seen = across(rows([0, 1], [-1, 0], radius=[0.0, 0.5]), BORDER)
    assert seen["correct"].to_list() == [False, True]
    assert seen["prediction"].to_list() == [-1, 0]


def test_a_component_left_out_because_the_class_was_wrong_makes_no_example_wait():
    step = {"step": "b", "access": "gradients", "broke": None, "queries": None, "seconds": None}
    seen = across(rows([0, 0], [1, 0], steps=[[step], [step]]), BORDER)
    assert accuracies(seen)["unsettled"].to_list() == [1]


def test_a_class_that_the_hierarchy_does_not_have_is_refused():
    with pytest.raises(LedgerError, match="of the 4 classes of the hierarchy; got 4"):
        across(rows([4], [0]), BORDER)


def test_the_share_of_right_groups_is_over_wrong_classes_with_wilsons_interval():
    (row,) = right_group_given_wrong_class(rows([0, 0, 0, 2, 2], [0, 1, 2, 3, 3]), BORDER).to_dicts()
    assert (row["wrong"], row["inside"], row["share"]) == (4, 3, 0.75)
    assert (row["low"], row["high"]) == (wilson(3, 4).low, wilson(3, 4).high)
    assert row["chance"] == pytest.approx(1 / 3)
    (none,) = right_group_given_wrong_class(rows([0], [0]), BORDER).to_dicts()
    assert (none["wrong"], none["share"], none["low"], none["chance"]) == (0, None, None, None)


@pytest.mark.parametrize(("sizes", "expected"), [([6, 4], 7 / 15), ([5] * 20, 4 / 99)], ids=["cifar10", "cifar100"])
def test_chance_levels_are_computed_not_those_that_the_thesis_rounds_to_50_and_5_percent(sizes, expected):
    count = sum(sizes)
    starts = np.cumsum([0, *sizes])
    groups = {f"g{n}": [f"c{i}" for i in range(starts[n], starts[n + 1])] for n in range(len(sizes))}
    border = hierarchy_of([f"c{i}" for i in range(count)], {"group": groups}).border()
    pairs = [(label, other) for label in range(count) for other in range(count) if label != other]
    (row,) = right_group_given_wrong_class(rows(*map(list, zip(*pairs, strict=True))), border).to_dicts()
    assert row["chance"] == pytest.approx(expected, abs=1e-12)
    assert row["share"] == pytest.approx(expected, abs=1e-12)  # every wrong class once
    assert border.chance() == pytest.approx(expected, abs=1e-12)


def test_the_chance_level_is_that_of_the_examples_which_are_wrong():
    border = hierarchy_of(CLASSES, {"group": {"x": ["a", "b", "c"], "y": ["d"]}}).border()
    (row,) = right_group_given_wrong_class(rows([3, 3, 0, 1], [0, 1, 0, 1]), border).to_dicts()
    assert row["chance"] == 0.0
    (row,) = right_group_given_wrong_class(rows([3, 0], [0, 1]), border).to_dicts()
    assert row["chance"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("ends", "shown"), [(True, True), (False, False), (None, False)])
def test_attacks_that_stop_at_the_first_wrong_class_have_no_share(ends, shown):
    (row,) = right_group_given_wrong_class(attack([0, 0], [1, 2], to_the_end=[ends] * 2), BORDER).to_dicts()
    assert row["stops_early"] is not shown
    assert (row["share"] is not None) is shown
    assert (row["low"] is not None) is shown
    assert row["wrong"] == 2


def test_certificates_are_no_predictions_of_the_network():
    both = pl.concat([rows([0, 1], [1, 1]), rows([0, 1], [1, 1], check="margin", radius=[0.1, 0.2])])
    assert right_group_given_wrong_class(both, BORDER)["check"].to_list() == ["clean"]
    assert severities(both, HIERARCHY)["check"].to_list() == ["clean"]


def test_severity_is_the_mean_cost_over_all_examples():
    (row,) = severities(rows([0, 0, 0, 2], [0, 1, 2, 3]), HIERARCHY).to_dicts()
    assert row["severity"] == pytest.approx((0 + 1 + 2 + 1) / 4)
    assert row["given_wrong"] == pytest.approx(4 / 3)
    assert row["costs"] == [{"cost": 0, "examples": 1}, {"cost": 1, "examples": 2}, {"cost": 2, "examples": 1}]
    assert row["half"] == pytest.approx(1.959964 * np.std([0, 1, 2, 1], ddof=1) / 2)
    (one,) = severities(rows([0], [0]), HIERARCHY).to_dicts()
    assert (one["severity"], one["half"], one["given_wrong"]) == (0.0, None, None)


def test_stated_costs_need_not_be_symmetric():
    costs = [[0, 7, 1, 1], [2, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]
    (row,) = severities(rows([0, 1], [1, 0]), hierarchy_of(CLASSES, {}, costs)).to_dicts()
    assert row["severity"] == 4.5


def test_the_worst_severity_takes_the_costliest_mistake_of_each_example():
    clean = rows([0, 0, 0, 0], [0, 0, 1, 0])
    weak, strong = attack([0] * 4, [0, 1, 1, 2], 0.1), attack([0] * 4, [2, 0, 1, 1], 0.2)
    both = pl.concat([clean, weak, strong])
    (small,) = worst_severities(both, HIERARCHY, Budget("linf", 0.1)).to_dicts()
    assert small["severity"] == pytest.approx((0 + 1 + 1 + 2) / 4)
    (large,) = worst_severities(both, HIERARCHY, Budget("linf", 0.2)).to_dicts()
    assert large["severity"] == pytest.approx((2 + 1 + 1 + 2) / 4)


def test_a_point_outside_the_budget_costs_nothing_there():
    count = 2
    params = json.dumps({"threat": {"linf": {"eps": 0.3}}})
    nearest = rows(
        [0] * count, [2] * count, "ddn", method=["ddn"] * count, params=[params] * count, distance=[0.05, 0.2]
    )
    both = pl.concat([rows([0] * count, [0] * count), nearest, attack([0] * count, [0] * count, 0.1)])
    (row,) = worst_severities(both, HIERARCHY, Budget("linf", 0.1)).to_dicts()
    assert row["severity"] == pytest.approx(2 / count)


def test_the_worst_case_of_groups_is_over_all_attacks_example_by_example():
    leaf, group = attack([0, 0, 2, 2], [1, 1, 3, 0], 0.1), attack([0, 0, 2, 2], [2, 0, 2, 2], 0.1)
    both = pl.concat([rows([0, 0, 2, 2], [0, 0, 2, 2]), leaf, group.with_columns(check=pl.lit("hierarchical"))])
    (row,) = worst_case(across(both, BORDER)).to_dicts()
    assert (row["correct"], row["examples"]) == (2, 4)
    assert worst_case(both)["correct"].to_list() == [0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_group_accuracy_is_class_accuracy_and_right_groups_of_wrong_classes(pairs):
    made = rows(*map(list, zip(*pairs, strict=True)))
    (row,) = right_group_given_wrong_class(made, BORDER).to_dicts()
    assert across(made, BORDER)["correct"].sum() == made["correct"].sum() + row["inside"]
    (cost,) = severities(made, HIERARCHY).to_dicts()
    crossing = len(pairs) - across(made, BORDER)["correct"].sum()
    assert cost["severity"] * len(pairs) == pytest.approx(row["wrong"] + crossing)  # 1 within a group, 2 outside


def test_the_worked_example_of_the_documentation():
    costs = [[0, 1, 5, 5], [1, 0, 5, 5], [9, 9, 0, 1], [9, 9, 2, 0]]
    levels = {"group": {"animals": ["cat", "dog"], "vehicles": ["car", "truck"]}}
    hierarchy = hierarchy_of(["cat", "dog", "car", "truck"], levels, costs)
    made, border = rows([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 1, 2, 2, 3, 3, 0]), hierarchy.border()
    assert made["correct"].sum() == 4
    assert across(made, border)["correct"].sum() == 6
    (row,) = right_group_given_wrong_class(made, border).to_dicts()
    assert (row["inside"], row["wrong"], row["chance"]) == (2, 4, pytest.approx(1 / 3))
    assert (row["low"], row["high"]) == (pytest.approx(0.150, abs=5e-4), pytest.approx(0.850, abs=5e-4))
    (cost,) = severities(made, hierarchy).to_dicts()
    assert (cost["severity"], cost["half"]) == (2.0, pytest.approx(2.283, abs=5e-4))
    assert across(made, hierarchy.border(severity=5))["correct"].sum() == 6
    assert severities(made, hierarchy_of(hierarchy.classes, levels))["severity"].item() == 0.75
