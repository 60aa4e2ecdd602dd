"""One number per threat: by hand, against its definition example by example, and monotone in the budget."""

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.earlier import with_traits
from holdfast.results import SCHEMA, accuracies
from holdfast.results.recorded_checks import Budget
from holdfast.results.worst_case import survivors, threats, title, within, worst_case

T, F = True, False
STEP = {"step": "b", "broke": None, "queries": None, "seconds": None}


def rows(correct, *, method="clean", params=None, run="a", weights="best", first=0, distance=None, **columns):
    """Rows of one check, one per entry of `correct`."""
    return with_traits(pl.DataFrame(
        [
            {
                "run": run, "weights": weights, "weights_hash": "0", "check": f"{method} {json.dumps(params)}",
                "method": method, "params": json.dumps(params or {}), "example": first + i, "label": 0,
                "prediction": 0 if right else 1, "correct": right, "loss": 0.5, "norm": "l2",
                "distance": 0.0 if distance is None else distance[i], "queries": 1, "seconds": 0.1, "seed": 0,
                **{name: values[i] for name, values in columns.items()},
            }
            for i, right in enumerate(correct)
        ],
        schema=SCHEMA,
    ))  # fmt: skip


def attack(correct, eps, *, norm="linf", method="pgd", **options):
    return rows(correct, method=method, params={"threat": {norm: {"eps": eps}}}, **options)


def nearest(distance, eps, *, norm="l2", method="fmn", **options):
    """A minimum-distance attack; None is an example it does not break."""
    far = [0.0 if one is None else one for one in distance]
    return attack([one is None for one in distance], eps, norm=norm, method=method, distance=far, **options)


def numbers(frame):
    """How many examples survive, by run, norm and eps."""
    return {(row["run"], row["norm"], row["eps"]): row["correct"] for row in worst_case(frame).to_dicts()}


def test_one_attack_with_a_large_budget_leaves_smaller_budgets_alone():
    # AutoAttack at 0.5 breaks one of four; fmn breaks all within 2, but only one of them within 0.5.
    frame = pl.concat([
        rows([T] * 4), attack([T, T, T, F], 0.5, norm="l2", method="autoattack"), nearest([0.4, 0.9, 1.2, 1.9], 2.0),
    ])  # fmt: skip
    assert numbers(frame) == {("a", "l2", 0.5): 2, ("a", "l2", 2.0): 0}


def test_an_attack_counts_in_every_larger_ball_of_its_norm_and_in_no_smaller_one():
    frame = pl.concat([rows([T] * 4), attack([F, T, T, T], 0.1), attack([T, T, F, T], 0.3), attack([T, T, T, F], 0.2)])
    assert numbers(frame) == {("a", "linf", 0.1): 3, ("a", "linf", 0.2): 2, ("a", "linf", 0.3): 1}


def test_norms_are_apart():
    frame = pl.concat([rows([T, T]), attack([F, T], 0.1), attack([F, F], 0.05, norm="l2")])
    assert numbers(frame) == {("a", "linf", 0.1): 1, ("a", "l2", 0.05): 0}
    assert worst_case(frame)["check"].to_list() == ["worst case, linf eps=0.1", "worst case, l2 eps=0.05"]


def test_noise_corruptions_and_certificates_belong_to_no_threat():
    frame = pl.concat([
        rows([T, T, T]), attack([T, T, F], 0.1),
        rows([F, T, T], method="gaussian_noise", params={"sigma": 0.1}),
        rows([F, T, T], method="uniform_noise", params={"eps": 0.1}),
        rows([T, F, T], method="common", params={"kind": "fog", "severity": 5}),
        rows([F, F, F], method="margin", params={"norm": "linf"}, radius=[0.0] * 3),
    ])  # fmt: skip
    assert numbers(frame) == {("a", "linf", 0.1): 2}
    assert [[name.split()[0] for name in names] for names in worst_case(frame)["checks"]] == [["clean", "pgd"]]
    assert worst_case(frame.filter(pl.col("method") != "pgd")).is_empty()


def test_clean_images_count_in_every_threat():
    frame = pl.concat([rows([F, T]), attack([T, T], 0.1), attack([T, T], 1.0, norm="l1")])
    assert numbers(frame) == {("a", "linf", 0.1): 1, ("a", "l1", 1.0): 1}


@pytest.mark.parametrize(
    "params",
    [
        {"attack": {"pgd": {"threat": {"linf": {"eps": 0.1}}}}, "draws": 5},
        {"attack": {"targeted": {"attack": {"pgd": {"threat": {"linf": {"eps": 0.1}}}}}}},
        {"attack": "LinfPGD", "threat": {"linf": {"eps": 0.1}}},
    ],
)
def test_an_attack_around_another_or_of_another_library_counts_with_its_threat(params):
    frame = pl.concat([rows([T, T]), rows([T, F], method="some", params=params)])
    assert numbers(frame) == {("a", "linf", 0.1): 1}


def test_fab_that_stops_at_the_first_success_has_no_distances():
    params = {"threat": {"l2": {"eps": 2.0}}, "until_lost": True}
    frame = pl.concat([rows([T]), attack([T], 0.5, norm="l2"), rows([F], method="fab", params=params, distance=[0.1])])
    assert numbers(frame) == {("a", "l2", 0.5): 1, ("a", "l2", 2.0): 0}


