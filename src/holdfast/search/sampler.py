"""Which values a trial tries: a function of the seed, the trial's number and the trials before it."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from holdfast.rng import derive, permutation
from holdfast.search.plan import Plan
from holdfast.search.ranges import Range

ERROR = "error"
"""Under this name a trial that failed says why."""


class Keyed(BaseSampler):
    """A sampler that starts anew for every trial, seeded by its number.

    Optuna's samplers draw from one sequence of random numbers that begins when the process begins, so that a search
    that goes on after an interruption would draw the first trials again.

    Args:
        make: makes a sampler from a seed.
        seed: of the search.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._made: tuple[int, BaseSampler] | None = None

    def _of(self, trial: FrozenTrial) -> BaseSampler:
        if self._made is None or self._made[0] != trial.number:
            self._made = (trial.number, self._make(derive(self._seed, f"trial {trial.number}") % 2**32))
        return self._made[1]

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Pass on."""
        self._of(trial).before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Pass on."""
        return self._of(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Pass on."""
        return self._of(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Pass on."""
        return self._of(trial).sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Pass on."""
        self._of(trial).after_trial(study, trial, state, values)


def is_lost(trial: FrozenTrial) -> bool:
    """Whether a trial's worker is gone: Optuna calls it failed, but nobody wrote down why."""
    return trial.state == TrialState.FAIL and ERROR not in trial.user_attrs


class Grid(BaseSampler):
    """Every combination once, in an order that the seed decides.

    Args:
        ranges: what is searched for; all can be counted.
        seed: of the search.
    """

    def __init__(self, ranges: Mapping[str, Range], seed: int) -> None:
        points = list(itertools.product(*[one.grid() for one in ranges.values()]))
        self._names = list(ranges)
        self._at: tuple[int, tuple[Any, ...]] | None = None
        self._points = [points[int(place)] for place in permutation(len(points), seed, "grid")]

    def __len__(self) -> int:
        return len(self._points)

    def _point(self, study: Study, trial: FrozenTrial) -> tuple[Any, ...]:
        """The first point that no other trial has; trials whose worker was lost are run again elsewhere."""
        others = [t for t in study.get_trials(deepcopy=False) if t.number != trial.number and not is_lost(t)]
        taken = {tuple(t.params.get(name) for name in self._names) for t in others}
        return next((point for point in self._points if point not in taken), self._points[0])

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Nothing is drawn together."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Nothing is drawn together."""
        return {}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """The trial's point."""
        if self._at is None or self._at[0] != trial.number:
            self._at = (trial.number, self._point(study, trial))
        return self._at[1][self._names.index(param_name)]


def sampler(plan: Plan) -> BaseSampler:
    """The sampler that a plan asks for."""
    settings = plan.settings
    if settings.sampler == "grid":
        return Grid(plan.ranges, settings.seed)
    if settings.sampler == "random":
        return Keyed(lambda seed: RandomSampler(seed=seed), settings.seed)

    def tpe(seed: int) -> BaseSampler:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Optuna calls experimental is its default here
            return TPESampler(n_startup_trials=settings.startup, seed=seed)

    return Keyed(tpe, settings.seed)


def trials(plan: Plan) -> int:
    """How many trials to run: those asked for, or all of a grid that is smaller."""
    made = sampler(plan)
    return min(plan.settings.trials, len(made)) if isinstance(made, Grid) else plan.settings.trials
