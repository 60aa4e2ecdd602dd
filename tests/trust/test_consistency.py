"""Verdicts from rows: what the checks of one network say about each other."""

import dataclasses
import json
import math
from typing import ClassVar

import polars as pl
import pytest

from holdfast.attacks import EOT, FGSM, PGD, EightBit, Foolbox, Square, Targeted
from holdfast.checks import Check
from holdfast.earlier import TRAITS
from holdfast.errors import LedgerError
from holdfast.recipe import describe
from holdfast.threat import Linf
from holdfast.traits import Access, traits_of
from holdfast.trust import from_rows
from tests.contracts import cheap

TRIALS = 100
STEPS = pl.List(pl.Struct({"step": pl.String, "broke": pl.Boolean, "queries": pl.Int64}))


def rows(method, standing, *, eps=0.1, norm="linf", first=0, did=None, **fields):
    """A check of which the first examples stand; `first` is its first example, `did` what components did."""
    params = {"threat": {norm: {"eps": eps}}, **fields} if eps is not None else fields
    columns = {"check": f"{method} {norm} {eps} {fields}", "method": method, "norm": norm, "other": "ignored"}
    frame = pl.DataFrame(
        {"example": range(first, first + TRIALS), "steps": pl.Series(did or [None] * TRIALS, dtype=STEPS)}
    )
    named = {name: pl.lit(value) for name, value in {**columns, "params": json.dumps(params)}.items()}
    return frame.with_columns(correct=pl.col("example") - first < standing, **named)


def found(*parts):
    return {verdict.flag: verdict for verdict in from_rows(pl.concat(parts))}


def levels(*parts):
    return {flag: verdict.level for flag, verdict in found(*parts).items()}


def test_checks_that_cannot_be_compared_test_nothing():
    untested = dict.fromkeys(("chance", "eps", "convergence", "black-box"), "not tested")
    assert levels(rows("clean", 90, eps=None), rows("pgd", 80)) == untested
    assert levels(rows("gaussian_noise", 90, eps=None, sigma=0.1)) == untested
    assert levels(rows("pgd", 80, eps=0.1), rows("pgd", 90, eps=0.2, first=TRIALS)) == untested  # other examples
    assert levels(rows("pgd", 80, eps=0.1), rows("pgd", 90, eps=1.0, norm="l2")) == untested
    assert levels(rows("pgd", 80, eps=0.1, loss="dlr"), rows("pgd", 90, eps=0.2, loss="margin")) == untested
    for unbounded in (0, math.inf):
        assert levels(rows("fmn", 80, eps=0.1), rows("fmn", 90, eps=unbounded)) == untested


def test_rows_without_the_columns_of_composed_attacks_are_read_too():
    columns = ["check", "method", "params", "norm", "example", "correct"]
    frame = pl.concat([rows("pgd", 80), rows("pgd", 90, eps=0.2)]).select(columns)
    assert {verdict.flag: verdict.level for verdict in from_rows(frame)}["eps"] == "fail"


@pytest.mark.parametrize(("larger", "expected"), [(60, "pass"), (82, "pass"), (90, "fail")])
def test_a_larger_eps_must_break_more(larger, expected):
    parts = rows("pgd", 80, eps=0.1, step_size=0.01), rows("pgd", larger, eps=0.2, step_size=0.02)
    assert levels(*parts)["eps"] == levels(*parts[::-1])["eps"] == expected


def test_the_worst_of_several_pairs_is_reported():
    verdict = found(
        rows("pgd", 80, eps=0.1), rows("pgd", 70, eps=0.2), rows("bim", 70, eps=0.1), rows("bim", 95, eps=0.2)
    )["eps"]
    assert verdict.level == "fail"
    assert verdict.finding.startswith("bim")


def test_of_verdicts_on_one_level_the_one_furthest_from_its_limit_is_reported():
    failing = [rows("bim", 80, eps=0.1), rows("pgd", 70, eps=0.1), rows("bim", 95, eps=0.2), rows("pgd", 99, eps=0.2)]
    passing = [rows("bim", 80, eps=0.1), rows("pgd", 70, eps=0.1), rows("bim", 80, eps=0.2), rows("pgd", 71, eps=0.2)]
    for parts, level, share in ((failing, "fail", 0.29), (passing, "pass", 0.01)):
        verdict = found(*parts)["eps"]
        assert (verdict.level, verdict.value) == (level, share)
        assert verdict.finding.startswith("pgd")


