"""How much of the difference between trials each range explains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import optuna
from optuna.study import Study
from optuna.trial import TrialState

FEW = 4
"""With fewer complete trials nothing is said."""


def importances(study: Study) -> tuple[Mapping[str, float], ...]:
    """For each goal the share of each range, largest first, by PED-ANOVA.

    The shares compare where the better trials lie with where all complete trials lie, and add up to 1. They say nothing
    about directions, and with a few dozen trials only the order of the first few means something.

    Reference:
        Watanabe, Bansal, Hutter, PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary Subspaces,
        IJCAI 2023, arXiv:2304.10255; as implemented in Optuna.
    """
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    goals = range(len(study.directions))
    if len(complete) < FEW:
        return tuple({} for _ in goals)
    return tuple(_importance(study, goal) for goal in goals)


def _importance(study: Study, goal: int) -> Mapping[str, float]:
    sign = -1.0 if study.directions[goal] == optuna.study.StudyDirection.MAXIMIZE else 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Given a target, Optuna takes smaller for better, whatever the direction of the study.
        return optuna.importance.get_param_importances(study, target=lambda trial: sign * trial.values[goal])
