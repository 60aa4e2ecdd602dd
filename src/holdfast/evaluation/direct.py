"""Checks of a model in one line of Python."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from torch import Tensor

from holdfast.checks import Check, is_attack
from holdfast.corruptions.noise import Clean
from holdfast.data.dataset import Split
from holdfast.errors import RecipeError
from holdfast.evaluation.blocks import evaluations
from holdfast.evaluation.inputs import Checks, Images, listed_checks, moved, normalising, settings_of, splits_of
from holdfast.evaluation.subject import Subject, place
from holdfast.evaluation.summary import CLEAN, Results
from holdfast.halving import BatchSize
from holdfast.hierarchy import Hierarchy
from holdfast.models.logits import with_logits
from holdfast.models.network import PerChannel
from holdfast.recipe.plain import describe
from holdfast.recipe.schema import EvaluateRecipe
from holdfast.results.ledger import SCHEMA
from holdfast.runs.card import content_hash
from holdfast.runs.directory import Run, versions
from holdfast.runs.identity import refuse_others, same_outputs
from holdfast.runs.splits import Splits
from holdfast.trust.consistency import from_rows
from holdfast.trust.outputs import probabilities
from holdfast.trust.passes import FirstNorm, scaling_verdict
from holdfast.trust.store import stored, write_verdicts
from holdfast.trust.verdict import Verdict, failed
from holdfast.types import Classifier

PROBE = 64
"""Images on which conditions of the model are tested."""

REMEDY = "choose another directory, or delete this one"


def evaluate(
    model: Classifier,
    x: Images,
    y: Tensor | np.ndarray[Any, Any] | None = None,
    checks: Checks = "quick",
    *,
    mean: PerChannel | None = None,
    std: PerChannel | None = None,
    device: torch.device | str | None = None,
    seed: int = 0,
    settings: EvaluateRecipe | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    hierarchy: Hierarchy | None = None,
) -> Results:
    """Check a model on images: `print(holdfast.evaluate(model, x, y))`.

    Args:
        model: images in [0, 1] to logits, or to a record that has them in its attribute `logits`, as networks of
            Hugging Face do; a module is put in evaluation mode for the time.
        x: images in [0, 1], (N, C, H, W), float or uint8, held in float32; or, without `y`, a data set or a
            `DataLoader` of images and labels, which must not normalise the images.
        y: labels, (N,).
        checks: a method or several, a name of a preset or of a check, or what a recipe says of checks. Clean
            images are asked about in any case, see `Results.clean`.
        mean: subtracted from the images in front of the model, one number or one for each channel; budgets of attacks
            remain those of images in [0, 1]. `holdfast.normalised` makes such a model for other uses.
        std: divides the images there.
        device: where to run; the model is moved there for the time. None for where it is.
        seed: random seed.
        settings: how the checks run, as a record or as `evaluate` in a recipe: images per forward pass, time, order of
            the components of composed attacks, layout in memory. `Results.not_run` says what the time left out.
        out: directory of a run that keeps the results; what it holds of the same model is not run again. `holdfast
            report` makes a page of it.
        hierarchy: groups of the classes, and what mistakes cost; None for none.

    Raises:
        RecipeError: if the directory holds results of another model, other images or another seed.
    """
    splits, chosen, how = splits_of(x, y, hierarchy), listed_checks(checks), settings_of(settings)
    with moved(model, device):
        answering = with_logits(model, splits.test.batch(slice(0, 1))[0].to(place(model)))
        subject = Subject(normalising(answering, mean, std, splits.shape[0]), hierarchy=splits.hierarchy)
        with nullcontext() if out is None else Run(Path(out)).lock():
            kept = None if out is None else _claimed(Path(out), subject.model, splits, how, seed)
            return _run(subject if kept is None else kept.subject, splits.test, chosen, how, seed, kept)


@dataclass(frozen=True)
class _Kept:
    """A run that keeps results, and how it names the model."""

    run: Run
    subject: Subject


def _run(
    subject: Subject, split: Split, checks: Sequence[Check], how: EvaluateRecipe, seed: int, kept: _Kept | None
) -> Results:
    blocks: list[pl.DataFrame] = [pl.DataFrame(schema=SCHEMA)]
    not_run: Counter[str] = Counter()
    ledger, gallery = (None, None) if kept is None else (kept.run.ledger, kept.run.gallery)
    all_checks = checks if not checks or Clean() in checks else [Clean(), *checks]
    batch_size = BatchSize(how.batch_size)
    for block in evaluations(
        subject, split, all_checks, how=how, seed=seed, ledger=ledger, gallery=gallery, batch_size=batch_size
    ):
        blocks += [] if block.rows is None else [block.rows]
        not_run.update(block.not_run)
    rows = ledger.read() if ledger is not None and ledger.parts() else pl.concat(blocks)
    requested = rows.filter(pl.col("check").is_in([describe(check, Check)[1] for check in checks]))
    if all_checks is not checks:
        not_run.pop(CLEAN, None)
    clean = rows.filter(pl.col("check") == CLEAN)
    verdicts = _of_model(subject, split, batch_size.size)
    verdicts += from_rows(rows) if any(map(is_attack, checks)) else []
    if kept is not None:
        write_verdicts(kept.run.path, stored(subject.run, subject.weights, subject.hash, seed, verdicts))
    return Results(requested, dict(not_run), clean, _warned(verdicts), subject.hierarchy)


def _of_model(subject: Subject, split: Split, images: int) -> list[Verdict]:
    """Failed conditions of the model alone, tested on as many images as fit into memory, at most `PROBE`."""
    x = split.batch(slice(0, min(PROBE, images)))[0].to(place(subject.model))
    with FirstNorm() as watch:  # both from one forward pass
        outputs = probabilities(subject.model, x)
    return failed([outputs, scaling_verdict(watch.recorded)])


def _warned(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """What makes the numbers meaningless, a line each; results themselves say whether a model is at chance level."""
    lines = tuple(f"{verdict.finding}; {verdict.remedy}" for verdict in failed(verdicts) if verdict.flag != "chance")
    for line in lines:
        warnings.warn(line, UserWarning, stacklevel=4)
    return lines


def _claimed(path: Path, model: Classifier, splits: Splits, how: EvaluateRecipe, seed: int) -> _Kept:
    """Take a directory for a model and its images, or go on in it."""
    run = Run(path)
    run.check()
    if run.labels():
        raise RecipeError(f"{path}: holds a network that was trained there; choose another directory")
    weights = model.state_dict() if hasattr(model, "state_dict") else {}
    digest, name = content_hash(weights), type(model).__name__
    refuse_others(run, splits, weights=digest, block=how.block, seed=seed, remedy=REMEDY)
    outputs = same_outputs(run, "given", digest, model, splits, remedy=REMEDY)
    parameters = sum(tensor.numel() for tensor in model.parameters()) if hasattr(model, "parameters") else None
    run.record(
        name=path.name, seed=seed, block=how.block, versions=versions(), data=splits.facts(),
        model={"name": name, "parameters": parameters},
        weights={"given": {"sha256": digest, "file": None, "outputs": outputs}},
    )  # fmt: skip
    return _Kept(run, Subject(model, path.name, "given", digest, hierarchy=splits.hierarchy))
