"""Mean corruption errors from ledgers."""

import json

import polars as pl
import pytest

from holdfast.checks import CHECKS
from holdfast.corruptions.bar import KINDS as BAR_KINDS
from holdfast.corruptions.common import STANDARD as KINDS
from holdfast.earlier import with_traits
from holdfast.errors import RecipeError
from holdfast.report.quantities import measured
from holdfast.results import SCHEMA
from holdfast.results.corruption_errors import ALEXNET, BAR, MCE, STANDARD, WANTED, corrupted


def rows(errors, *, run="a", method="common", examples=10, weights="best", **more):
    """Rows of a ledger: the first examples are wrong, as many as the error says."""
    made = []
    for (kind, severity), error in errors.items():
        params = json.dumps({"kind": kind, "severity": severity, **more}, sort_keys=True)
        for example in range(examples):
            right = example >= round(error * examples)
            made.append({
                "run": run, "weights": weights, "weights_hash": "h", "check": f"{method} {kind} {severity}",
                "method": method, "params": params, "example": example, "label": 0, "prediction": int(not right),
                "correct": right, "distance": 1.0, "norm": "l2", "queries": 1, "seconds": 0.0, "seed": 0,
            })  # fmt: skip
    return with_traits(pl.DataFrame(made, schema=SCHEMA))


def grid(value, severities=(1, 2, 3, 4, 5), kinds=STANDARD):
    return {(kind, s): value(kind, s) if callable(value) else value for kind in kinds for s in severities}


def test_the_names_are_those_of_the_corruptions():
    assert STANDARD == KINDS
    assert set(BAR) == set(BAR_KINDS)
    assert set(WANTED) == {name for name, kind in CHECKS.items() if hasattr(kind, "family")}


def test_the_mean_is_over_severities_and_then_over_kinds():
    (found,) = corrupted(rows(grid(lambda kind, s: 0.1 * s if kind == "fog" else 0.2)))
    assert found.of_kind("fog") == pytest.approx(0.3)
    assert found.mean() == pytest.approx((0.3 + 14 * 0.2) / 15)
    assert found.examples == 10


def test_a_reference_divides_each_kind():
    (found,) = corrupted(rows(grid(lambda kind, s: 0.3 if kind == "fog" else 0.2)))
    (other,) = corrupted(rows(grid(0.5), run="b"))
    assert found.mean(other) == pytest.approx((0.6 + 14 * 0.4) / 15)
    assert other.mean(other) == pytest.approx(1)
    expected = sum((0.3 if kind == "fog" else 0.2) / base for kind, base in ALEXNET.items()) / 15
    assert found.mean(ALEXNET) == pytest.approx(expected)


def test_alexnet_against_itself_is_1():
    (found,) = corrupted(rows(grid(lambda kind, s: round(ALEXNET[kind], 2)), examples=100))
    assert found.mean(ALEXNET) == pytest.approx(1, abs=0.01)


def test_severities_that_a_kind_lacks_are_left_out_everywhere():
    errors = grid(lambda kind, s: 0.1 * s)
    del errors["snow", 5]
    (found,) = corrupted(rows(errors))
    assert found.severities == (1, 2, 3, 4)
    assert found.mean() == pytest.approx(0.25)
    (other,) = corrupted(rows(grid(0.5, severities=(2, 3)), run="b"))
    assert found.mean(other) == pytest.approx(0.5)


def test_a_missing_kind_leaves_no_mean():
    errors = {key: value for key, value in grid(0.2).items() if key[0] != "frost"}
    (found,) = corrupted(rows(errors))
    assert found.mean() is None
    (whole,) = corrupted(rows(grid(0.2), run="b"))
    assert whole.mean(found) is None


def test_a_reference_without_errors_is_refused():
    (found,) = corrupted(rows(grid(0.2)))
    (perfect,) = corrupted(rows(grid(0.0), run="b"))
    with pytest.raises(RecipeError, match="the reference makes no error on some kind"):
        found.mean(perfect)


def test_c_bar_has_a_mean_of_its_own_ten_kinds():
    (found,) = corrupted(rows(grid(lambda kind, s: 0.4 if kind == "ripple" else 0.2, kinds=BAR), method="bar"))
    assert found.mean() == pytest.approx(0.22)
    assert found.mean(ALEXNET) is None
    (part,) = corrupted(rows(grid(0.2, kinds=("ripple", "lines")), method="bar"))
    assert part.mean() is None


def test_extra_kinds_change_neither_the_mean_nor_its_interval():
    errors = grid(lambda kind, s: 0.1 * s)
    (plain,) = corrupted(rows(errors))
    (more,) = corrupted(rows({**errors, ("spatter", 1): 0.9}))
    assert more.severities == (1, 2, 3, 4, 5)
    assert more.mean() == pytest.approx(plain.mean())
    assert more.half == pytest.approx(plain.half)
    assert more.of_kind("spatter") == pytest.approx(0.9)


def test_alexnet_divides_only_means_over_all_severities():
    (part,) = corrupted(rows(grid(0.2, severities=(1, 3))))
    assert part.mean() == pytest.approx(0.2)
    assert part.mean(ALEXNET) is None


def test_stored_directories_are_apart():
    found = corrupted(pl.concat([rows(grid(v), method="stored", path=path) for v, path in ((0.1, "x"), (0.3, "y"))]))
    assert [(one.source, round(one.mean(), 6)) for one in found] == [("x", 0.1), ("y", 0.3)]


def test_only_examples_that_all_checks_saw_count():
    whole = rows(grid(0.2))
    partly = whole.filter(
        ~((pl.col("check") == "common fog 3") & (pl.col("example") < 2))
    )  # the wrong ones are missing
    (found,) = corrupted(partly)
    assert found.examples == 8
    assert found.mean() == 0


def test_runs_weights_and_families_are_apart_and_others_are_ignored():
    parts = [
        rows(grid(0.1)),
        rows(grid(0.2), run="b"),
        rows(grid(0.3), weights="last"),
        rows(grid(0.4), method="stored"),
    ]
    frame = pl.concat([*parts, rows({("x", 1): 0.5}, method="pgd")])
    assert [(one.run, one.weights, one.family, round(one.mean(), 6)) for one in corrupted(frame)] == [
        ("a", "best", "common", 0.1), ("b", "best", "common", 0.2), ("a", "last", "common", 0.3),
        ("a", "best", "stored", 0.4),
    ]  # fmt: skip
    assert corrupted(parts[0].filter(pl.col("method") == "pgd")) == ()


def test_the_interval_is_that_of_examples():
    (found,) = corrupted(rows(grid(0.5), examples=100))
    assert found.half == pytest.approx(1.96 * 0.5 / 10, rel=0.01)  # half of them wrong everywhere


def test_it_is_one_of_the_quantities_of_a_run():
    (one,) = measured(rows(grid(0.2)))
    assert one.values[MCE] == pytest.approx(0.2)
