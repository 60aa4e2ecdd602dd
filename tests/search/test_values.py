"""What the rows of a ledger come to."""

import polars as pl
import pytest

from holdfast.checks import CHECKS, Check
from holdfast.errors import LedgerError
from holdfast.recipe import describe
from holdfast.search import Goal
from holdfast.search.values import summary

NOISE = CHECKS["gaussian_noise"]
FEW, MANY = NOISE(sigma=0.1), NOISE(sigma=0.2)


KINDS = {"check": pl.String, "example": pl.Int64, "correct": pl.Boolean, "loss": pl.Float64, "radius": pl.Float64}


def rows(*checks):
    """Rows of checks: label, whether each example is right, losses and radii."""
    made = []
    for check, correct, loss, radius in checks:
        columns = zip(correct, loss, radius, strict=True)
        made += [(check, example, *values) for example, values in enumerate(columns)]
    return pl.DataFrame(made, schema=KINDS, orient="row")


def label(check):
    return describe(check, Check)[1]


LEDGER = rows(
    (label(FEW), [True, True, False, True], [0.1, 0.2, 3.0, 0.3], [None] * 4),
    (label(MANY), [True, False, True, True], [0.2, 4.0, 0.1, 0.5], [None] * 4),
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
    proofs = rows((label(FEW), [True, False, True], [None] * 3, [1.0, 5.0, 0.5]))
    assert summary(proofs, Goal(checks=(FEW,), score="radius")) == pytest.approx(0.5)


def test_a_quantity_that_a_check_lacks_is_refused():
    with pytest.raises(LedgerError, match="has no radius"):
        summary(LEDGER, Goal(checks=(FEW,), score="radius"))


def test_losses_and_errors_are_better_small_unless_said_otherwise():
    assert [Goal(score=s).maximize for s in ("accuracy", "robust_accuracy", "loss")] == [True, True, False]
    assert not Goal(score="error", checks=(FEW,)).maximize
    assert Goal(score="loss", direction="maximize").maximize
    with pytest.raises(ValueError, match="test needs checks"):
        Goal(split="test")
