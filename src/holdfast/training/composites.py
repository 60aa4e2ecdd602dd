"""What a composite of fixed strength has instead of training: the fit of its transformation to the robust network."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.checks import Check
from holdfast.ensembles.composite import Composite
from holdfast.ensembles.of_runs import CompositeOfRuns
from holdfast.ensembles.transform_fit import fit_margins, fitting_logits
from holdfast.errors import ModelError, RecipeError
from holdfast.halving import BatchSize
from holdfast.recipe.consistency import fitting_attack
from holdfast.recipe.plain import describe
from holdfast.recipe.schema import Recipe
from holdfast.rng import Streams
from holdfast.runs.splits import Splits
from holdfast.training.records import Preparation
from holdfast.types import Attack

BATCH = 128
"""Validation images that are attacked together, as long as memory suffices."""


def fit_composite(
    recipe: Recipe, splits: Splits, model: nn.Module, device: torch.device
) -> Generator[Preparation, None, tuple[Recipe, dict[str, Any]]]:
    """Fit the transformation of a composite on validation images; does nothing where the recipe asks for no fit.

    Returns:
        The recipe with the fitted numbers, for the weights file, and facts for `run.json`.

    Raises:
        RecipeError: if the images leave nothing to fit to.
    """
    composite: object = recipe.model
    if not isinstance(composite, CompositeOfRuns) or composite.fit is None:
        return recipe, {}
    assert isinstance(model, Composite)
    attack = fitting_attack(composite.fit, recipe.checks)
    assert attack is not None, "recipes without an attack are refused"
    pieces = yield from _fitting_logits(attack, splits, model, device, recipe.seed)
    try:
        numbers = fit_margins(*map(torch.cat, zip(*pieces, strict=True)), keep=composite.fit.keep)
    except ModelError as error:
        raise RecipeError(f"{recipe.name}: model.{error}") from error
    facts = {**numbers.facts(), "keep": composite.fit.keep, "attack": describe(attack, Check)[1]}
    fitted: Any = composite.fitted(numbers)
    return replace(recipe, model=fitted), {"fitted": facts}


def _fitting_logits(
    attack: Attack, splits: Splits, model: Composite, device: torch.device, seed: int
) -> Generator[Preparation, None, list[tuple[Tensor, Tensor]]]:
    """Robust logits of the validation images to fit to, see `fitting_logits`; a record for each batch."""
    validation = splits.validation
    assert validation is not None, "recipes without validation images are refused"
    kind = next(iter(model.parameters()), torch.empty(0)).dtype
    batch_size, pieces, done = BatchSize(BATCH), [], 0

    def logits_of(rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        part = validation.select(torch.tensor(rows))
        x, y = part.batch(slice(None))
        rng = Streams(seed, "fit of the transformation", part.index)
        return fitting_logits(model.robust, x.to(device, kind), y.to(device), attack, rng=rng)

    for rows, logits in batch_size.over(range(len(validation)), logits_of):
        pieces.append(logits)
        done += len(rows)
        yield Preparation(done, len(validation), 0, batch_size.news())
    return pieces
