"""What charts and tables of a search are made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.search import Choice, Findings, Goal, Log, TrialRecord, Uniform
from holdfast.search.findings import pareto_front
from holdfast.search.plots import Savings, axis, history, savings, sensitivity, slice_, surface

RANGES = {"a.tau": Uniform(low=0, high=20), "a.xi": Uniform(low=0, high=0.9), "b.lr": Log(low=0.01, high=1)}


def trial(number, tau=0.0, xi=0.4, lr=0.1, value=0.5, state="complete", **more):
    drawn = {"a.tau": tau, "a.xi": xi, "b.lr": lr}
    return TrialRecord(number, state, drawn, (value,) if state == "complete" else (), **more)


ACCURACY = (Goal(),)


def found(*trials, goals=ACCURACY, ranges=RANGES):
    return Findings("s", goals, ranges, trials, len(trials), "accuracy", ({},) * len(goals))


# Table 7 of the seed's appendix: hours pruned, hours predicted without pruning, gain, equivalent trials of 30.
# It prints 7.65 in the first column, where its own numbers give 7.66.
TABLE_7 = [
    (14.84, 58.15, 3.92, 7.66),
    (14.06, 71.99, 5.12, 5.86),
    (39.51, 171.54, 4.34, 6.91),
    (27.98, 140.90, 5.04, 5.96),
]


@pytest.mark.parametrize(("pruned", "full", "gain", "equivalent"), TABLE_7)
def test_savings_are_those_of_the_seeds_table(pruned, full, gain, equivalent):
    saved = Savings(pruned, full, 30, 2)
    assert round(saved.gain, 2) == gain
    assert round(saved.equivalent, 2) == equivalent


def test_a_pruned_trial_would_have_gone_on_as_it_began():
    ran = found(
        trial(0, seconds=10, epochs=10, planned=10, value=0.6),
        trial(1, seconds=3, epochs=2, planned=10, state="pruned"),
        trial(2, seconds=4, epochs=4, planned=10, value=0.7),  # ended by its own patience, not by the pruner
        trial(3, seconds=1, epochs=1, planned=10, state="failed"),
        trial(4, state="running"),
    )
    assert savings(ran) == Savings(pruned=17, full=10 + 15 + 4, trials=3, best=2)
    assert savings(found(trial(0))).gain == 1


def test_the_best_so_far_never_gets_worse():
    made = found(trial(0, value=0.5), trial(2, value=0.4), trial(3, state="pruned"), trial(5, value=0.8))
    points, best = history(made, 0)
    assert (points.x, points.y) == ((0, 2, 5), (0.5, 0.4, 0.8))
    assert best.y == (0.5, 0.5, 0.8)
    assert history(found(*made.trials, goals=(Goal(score="loss"),)), 0)[1].y == (0.5, 0.4, 0.4)


def test_of_equal_trials_the_first_is_the_best():
    assert [one.number for one in found(trial(0, value=0.5), trial(1, value=0.7), trial(2, value=0.7)).best] == [1]
    assert [one.number for one in found(trial(0), trial(1, value=0.4), goals=(Goal(score="loss"),)).best] == [1]
    assert found(trial(0, state="pruned")).best == ()


def test_the_front_is_what_nothing_beats():
    values = [(1, 5), (2, 4), (2, 3), (3, 1), (0, 6), (2, 4)]
    assert pareto_front(values, [True, True]) == [0, 1, 3, 4]
    assert pareto_front(values, [True, False]) == [3]
    assert pareto_front([], [True]) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_every_point_is_on_the_front_or_beaten_by_one_on_it(values):
    front = [values[place] for place in pareto_front(values, [True] * 3)]
    assert front
    for one in values:
        beaten = any(all(f >= v for f, v in zip(other, one, strict=True)) for other in front)
        assert beaten
    for one in front:
        assert not any(other != one and all(o >= v for o, v in zip(other, one, strict=True)) for other in values)


def test_a_slice_is_sorted_along_its_axis_and_choices_have_places():
    made = found(trial(0, tau=9, value=0.1), trial(1, tau=3, value=0.2), trial(2, state="pruned"))
    assert slice_(made, "a.tau", 0).x == (3, 9)
    assert slice_(made, "a.tau", 0).numbers == (1, 0)
    choice = found(TrialRecord(0, "complete", {"k": "b"}, (1.0,)), ranges={"k": Choice(values=("a", "b"))})
    assert slice_(choice, "k", 0).x == (1.0,)
    assert axis(choice, "k").ticks == ("a", "b")
    assert slice_(found(), "a.tau", 0).x == ()


def test_a_surface_is_exact_for_what_is_linear_in_the_places_and_empty_outside():
    corners = [(0, 0.01), (20, 0.01), (0, 1), (20, 1)]
    heights = [RANGES["a.tau"].place(tau) + 2 * RANGES["b.lr"].place(lr) for tau, lr in corners]
    plane = [trial(n, tau=tau, lr=lr, value=heights[n]) for n, (tau, lr) in enumerate(corners)]
    seen = surface(found(*plane), "a.tau", "b.lr", 0, resolution=3)
    assert seen.x == (0, 10, 20)
    assert seen.y == pytest.approx((0.01, 0.1, 1))
    assert seen.z == tuple(pytest.approx(row) for row in ((0, 0.5, 1), (1, 1.5, 2), (2, 2.5, 3)))
    half = surface(found(*plane[:3]), "a.tau", "b.lr", 0, resolution=3)
    assert half.z[2][2] is None
    assert surface(found(*plane[:2]), "a.tau", "b.lr", 0) is None
    line = [trial(n, tau=n, lr=0.1, value=n) for n in range(5)]
    assert surface(found(*line), "a.tau", "b.lr", 0) is None


def test_sensitivity_takes_the_trials_that_agree_in_all_other_ranges():
    made = found(
        trial(0, tau=8, value=0.9, scores={"accuracy": 0.9, "loss": 0.3}),
        trial(1, tau=2, xi=0.44, value=0.7, scores={"accuracy": 0.7}),
        trial(2, tau=5, xi=0.8, value=0.8),  # another xi
        trial(3, tau=6, lr=0.4, value=0.8),  # another lr: 0.1 and 0.4 are 0.3 of the range apart in logarithms
        trial(4, tau=7, state="pruned"),
    )
    seen = sensitivity(made, "a.tau")
    assert seen.held == {"a.xi": 0.4, "b.lr": 0.1}
    assert (seen.scores["accuracy"].x, seen.scores["accuracy"].y) == ((2, 8), (0.7, 0.9))
    assert seen.scores["loss"].numbers == (0,)
    assert sensitivity(made, "a.tau", {"a.xi": 0.8, "b.lr": 0.1}).scores == {}
    assert sensitivity(made, "a.tau", {"a.xi": 0.4}).scores["accuracy"].numbers == (1, 0)


def test_labels_are_the_shortest_ends_that_differ():
    paths = ("x.sgd.lr", "y.adam.lr", "train.epochs", "data.augment.0")
    made = found(ranges={path: Uniform(low=0, high=1) for path in paths})
    assert list(made.labels.values()) == ["sgd.lr", "adam.lr", "epochs", "augment.0"]
