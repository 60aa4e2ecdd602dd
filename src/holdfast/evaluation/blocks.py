"""Checks one after the other, block by block; what the ledger holds is not run again."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.attacks.transfer import Transferred
from holdfast.checks import Check
from holdfast.data.dataset import Split
from holdfast.errors import RecipeError
from holdfast.evaluation.batch import Row
from holdfast.evaluation.composed import run_composed
from holdfast.evaluation.former import refuse_other_fields
from holdfast.evaluation.points import write_points
from holdfast.evaluation.setting import Block, Named, Setting
from holdfast.evaluation.source import forget_others
from holdfast.evaluation.subject import Subject, try_out
from holdfast.halving import BatchSize
from holdfast.lipschitz.margins import unchanging
from holdfast.modes import evaluating
from holdfast.recipe.schema import EvaluateRecipe
from holdfast.results.ledger import Ledger
from holdfast.types import Composed
from holdfast.wrappers import OutOfTimeError, end_of


def evaluations(
    subject: Subject,
    split: Split,
    checks: Sequence[Check],
    *,
    how: EvaluateRecipe | None = None,
    seed: int = 0,
    ledger: Ledger | None = None,
    gallery: Path | None = None,
    points: Path | None = None,
    batch_size: BatchSize | None = None,
) -> Iterator[Block]:
    """Run checks block by block; what the ledger holds is not run again.

    A block is the next `how.block` examples of the split in the order of their indices (fewer for certificates by
    sampling): a fixed piece of work that no order, number of processes or resume point changes. The components of a
    composed attack go over all examples in turn, and every batch of them is saved.

    With `points`, the perturbed images of all examples go to that directory, a file for each part of the ledger. What
    the ledger holds is not run again for their sake, so give it a ledger of its own.

    Where memory runs out, the batch under way is repeated with half as many images, and so is all that follows;
    `batch_size` carries that over to the evaluation of another subject.

    Yields:
        A `Block` for each block of each check, with its rows unless they were there already or time was up; and,
        without rows, after each batch of a composed attack.
    """
    how = how or EvaluateRecipe()
    batch_size = batch_size or BatchSize(how.batch_size)
    subject = _laid_out(subject, how)
    setting = Setting(subject, split, how, batch_size, seed, end_of(how.budget), ledger, gallery, points)
    named = _named(checks, setting)
    sizes = [len(split) * (len(one.check.components()) if isinstance(one.check, Composed) else 1) for one in named]
    for number, one in enumerate(named):
        run = run_composed if isinstance(one.check, Composed) else _run_plain
        if isinstance(one.check, Transferred) and ledger is not None:
            forget_others(ledger, gallery, one.key, one.label, subject.weights)
        for block in run(one, setting):
            done = sum(sizes[:number]) + block.done
            yield replace(block, done=done, total=sum(sizes), halved=batch_size.news())


def _laid_out(subject: Subject, how: EvaluateRecipe) -> Subject:
    """The subject, or a copy of it with the requested layout in memory."""
    if not (how.channels_last and isinstance(subject.model, nn.Module)):
        return subject
    copied: Any = copy.deepcopy(subject.model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return replace(subject, model=copied)


def _named(checks: Sequence[Check], setting: Setting) -> list[Named]:
    """The checks with their names, once it is clear that they can run and that the ledger can distinguish them."""
    named = [Named.of(check, setting) for check in checks]
    if not named:
        raise RecipeError("checks: expected at least one; got none")
    try_out(setting.subject.model, setting.split)
    label, count = Counter(one.label for one in named).most_common(1)[0]
    if count > 1:
        raise RecipeError(f"checks: expected each check once; got '{label}' {count} times")
    if setting.ledger is not None:
        refuse_other_fields(setting.ledger, named, setting.subject.weights)
    return named


def _run_plain(named: Named, setting: Setting) -> Iterator[Block]:
    """A check that is one piece, block by block."""
    for number, places in enumerate(setting.blocks(named.block)):
        part, done = named.part(number), places.stop
        if setting.ledger is not None and setting.ledger.has(part):
            yield Block(named.label, done, 0, stored=True)
            continue
        try:
            rows = _run_block(named, setting, number, places)
        except OutOfTimeError:
            yield Block(named.label, done, 0, not_run={named.label: len(places)})
            continue
        frame = named.frame(rows, setting)
        if setting.ledger is not None:
            setting.ledger.append(part, frame)
        yield Block(named.label, done, 0, rows=frame)


def _run_block(named: Named, setting: Setting, number: int, places: range) -> list[Row]:
    """Rows of one block; its first few images go to the gallery if it is the first."""
    rows: list[Row] = []
    kept: list[Tensor] = []
    pictures: list[tuple[Tensor, Tensor]] = []
    points = named.points(number, setting)
    keep = setting.how.gallery if places.start == 0 and setting.gallery is not None else 0

    def work(part: Split) -> tuple[list[Row], Tensor, Tensor]:
        return setting.run(named.check, part, setting.streams(part))

    with evaluating(setting.subject.model), unchanging(setting.bounds):
        for _, (new, x, z) in setting.batches(places, work):
            if z is not x and len(rows) < keep:
                pictures.append((x, z))
            kept += [] if points is None else [z.cpu()]
            rows += new
        if pictures:
            x, z = (torch.cat(images)[:keep] for images in zip(*pictures, strict=True))
            named.keep_images(setting, x, z, rows[:keep])
    if points is not None:
        write_points(points, torch.cat(kept))
    return rows