def test_of_equal_verdicts_that_on_the_first_check_of_the_ledger_is_reported():
    order = (7, 3, 11, 5, 2, 13, 9, 1, 8, 12, 4, 10)
    black = [rows("square", 60, queries=queries) for queries in order]
    assert "'queries': 7}" in found(rows("pgd", 80), *black)["black-box"].finding
    composed = [rows("autoattack", 0, did=[did(False, True)] * TRIALS, seed=seed) for seed in order]
    assert "'seed': 7}" in found(*composed)["black-box"].finding


@pytest.mark.parametrize(
    ("harder", "standing", "expected"),
    [
        ({"steps": 400}, 60, "fail"),
        ({"steps": 80}, 60, "fail"),  # twice as hard
        ({"steps": 40, "restarts": 2}, 60, "fail"),
        ({"steps": 400}, 79, "pass"),
        ({"steps": 40, "restarts": 5}, 60, "fail"),
        ({"steps": 60}, 60, "not tested"),  # hardly harder
        ({"steps": 400, "loss": "dlr"}, 60, "not tested"),  # another attack
    ],
)
def test_more_effort_must_not_break_more(harder, standing, expected):
    assert levels(rows("pgd", 80, steps=40), rows("pgd", standing, **harder))["convergence"] == expected


def test_the_finding_names_both_attacks():
    easy, hard = rows("pgd", 80, steps=40), rows("pgd", 60, steps=400)
    stronger, weaker = hard["check"][0], easy["check"][0]
    finding = f"{stronger} breaks 20 of 100 examples that {weaker} leaves unbroken"
    assert found(easy, hard)["convergence"].finding == finding
    black, other = rows("square", 60), rows("apgd", 80)
    finding = f"{black['check'][0]} breaks 20 of 100 examples that {other['check'][0]} leaves unbroken"
    assert found(other, black)["black-box"].finding == finding
    finding = found(other, rows("pgd", 80), black)["black-box"].finding
    assert finding.endswith("breaks 20 of 100 examples that every white-box check of this budget leaves unbroken")


def test_only_the_hardest_two_of_many_are_compared():
    parts = [rows("pgd", standing, steps=steps) for steps, standing in ((10, 90), (100, 60), (1000, 60))]
    assert levels(*parts)["convergence"] == "pass"


def test_a_black_box_attack_must_not_break_what_white_box_ones_leave():
    assert levels(rows("pgd", 80), rows("square", 60))["black-box"] == "fail"
    assert levels(rows("pgd", 80), rows("square", 78))["black-box"] == "pass"
    assert levels(rows("pgd", 80), rows("apgd", 60), rows("square", 60))["black-box"] == "pass"
    assert levels(rows("pgd", 80), rows("square", 60, eps=0.2))["black-box"] == "not tested"
    assert levels(rows("fgsm", 80), rows("square", 60))["black-box"] == "not tested"  # a single step proves nothing


def did(white, black):
    return [{"step": "apgd-ce", "broke": white, "queries": 1}, {"step": "square", "broke": black, "queries": 1}]


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ([did(False, True)] * 20 + [did(True, None)] * 80, "fail"),  # only random search breaks a fifth
        ([did(False, False)] * 20 + [did(True, None)] * 80, "pass"),
        ([did(None, True)] * 100, "not tested"),  # it came first, so that nobody knows
        ([[{"step": "apgd-ce", "broke": False, "queries": 1}]] * 100, "not tested"),
    ],
)
def test_the_components_of_a_composed_attack_are_compared(each, expected):
    assert levels(rows("autoattack", 0, did=each))["black-box"] == expected


def components(**broke):
    return [{"step": step, "broke": outcome, "queries": 1} for step, outcome in broke.items()]


def test_one_component_of_several_is_enough_to_break_an_example():
    only_black = components(apgd=False, fab=False, square=False, simba=True)
    one_white = components(apgd=True, fab=False, square=None, simba=None)
    by_both = components(apgd=False, fab=True, square=True, simba=False)
    did = [only_black] * 20 + [one_white] * 50 + [by_both] * 30
    verdict = found(rows("pgd", 80), rows("autoattack", 0, did=did))["black-box"]
    assert verdict.level == "fail"
    assert "breaks 20 of 100 examples that the rest leaves unbroken" in verdict.finding


def test_a_composed_attack_on_one_example_is_judged():
    single = rows("autoattack", 0, did=[did(False, True)] * TRIALS).head(1)
    verdict = found(single)["black-box"]
    assert verdict.level == "pass"
    assert "breaks 1 of 1 examples" in verdict.finding


