"""Which attack a question is about."""

from types import SimpleNamespace

import pytest

from holdfast.attacks import APGD, FGSM, PGD
from holdfast.attacks.usual import usual
from holdfast.corruptions import Clean
from holdfast.questions.attack import chosen_attack, norm_of
from holdfast.threat import L1, L2, Linf

FIRST = PGD(threat=L2(0.4), steps=3)


def chosen(*checks, norm=None, eps=None):
    return chosen_attack(SimpleNamespace(checks=checks), norm, eps)


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (chosen(Clean(), FGSM(threat=Linf(0.2)), FIRST), FIRST),
        (chosen(Clean(), FGSM(threat=L1(2.0))), usual(L1(2.0))),
        (chosen(Clean()), usual(Linf(8 / 255))),
        (chosen(FIRST, eps=0.1), usual(Linf(0.1))),
        (chosen(FIRST, norm="l2", eps=0.1), usual(L2(0.1))),
    ],
)
def test_the_stated_budget_comes_before_the_attack_of_the_run_and_that_before_the_usual_one(attack, expected):
    assert type(attack) is type(expected)
    assert (attack.threat, attack.steps) == (expected.threat, expected.steps)
    assert not attack.until_lost


def test_the_usual_attack_in_l1_searches_longer():
    assert usual(L2(1.0)) == APGD(threat=L2(1.0), steps=50)
    assert usual(L1(1.0)) == APGD(threat=L1(1.0), steps=100, restarts=5)


def test_norms_are_named_as_in_recipes():
    assert [norm_of(kind(1.0)) for kind in (Linf, L2, L1)] == ["linf", "l2", "l1"]
