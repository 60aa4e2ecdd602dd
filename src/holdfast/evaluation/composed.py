"""Composed attacks: component after component over the examples that still stand, saved batch by batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import polars as pl
import torch
from torch import Tensor

from holdfast.corruptions.noise import Clean
from holdfast.data.dataset import Split
from holdfast.errors import LedgerError
from holdfast.evaluation.batch import Row, run_batch
from holdfast.evaluation.gallery import read_images
from holdfast.evaluation.points import read_points, write_points
from holdfast.evaluation.setting import Block, Named, Setting
from holdfast.evaluation.subject import place as place_of
from holdfast.modes import evaluating
from holdfast.traits import traits_of
from holdfast.types import Attack, Composed
from holdfast.wrappers import OutOfTimeError

PILOT = 32
"""Examples that every component is tried on to find the order of yield."""

FINER = 8
"""By how much batches are smaller where time may run out, since the batch under way is then lost."""

CLEAN = "clean"
"""The step before all components: is the model right at all?"""


def run_composed(named: Named, setting: Setting) -> Iterator[Block]:
    """Run a composed attack, from where the ledger left it."""
    state = State(named, setting)
    yield from state.start()
    components = cast(Composed, named.check).components()
    finer = 1 if math.isinf(setting.until) else FINER
    with suppress(OutOfTimeError):
        for step, places in sequence(state, setting.how.order):
            work = partial(_run_component, setting, step, components[step])
            for piece, (rows, _, z) in setting.batches(places, work, finer=finer):
                state.add(step, piece, rows, z)
                yield Block(f"{named.label}: {step}", state.settled(), 0)
    yield from state.finish()


def _run_component(setting: Setting, step: str, attack: Attack, part: Split) -> tuple[list[Row], Tensor, Tensor]:
    with evaluating(setting.subject.model):
        return setting.run(attack, part, setting.streams(part).split(step))


def sequence(state: State, order: str) -> Iterator[tuple[str, list[int]]]:
    """Which component goes next over which places, asked for when the one before is done."""
    steps = list(state.steps)
    if order == "yield":
        pilot = [place for place, row in enumerate(state.rows) if row["steps"][0]["broke"] is False][:PILOT]
        for step in steps:
            yield step, [place for place in pilot if step not in outcomes(state.rows[place])]
        steps = by_yield(steps, [state.rows[place] for place in pilot])
    for step in steps:
        yield step, [n for n, row in enumerate(state.rows) if row["correct"] and step not in outcomes(row)]


def by_yield(steps: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Components by examples newly broken per second: greedily, each counting what those before it leave.

    Args:
        steps: in their published order, which decides between equals.
        rows: of examples that all of them were tried on.
    """
    tried = {step: [outcomes(row)[step] for row in rows] for step in steps}
    seconds = {step: sum(one["seconds"] for one in tried[step]) or 1.0 for step in steps}
    standing = [True] * len(rows)
    left, order = list(steps), []
    while left:
        worth = {step: _newly_broken(tried[step], standing) / seconds[step] for step in left}
        best = max(left, key=lambda step: worth[step])
        standing = [stands and not one["broke"] for stands, one in zip(standing, tried[best], strict=True)]
        left.remove(best)
        order.append(best)
    return order


def _newly_broken(tried: Sequence[Mapping[str, Any]], standing: Sequence[bool]) -> int:
    return sum(stands and one["broke"] for stands, one in zip(standing, tried, strict=True))


def outcomes(row: Row) -> dict[str, Mapping[str, Any]]:
    """What each component that has run did to an example."""
    return {one["step"]: one for one in row["steps"] if one["broke"] is not None}


def is_worse(row: Row, new: Row) -> bool:
    """Whether a new point is the one to keep: the first fall or, failing that, the highest loss."""
    return bool(row["correct"] and (not new["correct"] or new["loss"] > row["loss"]))


def after(row: Row, new: Row, step: str) -> Row:
    """What the ledger says of an example after a component: of its first fall or, failing that, of its highest loss."""
    ran = {"broke": not new["correct"], "queries": new["queries"], "seconds": new["seconds"]}
    entry = {"step": step, "access": _access(row, step), **ran}
    kept = new if is_worse(row, new) else row
    waiting = [one for one in row["steps"] if one["broke"] is None and one["step"] != step]
    return {
        **kept,
        "queries": row["queries"] + new["queries"],
        "gradients": (row.get("gradients") or 0) + (new.get("gradients") or 0),
        "seconds": row["seconds"] + new["seconds"],
        "by": row["by"] or (step if entry["broke"] else None),
        "not_run": _not_run(row, new, step) if kept["correct"] else None,
        "steps": [*outcomes(row).values(), entry, *(waiting if kept["correct"] else [])],
    }


def _access(row: Row, step: str) -> str | None:
    """The access to the network that a component needs, from the row that waits for it."""
    return next((one["access"] for one in row["steps"] if one["step"] == step), None)


def _not_run(row: Row, new: Row, step: str) -> str | None:
    """Which components could not run, and why."""
    reasons = (row["not_run"], f"{step}: {new['not_run']}" if new["not_run"] else None)
    return "; ".join(filter(None, reasons)) or None