def test_a_check_that_examples_wait_for_is_not_compared():
    waiting = [did(False, None)] * 30 + [did(False, False)] * 70
    small, large = rows("autoattack", 0, eps=0.1), rows("autoattack", 100, eps=0.2)
    assert levels(small, large)["eps"] == "fail"
    unfinished = rows("autoattack", 30, eps=0.2, did=waiting)
    assert levels(small, unfinished)["eps"] == "not tested"
    assert levels(unfinished)["black-box"] == "not tested"  # of what is settled, most is broken


def test_params_that_are_no_json_are_named():
    with pytest.raises(LedgerError, match="check 'pgd linf"):
        from_rows(rows("pgd", 10).with_columns(params=pl.lit("{")))


@dataclasses.dataclass(frozen=True, kw_only=True)
class OfAPlugin:
    """An attack that no registry knows."""

    access: ClassVar = Access.GRADIENTS

    threat: Linf
    steps: int = 10


def of(attack, standing):
    """Rows of a check as evaluation writes them."""
    method, label, params = describe(attack, Check)
    stated = {"check": label, "method": method, "params": params, "norm": "linf", **traits_of(attack).columns()}
    frame = pl.DataFrame({"example": range(TRIALS), "correct": [n < standing for n in range(TRIALS)]})
    return frame.with_columns(pl.lit(value, TRAITS.get(name)).alias(name) for name, value in stated.items())


PLAIN = PGD(threat=Linf(0.1), steps=10)
WHITE = [
    *(
        pytest.param(make, id=name)
        for name, make in cheap.ATTACKS.items()
        if "linf" not in cheap.REFUSES.get(name, ())
        and name not in ("fgsm", "rfgsm", "targeted", "square", "simba", "spsa", "nes", "hopskipjump")
        and not name.startswith("hierarchical")  # whose survivors may have wrong classes of their own group
    ),
    pytest.param(lambda threat: EOT(attack=EightBit(attack=PGD(threat=threat, steps=5))), id="eot(eight_bit(pgd))"),
    pytest.param(lambda threat: OfAPlugin(threat=threat), id="an attack of a plug-in"),
]


@pytest.mark.parametrize("make", WHITE)
def test_every_white_box_attack_is_confronted_with_black_box_ones(make):
    # On a network whose gradient is zero it leaves everything, and random search nothing.
    parts = of(make(Linf(0.1)), 100), of(Square(threat=Linf(0.1)), 0)
    assert levels(*(part.select(parts[0].columns) for part in parts))["black-box"] == "fail"


@pytest.mark.parametrize("weak", [FGSM(threat=Linf(0.1)), Targeted(attack=PLAIN), Foolbox])
def test_a_single_step_and_a_single_target_are_no_evidence(weak):
    if weak is Foolbox:
        pytest.importorskip("foolbox")
        weak = Foolbox(attack="LinfFastGradientAttack", threat=Linf(0.1))
    assert levels(of(weak, 100), of(Square(threat=Linf(0.1)), 0))["black-box"] == "not tested"


def test_effort_is_seen_inside_wrappers():
    short, long = (EOT(attack=PGD(threat=Linf(0.1), steps=steps, step_size=0.01)) for steps in (10, 40))
    assert levels(of(short, 90), of(long, 60))["convergence"] == "fail"
    other = EOT(attack=PGD(threat=Linf(0.1), steps=40, step_size=0.01), draws=3)
    assert levels(of(short, 90), of(other, 60))["convergence"] == "not tested"  # another question, not more effort
    small, large = (EOT(attack=PGD(threat=Linf(eps), steps=10, step_size=0.01)) for eps in (0.1, 0.2))
    assert levels(of(small, 60), of(large, 90))["eps"] == "fail"


def test_examples_that_an_attack_could_not_run_on_are_left_out_and_the_check_is_not():
    # Boundary breaks the twenty last examples that PGD leaves, and could not run on the first twenty.
    reason = pl.when(pl.col("example") < 20).then(pl.lit("no starting point"))
    pgd = rows("pgd", 80, eps=1.0, norm="l2").with_columns(not_run=pl.lit(None, pl.String))
    walk = rows("boundary", 60, eps=1.0, norm="l2").with_columns(not_run=reason)
    verdict = found(pgd, walk)["black-box"]
    assert verdict.level == "fail"
    assert verdict.value == pytest.approx(20 / 80)  # of the eighty that both attacked
    assert levels(pgd, walk.with_columns(not_run=pl.lit("no starting point")))["black-box"] == "not tested"
