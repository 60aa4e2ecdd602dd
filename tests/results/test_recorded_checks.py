"""What a ledger says of a check is enough to know its threat."""

import json

import pytest

from holdfast.checks import Check as AnyCheck
from holdfast.recipe import describe
from holdfast.report.unfinished import counts_in
from holdfast.results.recorded_checks import Budget, Check, fraction
from holdfast.traits import finite, traits_of
from tests.contracts.cheap import ATTACKS, REFUSES, THREATS

MADE = [(name, norm) for name in ATTACKS for norm in THREATS if norm not in REFUSES.get(name, ())]


@pytest.mark.parametrize(("name", "norm"), MADE)
def test_every_attack_leaves_its_threat_in_the_ledger_and_in_its_name(name, norm):
    attack = ATTACKS[name](THREATS[norm])
    method, label, params = describe(attack, AnyCheck)
    budget = Budget(norm, float(attack.threat.eps))
    assert Check(label, method, json.loads(params), traits_of(attack)).threat == budget
    assert counts_in(label, budget, None)
    assert not counts_in(label, Budget("other", budget.size), None)


def test_a_name_counts_from_its_eps_on_and_below_it_only_if_the_attack_minimises_a_distance():
    assert [counts_in("pgd linf eps=8/255 steps=20", Budget("linf", n / 255), None) for n in (4, 8, 16)] == [
        False,
        True,
        True,
    ]
    assert counts_in("eight_bit fmn l2 eps=2", Budget("l2", 0.5), None)
    assert counts_in("clean", Budget("l2", 0.5), None)
    assert not counts_in("uniform_noise eps=0.1", Budget("linf", 0.5), None)


@pytest.mark.parametrize(
    ("eps", "text"), [(8 / 255, "8/255"), (0.5, "0.5"), (0.1, "0.1"), (12.0, "12"), (1 / 3, "85/255")]
)
def test_budgets_are_written_as_usual(eps, text):
    assert fraction(eps) == text


@pytest.mark.parametrize("value", [True, None, "1", float("nan"), float("inf")])
def test_only_finite_numbers_are_numbers(value):
    assert finite(value) is None
