"""What the epochs of a trial say: to the pruner, which may give the trial up, and to the record of the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from optuna.trial import Trial

from holdfast.errors import RecipeError, unknown
from holdfast.recipe.schema import Recipe
from holdfast.search.plan import Plan
from holdfast.search.schema import Goal, SearchRecipe


class Watch:
    """What the epochs of a trial say, for the pruner and for its record.

    Args:
        trial: of the study.
        plan: of the search.
        recipe: of the trial.
        device: where it is trained and measured; None for the recipe's.
    """

    def __init__(self, trial: Trial, plan: Plan, recipe: Recipe, device: torch.device | None = None) -> None:
        self.trial, self.plan, self.recipe, self.device = trial, plan, recipe, device
        self._epochs: dict[int, Mapping[str, Any]] = {}
        self._scored_epochs = set(trial.study.trials[trial.number].intermediate_values) if self._prunes else set()

    @property
    def _prunes(self) -> bool:
        return self.plan.settings.pruning.method != "none"

    @property
    def seconds(self) -> float:
        """Of training, over all visits."""
        return float(sum(epoch["seconds"] for epoch in self._epochs.values()))

    @property
    def scores(self) -> dict[str, float]:
        """Validation scores of the weights that are kept."""
        kept = [epoch["validation"] for epoch in self._epochs.values() if epoch["best"] and epoch["validation"]]
        return dict(kept[-1]) if kept else {}

    @property
    def note(self) -> str:
        """The latest score, for people."""
        goal = self.plan.settings.objective[0]
        name = self._judged.name if goal.checks else goal.score
        values = [e["validation"][name] for e in self._epochs.values() if e["validation"] and name in e["validation"]]
        return f"{name.replace('_', ' ')} {values[-1]:.4g}" if values else ""

    @property
    def _judged(self) -> Judged:
        return judged(self.plan.settings, self.recipe)

    def __call__(self, epoch: Mapping[str, Any]) -> None:
        """Take note of an epoch, again or for the first time."""
        self._epochs[epoch["epoch"]] = epoch
        step = epoch["epoch"] - 1  # pruners count from 0
        if not self._prunes or epoch["validation"] is None or step in self._scored_epochs:
            return
        self.trial.report(self._judged.sign * score(epoch["validation"], self._judged.name), step)
        self._scored_epochs.add(step)

    def hopeless(self) -> bool:
        """Whether the pruner gives the trial up; a trial that is trained to the end is not."""
        last = max(self._epochs, default=0)
        judged = self._prunes and last - 1 in self._scored_epochs
        return judged and last < self.recipe.train.epochs and self.trial.should_prune()

    def record(self, values: Sequence[float]) -> None:
        """Write down, in the study, what a report wants to know."""
        goals = self.plan.settings.objective
        facts = {
            "seconds": self.seconds,
            "epochs": len(self._epochs),
            "planned": self.recipe.train.epochs,
            "scores": {**self.scores, **{g.label: v for g, v in zip(goals, values, strict=False) if g.checks}},
        }
        for name, value in facts.items():
            self.trial.set_user_attr(name, value)


@dataclass(frozen=True)
class Judged:
    """What the pruner looks at.

    Args:
        name: of the validation score.
        sign: -1 where it is better in the other direction than the goal, which is the only one that the pruner knows.
    """

    name: str
    sign: int


def judged(settings: SearchRecipe, recipe: Recipe) -> Judged:
    """What the pruner looks at in a search of this recipe."""
    goal = settings.objective[0]
    name = settings.pruning.score or (recipe.train.selection.metric if goal.checks else goal.score)
    alike = name == goal.score or Goal(score=name).maximize == goal.maximize
    return Judged(name, 1 if alike else -1)


def score(scores: Mapping[str, float], name: str) -> float:
    """A validation score by name.

    Raises:
        RecipeError: there is none of this name.
    """
    if name not in scores:
        raise RecipeError(f"search.objective: score: {unknown(name, scores)}")
    return float(scores[name])
