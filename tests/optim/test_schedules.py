import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.optim import SCHEDULES, Constant, Cosine, CosineRestarts, MultiStep, OneCycle
from holdfast.optim.schedules import multiplier

CHEAP = {
    "constant": Constant(),
    "multistep": MultiStep(milestones=(3, 6)),
    "cosine": Cosine(),
    "cosine_restarts": CosineRestarts(first=3),
    "one_cycle": OneCycle(),
}


def test_every_schedule_has_a_cheap_instance_here():
    assert CHEAP.keys() == SCHEDULES.keys(), "add an instance to CHEAP"


@given(st.sampled_from(sorted(CHEAP)), st.floats(0, 10))
def test_multipliers_lie_between_zero_and_one(name, time):
    assert 0 <= CHEAP[name](time, 10) <= 1 + 1e-12


def test_multistep_by_hand():
    schedule = MultiStep(milestones=(3, 6.5), gamma=0.1)
    assert [schedule(t, 10) for t in (0, 2.99, 3, 6.4)] == pytest.approx([1, 1, 0.1, 0.1])
    assert schedule(6.5, 10) == pytest.approx(0.01)


def test_cosine_by_hand():
    assert [Cosine()(t, 8) for t in (0, 2, 4, 8)] == pytest.approx([1, (1 + math.sqrt(0.5)) / 2, 0.5, 0])
    assert Cosine(floor=0.2)(8, 8) == pytest.approx(0.2)
    assert Cosine(floor=0.2)(4, 8) == pytest.approx(0.6)
    assert Cosine()(9, 8) == pytest.approx(0)


def test_restarts_come_after_growing_cycles():
    # SRA's schedule: 20 + 40 + 80 + 160 = 300 epochs
    schedule = CosineRestarts(first=20, factor=2)
    for start, length in ((0, 20), (20, 40), (60, 80), (140, 160)):
        assert schedule(start, 300) == 1
        assert schedule(start + length / 2, 300) == pytest.approx(0.5)
        assert schedule(start + length - 1e-9, 300) == pytest.approx(0, abs=1e-6)
    assert CosineRestarts(first=5, factor=1, floor=0.1)(2.5, 9) == pytest.approx(0.55)


def test_one_cycle_by_hand():
    schedule = OneCycle(peak=0.25, start=0.2)
    assert [schedule(t, 8) for t in (0, 1, 2, 5, 8)] == pytest.approx([0.2, 0.6, 1, 0.5, 0])


def test_warmup_rises_linearly_and_ends_at_the_schedule():
    values = [multiplier(Constant(), 2, step, 4, 10) for step in range(10)]
    assert values == pytest.approx([(k + 1) / 8 for k in range(8)] + [1, 1])
    assert [multiplier(Constant(), 0, step, 4, 10) for step in (0, 7)] == [1, 1]
    assert multiplier(Cosine(), 0, 20, 4, 10) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiStep(milestones=(5, 3)), "milestones must rise"),
        (lambda: MultiStep(milestones=(1,), gamma=0), "gamma be positive"),
        (lambda: CosineRestarts(first=0), "first must be positive"),
        (lambda: CosineRestarts(first=1, factor=0.5), "factor at least 1"),
        (lambda: OneCycle(peak=1.0), "peak must lie between 0 and 1"),
    ],
)
def test_impossible_schedules_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