def test_a_network_has_no_number_where_no_attack_covers_the_threat():
    # b was attacked up to 0.1 only, c by distances up to 0.4, d up to 0.2, a at both budgets.
    frame = pl.concat([
        rows([T, T]), attack([T, T], 0.1), attack([F, T], 0.3),
        rows([T, T], run="b"), attack([T, F], 0.1, run="b"),
        rows([T, T], run="c"), nearest([0.2, 0.35], 0.4, norm="linf", run="c"),
        rows([T, T], run="d"), nearest([0.2, None], 0.2, norm="linf", run="d"),
    ])  # fmt: skip
    assert numbers(frame) == {
        ("a", "linf", 0.1): 2, ("b", "linf", 0.1): 1, ("c", "linf", 0.1): 2, ("d", "linf", 0.1): 2,
        ("a", "linf", 0.3): 1, ("c", "linf", 0.3): 1, ("c", "linf", 0.4): 0,
        ("c", "linf", 0.2): 1, ("d", "linf", 0.2): 1,
    }  # fmt: skip


def test_only_examples_that_all_checks_of_the_threat_saw_are_counted():
    frame = pl.concat([rows([T] * 6), attack([T, F], 0.1, first=3), attack([T] * 6, 0.05)])
    table = worst_case(frame).select("eps", "examples", "correct")
    assert table.rows() == [(0.05, 6, 6), (0.1, 2, 1)]
    apart = pl.concat([rows([T, T]), attack([T, T], 0.1, first=2)])
    assert worst_case(apart).is_empty()
    assert within(apart, Budget("linf", 0.1)).height == 4


def test_a_distance_at_eps_is_within_it_up_to_the_rounding_of_float32():
    at = float(pl.Series([8 / 255], dtype=pl.Float32)[0])
    assert at > 8 / 255
    frame = pl.concat([rows([T, T]), attack([T, T], 8 / 255), nearest([at, 8.1 / 255], 1.0, norm="linf")])
    assert numbers(frame)["a", "linf", 8 / 255] == 1


def test_a_broken_row_without_a_distance_counts_as_broken_at_once():
    frame = pl.concat([rows([T, T]), attack([T, T], 0.5, norm="l2"), nearest([float("nan"), None], 2.0)])
    assert numbers(frame)["a", "l2", 0.5] == 1


def test_who_waits_for_a_component_is_unsettled_where_that_component_counts():
    waiting = attack([T, T], 0.1, method="autoattack", steps=[[STEP], []])
    table = worst_case(pl.concat([rows([T, T]), waiting, attack([F, T], 0.2)]))
    assert table.select("eps", "correct", "unsettled").rows() == [(0.1, 2, 1), (0.2, 1, 0)]  # broken waits for nothing


def test_runs_and_weights_are_apart():
    frame = pl.concat([attack([T], 0.1), attack([F], 0.1, run="b"), attack([F], 0.1, weights="last")])
    table = worst_case(frame).select("run", "weights", "correct")
    assert sorted(table.rows()) == [("a", "best", 1), ("a", "last", 0), ("b", "best", 0)]


def test_checks_of_the_same_name_with_other_fields_are_told_apart_by_their_fields():
    frame = pl.concat([attack([F], 0.1), attack([F], 0.2, run="b")]).with_columns(check=pl.lit("pgd"))
    assert numbers(frame) == {("a", "linf", 0.1): 0, ("b", "linf", 0.2): 0}


def test_different_budgets_never_share_a_name():
    assert title(Budget("linf", 8 / 255)) == "worst case, linf eps=8/255"
    close = [0.031372549, 0.0313725490196, 8 / 255, 0.12345671, 0.12345672]
    assert len({title(Budget("linf", eps)) for eps in close}) == len(close)


BUDGETS = (0.1, 0.2, 0.4, 0.8)


@st.composite
def ledgers(draw):
    """Clean images, attacks of fixed budgets and minimum-distance attacks on the same examples."""
    count = draw(st.integers(1, 6))
    outcomes = st.lists(st.booleans(), min_size=count, max_size=count)
    frames = [rows(draw(outcomes))]
    for eps in draw(st.lists(st.sampled_from(BUDGETS), min_size=1, max_size=3, unique=True)):
        frames.append(attack(draw(outcomes), eps, norm="l2"))
    for eps in draw(st.lists(st.sampled_from(BUDGETS), max_size=2, unique=True)):
        far = st.one_of(st.none(), st.floats(0, eps))
        frames.append(nearest(draw(st.lists(far, min_size=count, max_size=count)), eps))
    return pl.concat(frames)


@settings(max_examples=80, deadline=None)
@given(ledgers())
def test_it_is_the_definition_example_by_example(frame):
    for threat in threats(frame):
        broken = set()
        for row in frame.iter_rows(named=True):
            own = json.loads(row["params"]).get("threat", {"l2": {"eps": 0.0}})["l2"]["eps"]
            reach = row["distance"] if row["method"] == "fmn" else own
            if not row["correct"] and min(own, reach) <= threat.size + 1e-6:
                broken.add(row["example"])
        left = survivors(frame, threat).filter("correct")["example"]
        assert set(left) == set(frame["example"]) - broken


@settings(max_examples=80, deadline=None)
@given(ledgers())
def test_it_never_rises_with_the_budget_nor_above_a_check_that_counts(frame):
    table = worst_case(frame)
    assert table["accuracy"].to_list() == sorted(table["accuracy"], reverse=True)  # one norm, from small to large eps
    for threat, worst in zip(threats(frame), table["accuracy"], strict=True):
        assert worst <= accuracies(within(frame, threat))["accuracy"].min()


def test_examples_that_could_not_be_attacked_leave_an_upper_bound_unless_another_attack_breaks_them():
    walk = attack([T, T, T, F, T], 0.5, norm="l2", method="hopskipjump", not_run=["b", None, "a", None, None])
    (row,) = worst_case(pl.concat([rows([T] * 5), walk, nearest([0.3, None, 0.9, None, None], 1.0)])).to_dicts()[:1]
    assert (row["eps"], row["correct"], row["unsettled"], row["not_attacked"], row["reason"]) == (0.5, 3, 1, 1, "a")
