"""Right answers of mixtures in few numbers."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from holdfast.questions.mixing.summary import AROUND_POLICY, POLICY, Plan, Try, summarise_mixing, worst
from holdfast.questions.presenting import Rate
from holdfast.statistics import wilson

PLAN = Plan(strengths=(0.0, 1.0, 10.0, math.inf), eps=0.1, radii=(0.2,), at=1.0, adaptive=True)
SHAPE = (len(PLAN.tries), len(PLAN.mixtures))  # clean, six aims, five of them at 0.2


def table(right):
    return pl.Series(np.asarray(right).tolist())


def numbers(seed=0, images=20):
    return np.random.default_rng(seed).random((images, *SHAPE)) < 0.7


def test_accuracies_are_read_where_they_stand():
    right = numbers()
    found = summarise_mixing(table(right), PLAN)
    assert found.examples == 20
    for place, at in enumerate(found.strengths):
        assert at.mixture == PLAN.mixtures[place]
        assert at.clean.value == right[:, 0, place].mean()
        assert at.on_standard.value == right[:, 1, place].mean()
        assert at.on_robust.value == right[:, 4, place].mean()
        assert at.itself.value == right[:, 1 + place, place].mean()
        assert at.worst.value == right[:, :7, place].all(axis=1).mean()  # all aims, and clean images, at 0.1
    for place, at in enumerate(found.aims):
        row = right[:, 1 + place]
        assert (at.standard.value, at.mixture.value, at.robust.value) == tuple(row[:, i].mean() for i in (0, 1, 3))
        assert at.adaptive.value == row[:, 4].mean()
    assert found.strengths[-1].mixture == found.aims[-2].at == POLICY
    assert found.aims[-1].at == AROUND_POLICY


def test_intervals_are_those_of_wilson():
    found = Rate.of(np.array([True] * 7 + [False] * 3))
    interval = wilson(7, 10)
    assert (found.value, found.low, found.high) == (0.7, interval.low, interval.high)


def test_radii_count_the_same_attacks_for_all_and_those_within():
    right = numbers(1)
    zero, small, large = summarise_mixing(table(right), PLAN).radii
    assert [at.at for at in (zero, small, large)] == [0, 0.1, 0.2]
    assert zero.robust.value == right[:, 0, 3].mean()
    same = [0, 1, 2, 4, 5, 6]  # the aim 10 was not tried at other radii
    assert small.robust.value == right[:, same, 3].all(axis=1).mean()
    assert large.adaptive.value == right[:, [*same, 7, 8, 9, 10, 11], 4].all(axis=1).mean()


@given(arrays(np.bool_, (6, *SHAPE), elements=st.booleans()))
def test_the_worst_case_is_never_better_than_any_of_its_parts(right):
    found = summarise_mixing(table(right), PLAN)
    for at in found.strengths:
        assert at.worst.value <= min(at.clean.value, at.on_standard.value, at.on_robust.value, at.itself.value)
        assert at.worst.low <= at.worst.value <= at.worst.high
    for before, after in zip(found.radii, found.radii[1:], strict=False):
        assert after.mixture.value <= before.mixture.value


def test_the_best_mixture_is_that_of_the_best_worst_case_and_then_of_most_clean_images():
    right = np.zeros((4, *SHAPE), dtype=bool)
    right[:2, :, 1:4] = True  # two images in every case, by all but the standard network and the policy
    right[2, 0, 2] = True  # one more before attacks, by the mixture of strength 10
    right[:, :, 4] = True  # the policy is no fixed strength
    found = summarise_mixing(table(right), PLAN)
    assert found.best.mixture == 10.0
    assert [at.mixture for at in found.fixed] == [0.0, 1.0, 10.0, math.inf]


def test_single_attacks_may_be_counted_alone():
    right = numbers(2)
    found = worst(right, PLAN, 10.0, eps=0.1, aims=(0.0,))
    assert found.value == right[:, [0, 1], 2].all(axis=1).mean()
    assert PLAN.tries[1] == Try(0.1, 0.0)


def test_rows_of_another_plan_are_refused():
    with pytest.raises(ValueError, match="expected 12 tries of 5 mixtures, got"):
        summarise_mixing(table(numbers()[:, 1:]), PLAN)
