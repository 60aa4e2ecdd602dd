"""Checks on a model: rows of the ledger, block by block, resumable."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from holdfast.checks import Check, is_attack, preset
from holdfast.data import Memory, Split
from holdfast.errors import ModelError, RecipeError
from holdfast.losses import cross_entropy
from holdfast.modes import evaluating
from holdfast.queries import Counted
from holdfast.recipe import EvaluateRecipe, describe
from holdfast.results import SCHEMA, Ledger, accuracies, worst_case, write_atomically
from holdfast.rng import Streams
from holdfast.threat import L2
from holdfast.types import Attack, Classifier, Corruption


@dataclass(frozen=True)
class Subject:
    """What is evaluated, as the ledger names it.

    Args:
        model: the classifier.
        run: name of its run.
        weights: which of its weights.
        hash: of their content.
    """

    model: Classifier
    run: str = "model"
    weights: str = "given"
    hash: str = ""


@dataclass(frozen=True)
class Block:
    """One block of one check done, or found done."""

    check: str
    number: int
    total: int
    rows: pl.DataFrame | None


@dataclass(frozen=True)
class Results:
    """Rows of a ledger with the summaries one asks for first.

    Args:
        rows: one per example and check.
    """

    rows: pl.DataFrame

    @property
    def table(self) -> pl.DataFrame:
        """Accuracy with interval of every check."""
        return accuracies(self.rows)

    @property
    def worst_case(self) -> pl.DataFrame:
        """Accuracy with interval when an example must hold in every check."""
        return worst_case(self.rows)

    def __str__(self) -> str:
        columns = ["check", "examples", "accuracy", "low", "high"]
        return str(pl.concat([self.table.select(columns), _worst_row(self.worst_case).select(columns)]))


def evaluate(
    model: Classifier,
    x: Tensor | np.ndarray[Any, Any],
    y: Tensor | np.ndarray[Any, Any],
    checks: str | Check | Sequence[Check] = "quick",
    *,
    seed: int = 0,
    batch_size: int = 256,
) -> Results:
    """Check a model on images: `print(holdfast.evaluate(model, x, y))`.

    Args:
        model: images in [0, 1] to logits; a module is put in eval mode for the time.
        x: images in [0, 1], (N, C, H, W), float or uint8; they are held in float32.
        y: labels, (N,).
        checks: a method or several, or `quick`, `standard` or `full`.
        seed: of everything random.
        batch_size: images per forward pass.
    """
    chosen = preset(checks) if isinstance(checks, str) else _listed(checks)
    split = Memory(test=(torch.as_tensor(x), torch.as_tensor(y)))().test
    how = EvaluateRecipe(batch_size=batch_size, block=max(256, batch_size))
    blocks = evaluations(Subject(model), split, chosen, how=how, seed=seed)
    return Results(pl.concat([block.rows for block in blocks if block.rows is not None]))


def evaluations(
    subject: Subject,
    split: Split,
    checks: Sequence[Check],
    *,
    how: EvaluateRecipe | None = None,
    seed: int = 0,
    ledger: Ledger | None = None,
    gallery: Path | None = None,
) -> Iterator[Block]:
    """Run checks block by block; what the ledger holds is not run again.

    A block is the next `how.block` examples of the split in the order of their indices: a fixed piece of work that no
    order, number of processes or resume point changes.

    Yields:
        A `Block` for each block of each check, with its rows unless they were there already.
    """
    how = how or EvaluateRecipe()
    order = split.index.argsort(stable=True)
    blocks = [order[start : start + how.block] for start in range(0, len(order), how.block)]
    examples = hashlib.blake2b(split.index[order].numpy().tobytes(), digest_size=8).hexdigest()
    described = [describe(check, Check) for check in checks]
    if not described:
        raise RecipeError("checks: expected at least one; got none")
    try_out(subject.model, split)
    labels = [label for _, label, _ in described]
    for label in labels:
        if labels.count(label) > 1:  # the ledger could not tell them apart
            raise RecipeError(f"checks: expected each check once; got '{label}' {labels.count(label)} times")
    for check, (method, label, params) in zip(checks, described, strict=True):
        key = _key(subject.hash, method, params, str(seed), str(how.block), examples)
        for number, block in enumerate(blocks):
            part = f"{subject.weights}-{key}-{number:06d}"
            if ledger is not None and ledger.has(part):
                yield Block(label, number + 1, len(blocks), None)
                continue
            keep = how.gallery if number == 0 else 0
            rows, images = _run_block(subject, split.select(block), check, how.batch_size, seed, keep)
            named = rows.with_columns(
                run=pl.lit(subject.run), weights=pl.lit(subject.weights), weights_hash=pl.lit(subject.hash[:12]),
                check=pl.lit(label), method=pl.lit(method), params=pl.lit(params), seed=pl.lit(seed),
            ).select([pl.col(name).cast(kind) for name, kind in SCHEMA.items()])  # fmt: skip
            if gallery is not None and images:
                _keep(gallery / f"{subject.weights}-{key}.npz", {**images, "check": label, "weights": subject.weights})
            if ledger is not None:
                ledger.append(part, named)
            yield Block(label, number + 1, len(blocks), named)


def try_out(model: Classifier, split: Split, classes: int | None = None) -> None:
    """One forward pass before hours of work: does the model take these images and know their classes?

    Raises:
        ModelError: if it cannot be called, or its output is not one row of `classes` logits (None for as many as the
            labels need).
    """
    where, (x, _) = _place(model), split.batch(slice(0, 1))
    try:
        with evaluating(model), torch.no_grad():
            logits = model(x.to(where))
    except Exception as error:  # a foreign network may raise anything
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"the model cannot be called on images of shape {tuple(x.shape)}: {line}") from error
    known = logits.shape[1] if isinstance(logits, Tensor) and logits.dim() == 2 and len(logits) == 1 else 0
    needed = int(split.y.max()) + 1
    if known < needed or (classes is not None and known != classes):
        came = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ModelError(f"the model: expected logits of shape (1, {classes or f'at least {needed}'}); got {came}")


def _run_block(
    subject: Subject, piece: Split, check: Check, batch_size: int, seed: int, keep: int
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Rows of one block, and the first few images for the gallery."""
    frames, images = [], {}
    where = _place(subject.model)
    with evaluating(subject.model):
        for start in range(0, len(piece), batch_size):
            part = piece.select(slice(start, start + batch_size))
            x, y = part.batch(slice(None))
            x, y = x.to(where), y.to(where.device)
            rng = Streams(seed, "check", part.index)
            frame, z = _run_batch(subject.model, x, y, check, rng, part.index)
            frames.append(frame)
            if keep and not start and z is not x:
                images = _images(subject.model, x[:keep], z[:keep], frame)
    return pl.concat(frames), images