class State:
    """What is known of each example, in memory and in the ledger.

    Attributes:
        steps: the components by name, in their published order.
        rows: one per place; complete once `start` is through.
    """

    def __init__(self, named: Named, setting: Setting) -> None:
        self._named, self._setting = named, setting
        self.steps = cast(Composed, named.check).components()
        self.rows: list[Row] = []
        self._changed: set[int] = set()
        self._pictured: Tensor | None = None

    def start(self) -> Iterator[Block]:
        """Take what the ledger has, and ask the model about the clean images of the other blocks."""
        for number, places in enumerate(self._setting.blocks()):
            ledger = self._setting.ledger
            if ledger is not None and ledger.has(self._named.part(number)):
                self.rows += ledger.part(self._named.part(number)).to_dicts()
                continue
            for _, rows in self._setting.batches(places, self._clean):
                self.rows += rows
            if (path := self._named.points(number, self._setting)) is not None:
                x, _ = self._setting.split.batch(self._setting.order[list(places)])
                write_points(path, x.to(place_of(self._setting.subject.model)))
            self._save([number])
            yield Block(f"{self._named.label}: {CLEAN}", self.settled(), 0)

    def _clean(self, part: Split) -> list[Row]:
        setting, attack = self._setting, cast(Attack, self._named.check)
        with evaluating(setting.subject.model):
            rows, _, _ = run_batch(
                setting.subject.model, part, Clean(), setting.streams(part), threat=attack.threat,
                batch_size=setting.batch_size,
            )  # fmt: skip
        none = {"broke": None, "queries": None, "seconds": None}
        waiting = [
            {"step": step, "access": traits_of(component).access, **none} for step, component in self.steps.items()
        ]
        blank = {"queries": 0, "gradients": 0, "seconds": 0.0, "steps": waiting}
        return [after({**row, **blank, "correct": True}, row, CLEAN) for row in rows]

    def add(self, step: str, places: Sequence[int], rows: Sequence[Row], z: Tensor) -> None:
        """Take in what a component did to some examples."""
        replaced = []
        for place, new in zip(places, rows, strict=True):
            replaced.append(is_worse(self.rows[place], new))
            self.rows[place] = after(self.rows[place], new, step)
        self._picture(places, z, replaced)
        self._point(places, z, replaced)
        self._save(sorted({place // self._setting.how.block for place in places}))

    def settled(self) -> int:
        """How many times a component has run or need not run any more."""
        return sum(len(outcomes(row)) - 1 if row["correct"] else len(self.steps) for row in self.rows)

    def finish(self) -> Iterator[Block]:
        """The rows of all blocks, and what is missing."""
        missing = {
            f"{self._named.label}: {step}": sum(row["correct"] and step not in outcomes(row) for row in self.rows)
            for step in self.steps
        }
        not_run = {what: count for what, count in missing.items() if count}
        for number, places in enumerate(self._setting.blocks()):
            changed, last = number in self._changed, places.stop == len(self.rows)
            yield Block(
                self._named.label, self.settled(), 0, stored=not changed, not_run=not_run if last else {},
                rows=self._frame(number) if changed else None,
            )  # fmt: skip

    def _frame(self, number: int) -> pl.DataFrame:
        places = self._setting.blocks()[number]
        return self._named.frame(self.rows[places.start : places.stop], self._setting)

    def _save(self, numbers: Sequence[int]) -> None:
        self._changed.update(numbers)
        if self._setting.ledger is not None:
            for number in numbers:
                self._setting.ledger.append(self._named.part(number), self._frame(number))

    def _point(self, places: Sequence[int], z: Tensor, replaced: Sequence[bool]) -> None:
        """Bring the kept points up to date, before the ledger: a kill in between repeats what is here already."""
        size = self._setting.how.block
        for number in sorted({place // size for place, new in zip(places, replaced, strict=True) if new}):
            path = self._named.points(number, self._setting)
            if path is None:
                return
            kept = torch.from_numpy(read_points(path, z.shape[1:]))
            for n, place in enumerate(places):
                if place // size == number and replaced[n]:
                    if place - number * size >= len(kept):
                        raise LedgerError(f"{path}: expected images of a whole block; got {len(kept)}; use --fresh")
                    kept[place - number * size] = z[n].to(kept)
            write_points(path, kept)

    def _picture(self, places: Sequence[int], z: Tensor, replaced: Sequence[bool]) -> None:
        """Bring the gallery up to date with the points that a component found for its examples."""
        if self._setting.gallery is None:
            return
        keep = min(self._setting.how.gallery, len(self.rows))
        new = {place: n for n, place in enumerate(places) if place < keep and replaced[n]}
        if not new:
            return
        x, _ = self._setting.split.batch(self._setting.order[:keep])
        if self._pictured is None:
            path = self._named.images(self._setting.gallery)
            self._pictured = x.clone()
            before = torch.from_numpy(read_images(path, x.shape[1:])[:keep]) if path.exists() else x[:0]
            self._pictured[: len(before)] = before
        for place, n in new.items():
            self._pictured[place] = z[n].to(self._pictured)
        where = place_of(self._setting.subject.model)
        with evaluating(self._setting.subject.model):
            self._named.keep_images(self._setting, x.to(where), self._pictured.to(where), self.rows[:keep])
