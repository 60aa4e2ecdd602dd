"""Checks of a model in one line of Python, without a run directory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from torch import Tensor

from holdfast.analysis.certified import average_certified_radius
from holdfast.checks import Check, preset
from holdfast.data import Memory
from holdfast.evaluation.blocks import evaluations
from holdfast.evaluation.subject import Subject
from holdfast.recipe import EvaluateRecipe, Seconds
from holdfast.results import SCHEMA, accuracies, worst_case, yields
from holdfast.types import Classifier


@dataclass(frozen=True)
class Results:
    """Rows of a ledger with the summaries one asks for first.

    Args:
        rows: one per example and check.
        not_run: examples left out for lack of time, by check and component.
    """

    rows: pl.DataFrame
    not_run: dict[str, int] = field(default_factory=dict)

    @property
    def table(self) -> pl.DataFrame:
        """Accuracy with interval of every check."""
        return accuracies(self.rows)

    @property
    def worst_case(self) -> pl.DataFrame:
        """Accuracy with interval when an example must hold in every check; certificates are left out."""
        return worst_case(self.rows)

    @property
    def certified(self) -> pl.DataFrame:
        """Average certified radius with interval of every certificate."""
        return average_certified_radius(self.rows)

    @property
    def yields(self) -> pl.DataFrame:
        """What each component of composed attacks did."""
        return yields(self.rows)

    def __str__(self) -> str:
        columns = ["check", "examples", "accuracy", "low", "high"]
        worst = self.worst_case.with_columns(check=pl.lit("worst case of all"))
        shown = str(pl.concat([self.table.select(columns), worst.select(columns)]))
        left = [f"not run for lack of time: {what} on {count} examples" for what, count in self.not_run.items()]
        radii = [
            f"{check}: average certified radius {average:.4g} in {norm}, {abstained} abstained"
            for check, norm, average, abstained in self.certified.select(
                "check", "norm", "average", "abstained"
            ).iter_rows()
        ]
        bound = self.table["unsettled"].sum() > 0
        upper = ["accuracies of unfinished attacks are upper bounds"] if bound else []
        return "\n".join([shown, *radii, *left, *upper])


def evaluate(
    model: Classifier,
    x: Tensor | np.ndarray[Any, Any],
    y: Tensor | np.ndarray[Any, Any],
    checks: str | Check | Sequence[Check] = "quick",
    *,
    seed: int = 0,
    batch_size: int = 256,
    order: Literal["published", "yield"] = "published",
    budget: float | None = None,
    channels_last: bool = False,
) -> Results:
    """Check a model on images: `print(holdfast.evaluate(model, x, y))`.

    Args:
        model: images in [0, 1] to logits; a module is put in eval mode for the time.
        x: images in [0, 1], (N, C, H, W), float or uint8; they are held in float32.
        y: labels, (N,).
        checks: a method or several, or `quick`, `standard` or `full`.
        seed: of everything random.
        batch_size: images per forward pass.
        order: of the components of composed attacks, see `EvaluateRecipe`.
        channels_last: run a copy of the network with another layout in memory, often faster; see `EvaluateRecipe`.
        budget: seconds after which to stop; `Results.not_run` says what that left out.
    """
    split = Memory(test=(torch.as_tensor(x), torch.as_tensor(y)))().test
    seconds = None if budget is None else Seconds(budget)
    how = EvaluateRecipe(
        batch_size=batch_size,
        block=max(256, batch_size),
        order=order,
        budget=seconds,
        channels_last=channels_last,
    )
    rows: list[pl.DataFrame] = [pl.DataFrame(schema=SCHEMA)]
    not_run: Counter[str] = Counter()
    for block in evaluations(Subject(model), split, _listed(checks), how=how, seed=seed):
        rows += [] if block.rows is None else [block.rows]
        not_run.update(block.not_run)
    return Results(pl.concat(rows), dict(not_run))


def _listed(checks: str | Check | Sequence[Check]) -> Sequence[Check]:
    if isinstance(checks, str):
        return preset(checks)
    one: Any = checks
    return one if isinstance(one, Sequence) else [one]
