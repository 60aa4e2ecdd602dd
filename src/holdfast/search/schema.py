"""What the section `search` of a recipe holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from holdfast.checks import Check
from holdfast.errors import unknown
from holdfast.recipe.plain import describe

QUANTITIES = ("accuracy", "error", "loss", "radius")
"""What the rows of a ledger are summed up to."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a search makes as large or as small as it can.

    Without checks it is a validation score of training: any score that an epoch's record has by this name, at the epoch
    whose weights are kept. With checks it is a summary of their ledger on these weights.

    Args:
        score: name of a validation score; with checks: accuracy, error, loss or radius (the average certified one).
        checks: what to try on the trained network.
        over: with several checks: the worst (an example must survive all of them; an attack that minimises a distance
            counts at the largest budget of the others in its norm), or the mean over the checks.
        split: images of the checks. Choosing on test images makes their numbers too good to report.
        direction: maximize or minimize; None for what the score's name suggests.
    """

    score: str = "accuracy"
    checks: tuple[Check, ...] = ()
    over: Literal["worst", "mean"] = "worst"
    split: Literal["validation", "test"] = "validation"
    direction: Literal["maximize", "minimize"] | None = None

    def __post_init__(self) -> None:
        if self.checks and self.score not in QUANTITIES:
            raise ValueError(f"score: {unknown(self.score, QUANTITIES)}")
        if not self.checks and self.split == "test":
            raise ValueError("split: test needs checks; scores of training are on validation images")

    @property
    def maximize(self) -> bool:
        """Whether more is better; losses and errors are better small unless `direction` says otherwise."""
        if self.direction is not None:
            return self.direction == "maximize"
        return not self.score.endswith(("loss", "error"))

    @property
    def share(self) -> bool:
        """Whether it is a share, to be written in percent."""
        return self.score.endswith(("accuracy", "error", "rate"))

    @property
    def label(self) -> str:
        """For people."""
        words = self.score.replace("_", " ")
        if not self.checks:
            return f"validation {words}"
        names = [describe(check, Check)[1] for check in self.checks]
        what = names[0] if len(names) == 1 else f"{self.over} of {len(names)} checks"
        return f"{words} of {what} ({self.split})"


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """When a trial that does worse than others is given up, judged after every epoch.

    Args:
        method: `median` gives up what is worse than the median of earlier trials at the same epoch, `hyperband` gives
            many trials a few epochs and few trials many, `none` gives nothing up.
        warmup: epochs before the first judgement.
        startup: trials that run to their end before others are given up; for `median`.
        score: validation score to judge by; None for the goal's, or with checks for `train.selection.metric`.
    """

    method: Literal["median", "hyperband", "none"] = "median"
    warmup: int = 0
    startup: int = 5
    score: str | None = None

    def __post_init__(self) -> None:
        if min(self.warmup, self.startup) < 0:
            raise ValueError(f"warmup and startup must be at least 0, got {self.warmup} and {self.startup}")


@dataclass(frozen=True, kw_only=True)
class SearchRecipe:
    """How to search.

    Args:
        trials: how many in all, pruned and failed ones included.
        objective: what to optimise; several give a Pareto front.
        sampler: `tpe` learns from earlier trials, `random` does not, `grid` takes every combination once, in random
            order, of ranges that can be counted.
        startup: random trials before `tpe` learns.
        pruner: when to give trials up; None for the median, or for none at all with several objectives.
        seed: of the sampler. Trials are trained with the recipe's own seed.
    """

    trials: int = 30
    objective: tuple[Goal, ...] = field(default_factory=lambda: (Goal(),))
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    startup: int = 10
    pruner: Pruning | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trials < 1 or self.startup < 1:
            raise ValueError(f"trials and startup must be at least 1, got {self.trials} and {self.startup}")
        if not self.objective:
            raise ValueError("objective: at least one expected")
        labels = [goal.label for goal in self.objective]
        if len(set(labels)) < len(labels):
            raise ValueError(f"objective: all different expected, got {', '.join(labels)}")
        if len(labels) > 1 and self.pruner is not None and self.pruner.method != "none":
            raise ValueError(f"pruner: with several objectives no trial can be given up; got {self.pruner.method}")

    @property
    def pruning(self) -> Pruning:
        """The pruner in force."""
        return self.pruner or Pruning(method="median" if len(self.objective) == 1 else "none")
