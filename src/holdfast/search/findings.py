"""What a search has found, as plain records: everything that tables and charts are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from holdfast.errors import LedgerError
from holdfast.recipe.plain import to_yaml
from holdfast.recipe.schema import Recipe
from holdfast.search.importance import importances
from holdfast.search.plan import Plan
from holdfast.search.ranges import Range
from holdfast.search.sampler import ERROR, is_lost
from holdfast.search.schema import Goal
from holdfast.search.watch import judged

State = Literal["complete", "pruned", "failed", "lost", "running", "waiting"]


@dataclass(frozen=True)
class TrialRecord:
    """One trial.

    Args:
        number: also the name of its directory.
        state: how it ended, if it has.
        drawn: its values, as Optuna has them.
        values: of the goals; empty unless it is complete.
        steps: epoch and score, as far as the pruner was told.
        seconds: of training.
        epochs: trained.
        planned: epochs of a whole training.
        scores: validation scores of the weights that are kept, and values of goals with checks.
        error: why it failed.
    """

    number: int
    state: State
    drawn: Mapping[str, Any]
    values: tuple[float, ...] = ()
    steps: tuple[tuple[int, float], ...] = ()
    seconds: float = 0.0
    epochs: int = 0
    planned: int = 0
    scores: Mapping[str, float] | None = None
    error: str | None = None


@dataclass(frozen=True)
class Findings:
    """A search so far.

    Args:
        name: of the search.
        goals: what was optimised.
        ranges: what was searched for, by path.
        trials: in the order of their numbers.
        requested: how many trials were requested.
        judged: name of the score that the pruner looked at.
        importance: for each goal the share of each range, largest first; empty with too few trials.
    """

    name: str
    goals: tuple[Goal, ...]
    ranges: Mapping[str, Range]
    trials: tuple[TrialRecord, ...]
    requested: int
    judged: str
    importance: tuple[Mapping[str, float], ...]

    @cached_property
    def complete(self) -> tuple[TrialRecord, ...]:
        """Trials with values."""
        return tuple(trial for trial in self.trials if trial.state == "complete")

    @cached_property
    def best(self) -> tuple[TrialRecord, ...]:
        """The best trial, of equal ones the first; or with several goals the Pareto front."""
        front = pareto_front([trial.values for trial in self.complete], [goal.maximize for goal in self.goals])
        front_trials = tuple(self.complete[place] for place in front)
        return front_trials if len(self.goals) > 1 else front_trials[:1]

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The shortest end of each path that tells it from the others."""
        return {path: _shortest(path, list(self.ranges)) for path in self.ranges}

    def count(self, state: str) -> int:
        """How many trials are in a state."""
        return sum(trial.state == state for trial in self.trials)

    def value(self, trial: TrialRecord, path: str) -> Any:
        """A trial's value in the recipe's form."""
        return self.ranges[path].decode(trial.drawn[path])


def read_findings(study: Study, plan: Plan, requested: int) -> Findings:
    """What a study holds."""
    looked = judged(plan.settings, plan.probe())
    return Findings(
        name=plan.name,
        goals=plan.settings.objective,
        ranges=plan.ranges,
        trials=tuple(_record(trial, looked.sign) for trial in study.get_trials(deepcopy=False)),
        requested=requested,
        judged=looked.name,
        importance=importances(study),
    )


def best_recipe(plan: Plan, trial: TrialRecord, name: str) -> str:
    """The recipe of a trial as a file that `holdfast run` accepts, with a word on where it comes from."""
    values = ", ".join(
        f"{goal.label} {value:z.6g}" for goal, value in zip(plan.settings.objective, trial.values, strict=True)
    )
    drawn = "".join(f"#   {path}: {plan.ranges[path].decode(value)}\n" for path, value in trial.drawn.items())
    head = f"# Trial {trial.number} of the search {plan.name}: {values}. Found by search:\n{drawn}"
    return head + to_yaml(plan.recipe(trial.drawn, name), Recipe)


def pareto_front(values: Sequence[Sequence[float]], maximize: Sequence[bool]) -> list[int]:
    """Places of the values that no other beats: none is as good in everything and better in something.

    Of equal ones only the first is kept.
    """
    signed = [tuple(v if up else -v for v, up in zip(one, maximize, strict=True)) for one in values]
    return [
        place
        for place, one in enumerate(signed)
        if one not in signed[:place]
        and not any(other != one and all(o >= v for o, v in zip(other, one, strict=True)) for other in signed)
    ]


def _record(trial: FrozenTrial, sign: int) -> TrialRecord:
    try:
        return _recorded(trial, sign)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise LedgerError(
            f"trial {trial.number}: expected what holdfast records of a trial ({type(error).__name__}: {error}); start "
            "over with --fresh"
        ) from error


def _recorded(trial: FrozenTrial, sign: int) -> TrialRecord:
    facts = trial.user_attrs
    return TrialRecord(
        number=trial.number,
        state=_state(trial),
        drawn=dict(trial.params),
        values=tuple(trial.values) if trial.state == TrialState.COMPLETE else (),
        steps=tuple((step + 1, sign * value) for step, value in sorted(trial.intermediate_values.items())),
        seconds=float(facts.get("seconds", 0.0)),
        epochs=int(facts.get("epochs", 0)),
        planned=int(facts.get("planned", 0)),
        scores=facts.get("scores"),
        error=facts.get(ERROR),
    )


def _state(trial: FrozenTrial) -> State:
    if trial.state == TrialState.FAIL:
        return "lost" if is_lost(trial) else "failed"
    names: dict[TrialState, State] = {
        TrialState.COMPLETE: "complete",
        TrialState.PRUNED: "pruned",
        TrialState.RUNNING: "running",
        TrialState.WAITING: "waiting",
    }
    return names[trial.state]


def _shortest(path: str, paths: Sequence[str]) -> str:
    words = path.split(".")
    for count in range(1, len(words)):
        end = ".".join(words[-count:])
        if not end.isdigit() and sum(f".{other}".endswith(f".{end}") for other in paths) == 1:
            return end
    return path
