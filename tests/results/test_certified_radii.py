"""Tables by hand, the area against its definition, and certificates that other checks refute."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.earlier import with_traits
from holdfast.results import SCHEMA, accuracies
from holdfast.results.certified_radii import (
    average_certified_radius,
    certified_accuracy,
    certified_area,
    contradictions,
    nearest_breaks,
    round_radii,
    round_step,
)
from holdfast.statistics import wilson


def rows(outcomes, *, check="margin", method="margin", norm="l2", run="a", weights="best", label=0):
    """Rows of one check; an outcome is (prediction, distance or radius)."""
    certificate = method in {"margin", "smoothing"}
    one = {
        "run": run, "weights": weights, "weights_hash": "00", "check": check, "method": method, "params": "{}",
        "label": label, "norm": norm, "queries": 3, "seconds": 0.5, "seed": 0, "by": None, "steps": None,
    }  # fmt: skip
    each = [
        {
            "example": number,
            "prediction": prediction,
            "correct": prediction == label,
            "loss": None if certificate else 0.5,
            "distance": 0.0 if certificate else value,
            "radius": value if certificate else None,
        }
        for number, (prediction, value) in enumerate(outcomes)
    ]
    return with_traits(pl.DataFrame([one | more for more in each], schema=SCHEMA))


# Right at 0.1, 0.3 and 0.3, wrong with a radius, and no answer.
FIVE = [(0, 0.1), (0, 0.3), (1, 0.9), (-1, 0.0), (0, 0.3)]


def test_certified_accuracy_counts_right_answers_whose_radius_reaches():
    found = certified_accuracy(rows(FIVE), [0.0, 0.1, 0.2, 0.3, 0.31])
    assert found["at"].to_list() == [0, 0.1, 0.2, 0.3, 0.31]
    assert found["correct"].to_list() == [3, 3, 2, 2, 0]
    assert found["accuracy"].to_list() == [0.6, 0.6, 0.4, 0.4, 0]
    assert (found["low"][2], found["high"][2]) == (wilson(2, 5).low, wilson(2, 5).high)


def test_runs_weights_and_checks_are_apart_and_other_checks_are_ignored():
    together = pl.concat(
        [
            rows(FIVE),
            rows(FIVE[:2], run="b"),
            rows(FIVE[:1], weights="last"),
            rows(FIVE[1:], check="s", method="smoothing"),
            rows([(0, 0.2)], check="pgd", method="pgd"),
        ]
    )
    found = certified_accuracy(together, [0.2])
    assert found.select("run", "weights", "check", "examples", "correct").rows() == [
        ("a", "best", "margin", 5, 2), ("b", "best", "margin", 2, 1), ("a", "last", "margin", 1, 0),
        ("a", "best", "s", 4, 2),
    ]  # fmt: skip
    for table in (average_certified_radius(together), certified_area(together, 0.1)):
        assert table.select("run", "weights", "check").rows() == found.select("run", "weights", "check").rows()


def test_the_average_radius_counts_wrong_and_missing_answers_as_0():
    (row,) = average_certified_radius(rows(FIVE)).to_dicts()
    counted = np.array([0.1, 0.3, 0, 0, 0.3])
    half = 1.959964 * counted.std(ddof=1) / np.sqrt(5)
    assert row["average"] == pytest.approx(0.14)
    assert (row["low"], row["high"]) == pytest.approx((max(0.14 - half, 0), 0.14 + half), abs=1e-6)
    assert (row["examples"], row["correct"], row["abstained"], row["largest"]) == (5, 3, 1, 0.3)
    assert (row["queries"], row["seconds"]) == (3, 2.5)


def test_one_example_has_an_average_without_an_interval():
    (row,) = average_certified_radius(rows(FIVE[:1])).to_dicts()
    assert (row["average"], row["low"], row["high"]) == (0.1, None, None)


OUTCOMES = st.lists(
    st.one_of(st.tuples(st.integers(0, 2), st.floats(0, 3)), st.just((-1, 0.0))), min_size=1, max_size=30
)


@settings(max_examples=30)
@given(outcomes=OUTCOMES, step=st.floats(0.01, 1.0))
def test_the_area_is_the_sum_of_trapezoids_and_near_the_average(outcomes, step):
    frame = rows(outcomes)
    area = certified_area(frame, step)["area"].item()
    grid = step * np.arange(int(3 / step) + 3)
    curve = certified_accuracy(frame, grid.tolist())["accuracy"].to_numpy()
    # A radius within rounding of a point of the grid may count on either side of it.
    near = sum(p == 0 and abs(r / step - round(r / step)) < 1e-9 for p, r in outcomes) / len(outcomes)
    assert area == pytest.approx(0.5 * step * (curve[1:] + curve[:-1]).sum(), abs=1e-9 + step * near)
    (row,) = average_certified_radius(frame).to_dicts()
    assert abs(area - row["average"]) <= step / 2 * row["correct"] / row["examples"] + 1e-9


def test_an_area_needs_a_width():
    with pytest.raises(ValueError, match="step must be positive and finite, got 0"):
        certified_area(rows(FIVE), 0.0)


@settings(max_examples=30)
@given(outcomes=OUTCOMES, low=st.floats(0, 3), high=st.floats(0, 3))
def test_certified_accuracy_never_grows_with_the_radius_and_starts_at_the_accuracy(outcomes, low, high):
    frame = rows(outcomes)
    found = dict(certified_accuracy(frame, [0.0, low, high]).select("at", "accuracy").iter_rows())
    assert found[0] == accuracies(frame)["accuracy"].item()
    assert found[0] >= found[min(low, high)] >= found[max(low, high)]


def test_a_radius_said_twice_counts_once():
    assert certified_accuracy(rows(FIVE), [0.2, 0.2])["correct"].to_list() == [2]


def test_an_attack_inside_the_radius_refutes_it():
    attacks = [(1, 0.05), (0, 0.2), (1, 0.0), (1, 0.1), (1, 0.29)]
    found = contradictions(pl.concat([rows(FIVE), rows(attacks, check="fmn", method="fmn")]))
    # Example 0 at 0.05 of 0.1 and 4 at 0.29 of 0.3. 2 is wrong in both alike, 3 has no answer, 1 was not broken.
    assert found.select("example", "radius", "distance", "found_by", "found").rows() == [
        (0, 0.1, 0.05, "fmn", 1), (4, 0.3, 0.29, "fmn", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 1),
        ({"norm": "linf"}, 0),  # a change that is small in linf may be long in l2
        ({"norm": "l1"}, 1),  # but none is longer in l2 than in l1
        ({"run": "b"}, 0),
        ({"weights": "last"}, 0),
        ({"check": "noise", "method": "gaussian_noise"}, 1),  # a point is a point, whoever found it
    ],
)
def test_only_points_of_the_same_network_that_are_surely_so_near_refute(changes, count):
    attack = rows([(1, 0.05)], **{"check": "fmn", "method": "fmn"} | changes)
    assert len(contradictions(pl.concat([rows([(0, 0.1)]), attack]))) == count


def test_the_image_itself_refutes_in_every_norm():
    clean = rows([(1, 0.0)], check="clean", method="clean")
    assert len(contradictions(pl.concat([rows([(0, 0.1)], norm="linf"), clean]))) == 1


def test_a_wrong_answer_is_certified_too():
    attack = rows([(2, 0.05)], check="fmn", method="fmn")
    assert len(contradictions(pl.concat([rows([(1, 0.1)]), attack]))) == 1


def test_nothing_refutes_a_certificate_of_the_smoothed_network():
    attack = rows([(1, 0.05)], check="fmn", method="fmn")
    assert contradictions(pl.concat([rows([(0, 0.1)], check="s", method="smoothing"), attack])).is_empty()


@settings(max_examples=40)
@given(radius=st.floats(1e-4, 10), share=st.floats(0, 2))
def test_rounding_alone_never_refutes(radius, share):
    attack = rows([(1, share * radius)], check="fmn", method="fmn")
    found = len(contradictions(pl.concat([rows([(0, radius)]), attack])))
    assert found == 0 if share >= 0.9995 else found == 1 if share < 0.89 else True


def test_the_nearest_break_is_over_all_checks_in_the_norm():
    frame = pl.concat(
        [
            rows([(0, 0.1), (0, 0.1), (0, 0.1), (1, 0.2), (-1, 0.0)], norm="linf"),
            rows([(1, 0.4), (1, 0.2), (0, 0.3), (0, 0.1), (0, 0.5)], check="pgd", method="pgd", norm="linf"),
            rows([(1, 0.3), (0, 0.0), (0, 0.3), (0, 0.1), (0, 0.5)], check="fmn", method="fmn", norm="linf"),
            rows([(1, 0.1), (0, 0.1), (0, 0.1), (1, 0.1), (0, 0.1)], check="l2", method="pgd", norm="l2"),
            rows([(0, 0.0), (1, 0.0), (0, 0.0), (0, 0.0), (0, 0.0)], check="clean", method="clean", norm="l2"),
            rows([(1, 0.0)] * 5, check="s", method="smoothing", norm="linf"),
        ]
    )
    # The certificate itself says that 3 is wrong; that 4 has no answer says nothing.
    assert nearest_breaks(frame, "linf").sort("example")["distance"].to_list() == [0.1, 0.0, None, 0.0, None]
    assert nearest_breaks(frame, "l1").sort("example")["distance"].to_list() == [None, 0.0, None, 0.0, None]


def test_accuracies_tell_abstentions_and_the_average_radius():
    found = accuracies(pl.concat([rows(FIVE), rows([(0, 0.2)] * 5, check="p", method="pgd")]))
    assert found.select("check", "correct", "abstained").rows() == [("margin", 3, 1), ("p", 5, 0)]
    assert found["radius"].to_list() == [pytest.approx(0.14), None]


@pytest.mark.parametrize(
    ("largest", "radii"),
    [
        (0.0, [0]),
        (2.0, [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2]),
        (0.0155, [0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.012, 0.014]),
        (0.55, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
    ],
)
def test_radii_are_round(largest, radii):
    assert list(round_radii(largest)) == radii


@given(largest=st.floats(1e-6, 1e6), count=st.integers(4, 200))
def test_round_radii_are_about_as_many_as_asked_for_and_reach_nearly_to_the_largest(largest, count):
    radii = round_radii(largest, count)
    assert radii[-1] <= largest * (1 + 1e-9)
    assert largest - radii[-1] <= round_step(largest, count) * (1 + 1e-9)
    assert count / 1.7 <= len(radii) <= 1.7 * count + 1