def _run_batch(
    model: Classifier, x: Tensor, y: Tensor, check: Check, rng: Streams, index: Tensor
) -> tuple[pl.DataFrame, Tensor]:
    started = time.perf_counter()
    counts = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    counted = Counted(model, counts)
    if is_attack(check):
        attack = cast(Attack, check)
        z, threat = attack(counted, x, y, rng=rng), attack.threat
    else:
        z, threat = cast(Corruption, check)(x, rng=rng), L2(1.0)
    with torch.no_grad():
        logits = counted(z)
        if bad := index[logits.isnan().any(1).cpu()].tolist():
            raise ModelError(f"the logits are NaN for {len(bad)} of {len(x)} examples, first at index {bad[0]}")
        loss, prediction = cross_entropy(logits, y), logits.argmax(1)
        distance = threat.distance(z, x)
    seconds = (time.perf_counter() - started) / len(x)
    norm = type(threat).__name__.lower()
    columns = {
        "example": index, "label": y, "prediction": prediction, "correct": prediction == y, "loss": loss,
        "distance": distance, "queries": counts,
    }  # fmt: skip
    wide = {name: column.double() if column.is_floating_point() else column for name, column in columns.items()}
    frame = pl.DataFrame({name: column.cpu().numpy() for name, column in wide.items()})
    extra = [pl.lit(norm).alias("norm"), pl.lit(None, pl.Float64).alias("radius"), pl.lit(seconds).alias("seconds")]
    return frame.with_columns(extra), z


def _images(model: Classifier, x: Tensor, z: Tensor, frame: pl.DataFrame) -> dict[str, Any]:
    """What the gallery shows of the first images of a batch."""
    with torch.no_grad():
        before = model(x).argmax(1)
    head = frame.head(len(x))
    return {
        "x": x.float().cpu().numpy(), "z": z.float().cpu().numpy(),
        "example": head["example"].to_numpy(), "label": head["label"].to_numpy(), "before": before.cpu().numpy(),
        "after": head["prediction"].to_numpy(), "distance": head["distance"].to_numpy(), "norm": head["norm"][0],
    }  # fmt: skip


def _keep(path: Path, arrays: dict[str, Any]) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{k: np.asarray(array) for k, array in arrays.items()})

    write_atomically(path, write)


def _listed(checks: Check | Sequence[Check]) -> Sequence[Check]:
    return checks if isinstance(checks, Sequence) else [checks]


def _place(model: Classifier) -> Tensor:
    """A tensor with device and dtype of the model's parameters; a plain function gets float32 on the CPU."""
    first = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.empty(0) if first is None else first.detach().new_empty(0)


def _key(*words: str) -> str:
    return hashlib.blake2b("\0".join(words).encode(), digest_size=8).hexdigest()


def _worst_row(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(check=pl.lit("worst case of all"))
