"""A worker: one trial after the other, until as many have ended as were asked for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path

import optuna
import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from holdfast.augment.soft import check_classes
from holdfast.runs.code import TrustedCode, resolved
from holdfast.search.claims import Claims
from holdfast.search.plan import Plan
from holdfast.search.sampler import ERROR, is_lost, trials
from holdfast.search.study import beating, open_study
from holdfast.search.trial import Busy, Ended, Images, run_trial, trust_for

PAUSE = 0.2
"""Seconds between two looks at the trials of other workers."""

STATES = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}


def work(
    plan: Plan,
    out: Path,
    *,
    storage: str | None = None,
    root: Path | None = None,
    device: torch.device | None = None,
    trust: TrustedCode = False,
) -> Iterator[Busy | Ended]:
    """Run trials until the plan is fulfilled; any number of processes may do so at once.

    A trial that an ended process left behind, killed or interrupted, is taken up where its run stopped. Closing the
    generator between two records leaves the trial under way to be taken up in the same way.

    Args:
        plan: what to search for.
        out: directory of all runs; trials are in `NAME/trials`.
        storage: address of a database; None for the journal file.
        root: directory of data sets.
        device: where to train and measure; None for the recipe's.
        trust: which factories that the recipe names may be called.

    Yields:
        `Busy` after every step of training and every block of a check, and while it waits for other workers, one of
        which may end before its trial; `Ended` after every trial.

    Raises:
        HoldfastError: what every other trial would run into as well.
    """
    plan, directory = plan.resolved(trust), out / plan.name
    study = open_study(plan, directory, storage)
    claims, images = Claims(directory / "locks"), Images(root)
    for recipe in (resolved(end, trust=trust_for(end, plan, trust)) for end in plan.ends()):
        own = getattr(recipe.train.objective, "augment", ())  # some objectives make views of their own
        check_classes((*recipe.data.augment, *own), len(images(recipe).classes))
    while True:
        with claims.turn():
            trial, others = _next(study, plan, claims, everywhere=storage is None)
        if trial is None:
            if not others:
                return
            time.sleep(PAUSE)
            yield Busy(None, 0, 0, f"waiting for {others} trials of other workers")
            continue
        try:
            progress = run_trial(trial, plan, trial.params, out, images, device=device, trust=trust)
            yield (yield from _attempt(study, trial, progress))
        finally:
            claims.drop(trial.number)


def _attempt(study: Study, trial: Trial, progress: Generator[Busy, None, Ended]) -> Generator[Busy, None, Ended]:
    with beating(trial):
        ended = yield from progress
        if ended.error is not None:
            trial.set_user_attr(ERROR, ended.error)
        study.tell(trial, list(ended.values) if ended.state == "complete" else None, state=STATES[ended.state])
    return ended


def _next(study: Study, plan: Plan, claims: Claims, *, everywhere: bool) -> tuple[Trial | None, int]:
    """A trial to work on, or how many others are under way here.

    With `everywhere`, all trials are of processes that use this directory, and one that no living process holds is
    nobody's. A trial of another machine is left to its signs of life.
    """
    for left in _in_state(study, TrialState.RUNNING):
        if (everywhere or claims.knows(left.number)) and claims.take(left.number):
            if study.get_trials(deepcopy=False)[left.number].state == TrialState.RUNNING:
                return _filled(Trial(study, left._trial_id), plan), 0
            claims.drop(left.number)  # it ended between the two looks
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls this experimental, and would rather run the loop itself
        optuna.storages.fail_stale_trials(study)
        running = _in_state(study, TrialState.RUNNING)
        if ended(study) + len(running) < trials(plan):
            trial = study.ask()
            claims.take(trial.number)
            return _filled(trial, plan), 0
    return None, sum(claims.knows(one.number) for one in running)


def ended(study: Study) -> int:
    """How many trials are over; those whose worker was lost run again under another number and do not count."""
    return sum(trial.state.is_finished() and not is_lost(trial) for trial in study.get_trials(deepcopy=False))


def _in_state(study: Study, state: TrialState) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(state,))


def _filled(trial: Trial, plan: Plan) -> Trial:
    """Draw the values of a trial; those that it has stay."""
    for path, one in plan.ranges.items():
        _suggest(trial, path, one.distribution())
    return trial


def _suggest(trial: Trial, name: str, kind: BaseDistribution) -> None:
    if isinstance(kind, CategoricalDistribution):
        trial.suggest_categorical(name, kind.choices)
    elif isinstance(kind, IntDistribution):
        trial.suggest_int(name, kind.low, kind.high, step=kind.step)
    elif isinstance(kind, FloatDistribution):
        trial.suggest_float(name, kind.low, kind.high, step=kind.step, log=kind.log)
