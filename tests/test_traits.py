"""Traits are read from methods, through wrappers, and those that ledgers of earlier versions imply are the same."""

import dataclasses

import pytest

from holdfast.attacks import EOT, FAB, FMN, PGD, EightBit, Square, Targeted, Transfer
from holdfast.certify import GaussianSmoothing, Margin
from holdfast.checks import CHECKS, Check
from holdfast.corruptions import Clean, Common, GaussianNoise, Linear, UniformNoise
from holdfast.corruptions.stored import Stored
from holdfast.earlier import parsed, traits_of_name
from holdfast.recipe import describe
from holdfast.threat import L2, Linf
from holdfast.traits import Access, Kind, Traits, traits_of
from tests.contracts import cheap

SQUARE = Square(threat=Linf(0.1), queries=5)


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        (Clean(), {"kind": "clean"}),
        (GaussianNoise(variance=0.04), {"kind": "corruption", "axis": "sigma", "size": 0.2}),
        (UniformNoise(0.1), {"kind": "corruption", "axis": "linf", "size": 0.1}),
        (Linear(0.3), {"kind": "corruption", "axis": "grey", "size": 0.7}),
        (Common("fog", 2), {"kind": "corruption", "family": "common corruptions"}),
        (Stored(path="c", kind="fog", severity=1), {"kind": "corruption", "family": "stored corruptions"}),
        (Margin(), {"kind": "certificate", "certifies": "network"}),
        (GaussianSmoothing(sigma=0.1), {"kind": "certificate", "certifies": "smoothed network"}),
    ],
)
def test_what_is_no_attack_states_kind_axis_and_size(check, expected):
    assert traits_of(check) == Traits(**expected)


@pytest.mark.parametrize(
    ("attack", "access", "thorough", "minimises"),
    [
        (PGD(threat=Linf(0.1), steps=5), "gradients", True, False),
        (EOT(attack=EightBit(attack=SQUARE, repairs=0)), "scores", True, False),
        (EightBit(attack=SQUARE, repairs=2), "gradients", True, False),  # repairs follow the gradient
        (Targeted(attack=FAB(threat=L2(0.5), steps=3)), "gradients", False, True),
        (FAB(threat=L2(0.5), steps=3, until_lost=True), "gradients", True, False),
        (Transfer(attack=PGD(threat=Linf(0.1), steps=5, until_lost=False), source="runs/a"), "nothing", True, False),
        (FMN(threat=L2(2.0), steps=2), "gradients", True, True),
    ],
)
def test_wrappers_have_the_traits_of_what_they_wrap_but_for_those_that_they_state(attack, access, thorough, minimises):
    traits = traits_of(attack)
    assert (traits.kind, traits.access, traits.thorough, traits.minimises) == ("attack", access, thorough, minimises)


def test_an_attack_that_states_nothing_is_of_unknown_access():
    @dataclasses.dataclass(frozen=True)
    class Mine:
        threat: Linf

    assert traits_of(Mine(Linf(0.1))) == Traits(
        kind=Kind.ATTACK, access=None, thorough=True, minimises=False, axis="linf", size=0.1
    )


LATER = {"hierarchical", "hierarchical_pgd", "hierarchical_halving", "group_certificate"}
"""Methods that are younger than the traits in ledgers, and not implied by their names."""


def instances():
    for family in (cheap.ATTACKS, cheap.CORRUPTIONS, cheap.CERTIFIERS):
        for name, make in family.items():
            if name in LATER:
                continue
            if family is not cheap.ATTACKS:
                yield pytest.param(make, id=name)
                continue
            for norm, threat in cheap.THREATS.items():
                if norm not in cheap.REFUSES.get(name, ()):
                    yield pytest.param(lambda make=make, threat=threat: make(threat), id=f"{name} {norm}")


@pytest.mark.parametrize("make", list(instances()))
def test_what_ledgers_of_earlier_versions_imply_is_what_methods_state(make):
    check = make() if callable(make) and not hasattr(make, "__dataclass_fields__") else make
    check = getattr(check, "certifier", check)
    method, label, params = describe(check, Check)
    certificate = traits_of(check).kind == Kind.CERTIFICATE
    assert traits_of_name(method, parsed(label, params), certificate=certificate) == traits_of(check)


def test_every_attack_states_an_access():
    for name, kind in CHECKS.items():
        if hasattr(kind, "threat") or "threat" in getattr(kind, "__dataclass_fields__", {}):
            assert hasattr(kind, "access") or hasattr(kind, "wraps"), name
    assert {str(access) for access in Access} == {"gradients", "scores", "decisions", "nothing"}
