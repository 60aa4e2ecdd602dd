"""Checks of classes with a hierarchy: what the ledger keeps, and that without one nothing changes."""

import polars as pl
import pytest
import torch

import holdfast
from holdfast.attacks import FGSM, PGD, Hierarchical, HierarchicalHalving, HierarchicalPGD
from holdfast.corruptions import Clean
from holdfast.errors import RecipeError
from holdfast.hierarchy import hierarchy_of
from holdfast.parquet import to_parquet
from holdfast.results import SCHEMA, Ledger
from holdfast.results.groups import across
from holdfast.results.ledger import OF_HIERARCHIES
from holdfast.threat import Linf
from tests import zoo

X = zoo.images(60)
with torch.no_grad():
    Y = zoo.smooth(5)(X).argmax(1)
HIERARCHY = hierarchy_of(tuple("abcde"), {"group": {"x": ["a", "b"], "y": ["c", "d"], "z": ["e"]}})
LEAF = PGD(threat=Linf(0.2), steps=5)
TO_THE_END = PGD(threat=Linf(0.2), steps=5, until_lost=False)


def evaluated(checks, hierarchy=HIERARCHY, **options):
    return holdfast.evaluate(zoo.smooth(5), X, Y, checks, hierarchy=hierarchy, **options)


def group_right(results, check):
    """For each example, whether its group is right in a check."""
    (name,) = [name for name in results.rows["check"].unique() if name.startswith(f"{check} ")]
    rows = across(results.rows.filter(pl.col("check") == name), HIERARCHY.border())
    return rows.sort("example")["correct"]


def test_rows_say_how_many_gradients_a_check_took_and_whether_it_goes_to_the_end():
    rows = evaluated([Clean(), LEAF, TO_THE_END, FGSM(threat=Linf(0.2))]).rows
    ends = dict(rows.select("check", "to_the_end").unique().iter_rows())
    assert sorted(ends.values(), key=str) == [False, None, True, True]
    assert ends["clean"] is None
    by_check = {check: part["gradients"].to_list() for (check,), part in rows.group_by("check")}
    assert by_check["clean"] == [0] * len(X)
    (until_lost,) = [name for name, end in ends.items() if end is False]
    (persistent,) = [name for name, end in ends.items() if end and name.startswith("pgd")]
    assert by_check[persistent] == [5] * len(X)
    assert max(by_check[until_lost]) == 5 > min(by_check[until_lost])


def test_the_check_on_groups_breaks_more_groups_than_the_same_attack_on_classes():
    results = evaluated([LEAF, Hierarchical(attack=LEAF)])
    leaf, group = group_right(results, "pgd"), group_right(results, "hierarchical")
    assert int(group.sum()) < int(leaf.sum())


def test_all_attacks_on_groups_are_checks():
    threat = Linf(0.2)
    results = evaluated(
        [
            HierarchicalPGD(threat=threat, steps=3),
            HierarchicalHalving(threat=threat, steps=3, candidates=2, targets=1),
        ]
    )
    assert results.rows["check"].n_unique() == 2
    assert results.rows["gradients"].sum() > 0


def test_results_print_groups_beside_classes():
    text = str(evaluated([Clean(), LEAF, TO_THE_END]))
    for words in ("Group right", "Expected severity", "chance", "stops once it succeeds"):
        assert words in text
    assert "Group right" not in str(evaluated([Clean()], None))


def test_a_check_on_groups_needs_a_hierarchy():
    with pytest.raises(RecipeError, match="Hierarchical: expected data with a hierarchy"):
        evaluated([Hierarchical(attack=LEAF)], None)


def test_a_ledger_without_a_hierarchy_has_the_columns_and_the_bytes_of_earlier_versions(tmp_path):
    results = evaluated([Clean(), LEAF, FGSM(threat=Linf(0.2))], None, out=tmp_path / "run")
    ledger, former = Ledger(tmp_path / "run" / "ledger"), [name for name in SCHEMA if name not in OF_HIERARCHIES]
    assert len(ledger.parts()) == 3
    for path in ledger.parts():
        assert pl.read_parquet(path).columns == former
        assert path.read_bytes() == to_parquet(ledger.part(path.stem).select(former))
    assert results.rows["gradients"].null_count() == len(results.rows)


def test_a_ledger_with_a_hierarchy_is_read_back_as_it_was(tmp_path):
    first = evaluated([Clean(), TO_THE_END], out=tmp_path / "run")
    again = evaluated([Clean(), TO_THE_END], out=tmp_path / "run")
    assert again.rows.equals(first.rows)
    assert str(again) == str(first)


def test_a_hierarchy_of_its_own_is_a_few_letters_in_the_name_of_a_check():
    rows = evaluated([Hierarchical(attack=LEAF, hierarchy=HIERARCHY)], None).rows
    names = set(rows.filter(method="hierarchical")["check"])
    assert names == {f"hierarchical pgd linf eps=0.2 steps=5 hierarchy={HIERARCHY.digest[:8]}"}


def test_another_hierarchy_is_another_check(tmp_path):
    check = Hierarchical(attack=LEAF)
    first = evaluated([check], out=tmp_path / "one")
    other = hierarchy_of(tuple("abcde"), {"group": {"x": ["a", "c"], "y": ["b", "d", "e"]}})
    second = evaluated([check], other, out=tmp_path / "other")
    parts = [[path.name for path in Ledger(tmp_path / name / "ledger").parts()] for name in ("one", "other")]
    assert len(set(parts[0]) & set(parts[1])) == 1  # the clean images
    assert not first.rows["prediction"].equals(second.rows["prediction"])
