"""Checks of a model in one line of Python."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from holdfast.checks import Check
from holdfast.corruptions import Clean
from holdfast.data import Memory, Split
from holdfast.errors import DataError, ModelError, RecipeError
from holdfast.evaluation.blocks import evaluations
from holdfast.evaluation.subject import Subject, place
from holdfast.evaluation.summary import CLEAN, Results
from holdfast.halving import BatchSize
from holdfast.models import normalised, with_logits
from holdfast.promises import require_check
from holdfast.recipe import EvaluateRecipe, Seconds, describe, read_checks
from holdfast.recipe.sweeps import parse_checks
from holdfast.results import SCHEMA
from holdfast.runs import Run, Splits, content_hash, refuse_others, same_outputs, versions
from holdfast.trust import stored, write_verdicts
from holdfast.trust.outputs import probabilities
from holdfast.trust.passes import FirstNorm, scaling_verdict
from holdfast.types import Classifier

Images = Tensor | np.ndarray[Any, Any] | Iterable[Any]
"""Images as tensors, or images with labels: a data set, or a loader of batches."""

Checks = str | Mapping[str, Any] | Check | Sequence[str | Mapping[str, Any] | Check]
"""Methods, names of checks or presets, or what a recipe says of checks."""

PROBE = 64
"""Images on which conditions of the model are tested."""

REMEDY = "choose another directory, or delete its results with fresh=True"


def evaluate(
    model: Classifier,
    x: Images,
    y: Tensor | np.ndarray[Any, Any] | None = None,
    checks: Checks = "quick",
    *,
    seed: int = 0,
    batch_size: int = 256,
    order: Literal["published", "yield"] = "published",
    budget: float | None = None,
    channels_last: bool = False,
    device: torch.device | str | None = None,
    mean: Sequence[float] | float | None = None,
    std: Sequence[float] | float | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
) -> Results:
    """Check a model on images: `print(holdfast.evaluate(model, x, y))`.

    Args:
        model: images in [0, 1] to logits, or to a record that has them in its attribute `logits`, as networks of
            Hugging Face do; a module is put in evaluation mode for the time.
        x: images in [0, 1], (N, C, H, W), float or uint8, held in float32; or, without `y`, a data set or a
            `DataLoader` of images and labels, which must not normalise the images: give `mean` and `std` instead.
        y: labels, (N,).
        checks: a method or several, a name of a preset or of a check, or what a recipe says of checks. Clean
            images are asked about in any case, see `Results.clean`.
        seed: random seed.
        batch_size: images per forward pass.
        order: of the components of composed attacks, see `EvaluateRecipe`.
        budget: seconds after which to stop; `Results.not_run` says what that left out.
        channels_last: run a copy of the network with another layout in memory, often faster; see `EvaluateRecipe`.
        device: where to run; the model is moved there for the time. None for where it is.
        mean: per channel, subtracted from the images before the model sees them.
        std: per channel, divides them.
        out: directory of a run that keeps the results; what it holds of the same model is not run again. `holdfast
            report` makes a page of it.
        fresh: delete what that directory holds first.

    Raises:
        RecipeError: if the directory holds results of another model, other images or another seed.
    """
    splits, chosen = _splits(x, y), _listed(checks)
    seconds = None if budget is None else Seconds(budget)
    how = EvaluateRecipe(
        batch_size=batch_size,
        block=max(256, batch_size),
        order=order,
        budget=seconds,
        channels_last=channels_last,
    )
    with _moved(model, device):
        answering = with_logits(model, splits.test.batch(slice(0, 1))[0].to(place(model)))
        subject = Subject(_normalising(answering, mean, std, splits.shape[0]))
        with nullcontext() if out is None else Run(Path(out)).lock():
            kept = None if out is None else _claimed(Path(out), subject.model, splits, how, seed, fresh=fresh)
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
    all_checks, batch_size = (
        checks if not checks or Clean() in checks else [Clean(), *checks],
        BatchSize(how.batch_size),
    )
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
    return Results(requested, dict(not_run), clean, _doubts(subject, split, batch_size.size, seed, kept))


def _doubts(subject: Subject, split: Split, images: int, seed: int, kept: _Kept | None) -> tuple[str, ...]:
    """Conditions of the model alone that make its numbers meaningless, a line each; they also go to the run.

    They are tested on as many images as fit into memory, at most `PROBE`.
    """
    x = split.batch(slice(0, min(PROBE, images)))[0].to(place(subject.model))
    with FirstNorm() as watch:  # both from one forward pass
        outputs = probabilities(subject.model, x)
    failed = [verdict for verdict in (outputs, scaling_verdict(watch.recorded)) if verdict.level == "fail"]
    if kept is not None:
        write_verdicts(kept.run.path, stored(subject.run, subject.weights, subject.hash, seed, failed))
    lines = tuple(f"{verdict.finding}; {verdict.remedy}" for verdict in failed)
    for line in lines:
        warnings.warn(line, UserWarning, stacklevel=4)
    return lines


def _splits(x: Images, y: Tensor | np.ndarray[Any, Any] | None) -> Splits:
    if isinstance(y, str | Mapping):
        raise DataError(f"y: expected labels; got {y!r}; say checks={y!r}")
    if y is None and isinstance(x, Tensor | np.ndarray):
        raise DataError("y: expected the labels of the images; got None")
    if y is not None and not isinstance(x, Tensor | np.ndarray | list | tuple):
        raise DataError(f"y: expected None beside {type(x).__name__}, which has labels of its own; got labels")
    test: Any = x if y is None else (torch.as_tensor(x), torch.as_tensor(y))
    try:
        data = Memory(test=test)()
    except DataError as error:
        if "in [0, 1]" in str(error):
            raise DataError(f"{error}; leave normalisation out of the images and give mean= and std=") from None
        raise
    return Splits(data.name, data.classes, data.shape, data.fingerprint(), None, None, data.test)


@contextmanager
def _moved(model: Classifier, device: torch.device | str | None) -> Iterator[None]:
    """Put a module on a device, and afterwards where it was."""
    if device is None:
        yield
        return
    if not isinstance(model, nn.Module):
        raise ModelError(f"device: expected a torch module, which can be moved; got {type(model).__name__}")
    before = place(model).device
    model.to(device)
    try:
        yield
    finally:
        model.to(before)


def _normalising(
    model: Classifier, mean: Sequence[float] | float | None, std: Sequence[float] | float | None, channels: int
) -> Classifier:
    """The model behind a normalisation, if there is one."""
    if mean is None and std is None:
        return model
    centre = _per_channel("mean", mean, 0.0, channels)
    scale = _per_channel("std", std, 1.0, channels)
    if not isinstance(model, nn.Module):
        return partial(_after_normalising, model, centre, scale)
    made: Any = normalised(model, centre, scale)
    made.normalise.to(place(model))
    return made  # type: ignore[no-any-return]


def _per_channel(name: str, given: Sequence[float] | float | None, default: float, channels: int) -> list[float]:
    if given is None:
        return [default] * channels
    values = [float(given)] if isinstance(given, int | float) else [float(value) for value in given]
    if len(values) != channels or not all(map(np.isfinite, values)) or (name == "std" and min(values) <= 0):
        sign = "positive " if name == "std" else ""
        raise RecipeError(f"{name}: expected {channels} {sign}numbers, one per channel; got {given!r}")
    return values


def _after_normalising(model: Classifier, mean: Sequence[float], std: Sequence[float], x: Tensor) -> Tensor:
    centre, scale = (torch.as_tensor(values, dtype=x.dtype, device=x.device)[:, None, None] for values in (mean, std))
    return model((x - centre) / scale)


def _listed(checks: Any, place: str = "checks") -> list[Check]:
    if isinstance(checks, str):
        return read_checks(checks)
    if isinstance(checks, Mapping):
        return parse_checks(dict(checks))
    if isinstance(checks, Sequence):
        return [one for number, each in enumerate(checks) for one in _listed(each, f"{place}[{number}]")]
    return [require_check(checks, place)]


def _claimed(path: Path, model: Classifier, splits: Splits, how: EvaluateRecipe, seed: int, *, fresh: bool) -> _Kept:
    """Take a directory for a model and its images, or go on in it."""
    run = Run(path)
    run.check()
    if run.labels():
        raise RecipeError(f"{path}: holds a network that was trained there; choose another directory")
    if fresh:
        run.forget_results()
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
    return _Kept(run, Subject(model, path.name, "given", digest))
