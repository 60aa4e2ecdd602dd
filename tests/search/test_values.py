"""What the rows of a ledger come to."""

import polars as pl
import pytest

from holdfast.checks import CHECKS, Check
from holdfast.earlier import with_traits
from holdfast.errors import LedgerError
from holdfast.recipe import describe
from holdfast.results import SCHEMA
from holdfast.search import Goal
from holdfast.search.values import summary
from holdfast.threat import L2

NOISE = CHECKS["gaussian_noise"]
FEW, MANY = NOISE(sigma=0.1), NOISE(sigma=0.2)


def rows(*checks):
    """Rows of checks: the check or a name, whether each example is right, losses, radii, and perhaps distances."""
    made = []
    for check, correct, loss, radius, *distance in checks:
        method, name, params = (check, check, "{}") if isinstance(check, str) else describe(check, Check)
        about = {"run": "a", "weights": "best", "check": name, "method": method, "params": params}
        far = distance[0] if distance else [0.0] * len(correct)
        columns = zip(correct, loss, radius, far, strict=True)
        made += [
            {**about, "example": i, "correct": c, "loss": ls, "radius": r, "distance": d}
            for i, (c, ls, r, d) in enumerate(columns)
        ]
    return with_traits(pl.DataFrame(made, schema=SCHEMA))


LEDGER = rows(
    (FEW, [True, True, False, True], [0.1, 0.2, 3.0, 0.3], [None] * 4),
    (MANY, [True, False, True, True], [0.2, 4.0, 0.1, 0.5], [None] * 4),
    ("another check", [False] * 4, [9.0] * 4, [None] * 4),
)


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (Goal(checks=(FEW,)), 0.75),
        (Goal(checks=(FEW, MANY)), 0.5),  # examples 0 and 3 hold in both
        (Goal(checks=(FEW, MANY), over="mean"), 0.75),
        (Goal(checks=(FEW, MANY), score="error"), 0.5),
        (Goal(checks=(FEW, MANY), score="error", over="mean"), 0.25),
        (Goal(checks=(MANY,), score="loss"), 1.2),
        (Goal(checks=(FEW, MANY), score="loss"), (0.2 + 4.0 + 3.0 + 0.5) / 4),
    ],
)
def test_rows_come_to_the_number_by_hand(goal, expected):
    assert summary(LEDGER, goal) == pytest.approx(expected, abs=1e-12)


def test_radii_of_wrong_answers_count_as_zero():
    proofs = rows((FEW, [True, False, True], [None] * 3, [1.0, 5.0, 0.5]))
    assert summary(proofs, Goal(checks=(FEW,), score="radius")) == pytest.approx(0.5)


def test_the_reach_of_a_minimum_distance_attack_does_not_decide_a_goal():
    none = [0.5] * 4, [None] * 4
    strong, far = CHECKS["pgd"](threat=L2(0.5)), CHECKS["fmn"](threat=L2(2.0))
    noisy = [True, True, True, False]
    ledger = rows(
        (FEW, noisy, *none), (strong, [True, False, True, True], *none), (far, [False] * 4, *none, [0.4, 0.6, 1.0, 2.0])
    )
    assert summary(ledger, Goal(checks=(strong, far))) == 0.5  # fmn breaks the first within 0.5, pgd the second
    assert summary(ledger, Goal(checks=(FEW, strong, far))) == 0.25  # noise counts where the goal names it
    assert summary(ledger, Goal(checks=(far,))) == 0.0
    assert summary(ledger, Goal(checks=(strong, far), score="error")) == 0.5


def test_a_quantity_that_a_check_lacks_is_refused():
    with pytest.raises(LedgerError, match="has no radius"):
        summary(LEDGER, Goal(checks=(FEW,), score="radius"))


@pytest.mark.parametrize("score", ["accuracy", "error"])
def test_an_example_that_could_not_be_attacked_is_no_value(score):
    reason = pl.when((pl.col("example") == 3) & (pl.col("check") == describe(MANY, Check)[1])).then(
        pl.lit("no starting point")
    )
    open_ = LEDGER.with_columns(not_run=reason)
    with pytest.raises(LedgerError, match=r"could not run on 1 of 4 examples \(no starting point\)"):
        summary(open_, Goal(checks=(FEW, MANY), score=score))
    assert summary(open_, Goal(checks=(FEW,), score=score)) == summary(LEDGER, Goal(checks=(FEW,), score=score))


def test_losses_and_errors_are_better_small_unless_said_otherwise():
    assert [Goal(score=s).maximize for s in ("accuracy", "robust_accuracy", "loss")] == [True, True, False]
    assert not Goal(score="error", checks=(FEW,)).maximize
    assert Goal(score="loss", direction="maximize").maximize
    with pytest.raises(ValueError, match="test needs checks"):
        Goal(split="test")
