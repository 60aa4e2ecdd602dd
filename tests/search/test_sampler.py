"""Values of trials: decided by seed and number, not by when a process began."""

import itertools

import optuna
import pytest

from holdfast.search.sampler import Grid, sampler, trials
from tests.search.tiny import plan

optuna.logging.set_verbosity(optuna.logging.ERROR)


def drawn(of, count, *, processes=1, value=lambda params: -abs(params["train.optimizer.sgd.momentum"] - 0.3)):
    """Values of trials, the sampler made anew for every so many of them, as new processes would."""
    storage, seen = optuna.storages.InMemoryStorage(), []
    for number in range(count):
        if number % (count // processes) == 0:
            study = optuna.create_study(
                storage=storage, study_name="s", sampler=sampler(of), direction="maximize", load_if_exists=True
            )
        trial = study.ask({path: one.distribution() for path, one in of.ranges.items()})
        study.tell(trial, value(trial.params))
        seen.append(trial.params)
    return seen


@pytest.mark.parametrize("kind", ["tpe", "random"])
def test_an_interruption_does_not_change_or_repeat_what_is_drawn(kind):
    of = plan(f"search.sampler={kind}", "search.startup=3")
    whole = drawn(of, 8)
    assert drawn(of, 8, processes=4) == whole
    assert len({tuple(one.values()) for one in whole}) == 8
    assert drawn(plan(f"search.sampler={kind}", "search.startup=3", "search.seed=1"), 8) != whole


def test_tpe_learns_and_random_does_not():
    near = [abs(one["train.optimizer.sgd.momentum"] - 0.3) for one in drawn(plan(), 40)[20:]]
    far = [abs(one["train.optimizer.sgd.momentum"] - 0.3) for one in drawn(plan("search.sampler=random"), 40)[20:]]
    assert sum(near) < 0.6 * sum(far)


GRID = (
    "search.sampler=grid",
    "search.trials=100",
    "train.optimizer.sgd.lr={search: choice, values: [0.1, 0.2]}",
    "train.optimizer.sgd.momentum={search: uniform, low: 0.3, high: 0.9, step: 0.3}",
)


def test_a_grid_takes_every_combination_once_and_ends():
    of = plan(*GRID)
    assert trials(of) == 6
    assert trials(plan(*GRID, "search.trials=3")) == 3
    points = [tuple(one.values()) for one in drawn(of, 6)]
    expected = itertools.product(("0.1", "0.2"), (0.3, 0.6, 0.9))
    rounded = [(lr, round(momentum, 9)) for lr, momentum in points]
    assert sorted(rounded) == sorted(expected)
    assert points != sorted(points)  # in an order that the seed decides


def test_a_grid_tries_again_what_a_lost_worker_had():
    of = plan(*GRID)
    study = optuna.create_study(sampler=Grid(of.ranges, 0))
    ranges = {path: one.distribution() for path, one in of.ranges.items()}
    lost = study.ask(ranges)
    study.tell(lost, state=optuna.trial.TrialState.FAIL)
    assert study.ask(ranges).params == lost.params
    assert study.ask(ranges).params != lost.params
