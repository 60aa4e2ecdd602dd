"""Matrices of transfer: points are made once for each source and attack, and tried on every target."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor

from holdfast import files
from holdfast.attacks.persistence import make_persistent
from holdfast.attacks.transfer import Transfer
from holdfast.conduct.matrix_networks import Entry, entries_of, facts_of, require_same_images
from holdfast.conduct.ready import default_device
from holdfast.corruptions.noise import Clean
from holdfast.data.dataset import Split
from holdfast.errors import CheckpointError, RecipeError
from holdfast.evaluation.batch import run_batch
from holdfast.evaluation.points import read_points, write_points
from holdfast.evaluation.setting import Setting
from holdfast.evaluation.subject import Subject
from holdfast.halving import BatchSize
from holdfast.modes import evaluating
from holdfast.recipe.matrix import Matrix
from holdfast.recipe.plain import describe
from holdfast.report.transfers import write_matrix_report
from holdfast.results.ledger import SCHEMA, Ledger
from holdfast.results.transfers import CLEAN, check_name
from holdfast.runs.code import TrustedCode
from holdfast.runs.directory import Run, version
from holdfast.runs.splits import prepare
from holdfast.runs.weights import load_model
from holdfast.traits import traits_of
from holdfast.types import Attack


@dataclass(frozen=True)
class Crossed:
    """A piece of a matrix is done, now or earlier.

    Args:
        doing: the source with its attack, or the network on clean images.
        done: rows settled so far.
        total: what `done` will be.
    """

    doing: str
    done: int
    total: int


@dataclass(frozen=True)
class StoredPoints:
    """Points of a batch, in place of its images."""

    points: Tensor

    def check(self) -> None:
        """Nothing can be wrong with them."""

    def take(self, index: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The points as `x` in dtype and device."""
        return self.points.to(x)


def run_matrix(
    matrix: Matrix,
    out: Path,
    hold: Callable[[Run], None],
    *,
    data_root: Path | None = None,
    device: torch.device | None = None,
    trust: TrustedCode = False,
    fresh: bool = False,
) -> Iterator[Crossed]:
    """Fill a matrix, and write its report; what is stored is not done again.

    Args:
        matrix: which.
        out: directory of all runs.
        hold: locks its directory until the work ends.
        data_root: directory with data sets.
        device: where; None for the first GPU, else the CPU.
        trust: which factories that files of networks name may be called.
        fresh: whether to delete what is there.

    Raises:
        RecipeError: if a network is not there, or of other images than the first source.
    """
    run = Run(out / matrix.name)
    hold(run)
    if fresh:
        run.clear()
    work = _Work(matrix, run, data_root, device or default_device(), trust)
    work.forget_others()
    yield from work.fill()
    write_matrix_report(run.path, work.facts())


class _Work:
    """A matrix under way."""

    def __init__(
        self, matrix: Matrix, run: Run, data_root: Path | None, device: torch.device, trust: TrustedCode
    ) -> None:
        self.matrix, self.run, self.device, self.trust = matrix, run, device, trust
        self.entries = entries_of(matrix)
        self.splits = prepare(matrix.images(self.entries[0].card.recipe.data), matrix.seed, data_root)
        for entry in self.entries:
            require_same_images(entry, self.splits)
        self.ledger, self.points = Ledger(run.path / "rows"), run.path / "points"
        self.attacks = {describe(attack, Attack)[1]: attack for attack in matrix.attacks}
        if len(self.attacks) < len(matrix.attacks):
            raise RecipeError("attacks: expected each attack once")
        self.batch_size = BatchSize(matrix.evaluate.batch_size)
        self._networks: dict[str, Any] = {}

    @cached_property
    def setting(self) -> Setting:
        """The images in their blocks."""
        nobody = Subject(lambda x: x)
        return Setting(nobody, self.splits.test, self.matrix.evaluate, self.batch_size, self.matrix.seed)

    @cached_property
    def combinations(self) -> list[tuple[Entry, str, str]]:
        """Every source with every attack, and the key of its points: another source or attack has another key."""
        sources = [entry for entry in self.entries if entry.is_source]
        return [(source, attack, self._key(source, attack)) for source in sources for attack in self.attacks]

    def _key(self, source: Entry, attack: str) -> str:
        params = describe(self.attacks[attack], Attack)[2]
        how = (str(self.matrix.seed), str(self.matrix.evaluate.block), self.setting.examples)
        return _digest(source.card.hash, attack, params, *how)

    def _part(self, key: str, asked: Entry, number: int) -> str:
        """The name of the rows of a block: names of networks count, since rows have them."""
        return f"{key}-{_digest(key, asked.card.hash, asked.name)}-{number:06d}"

    def _points_file(self, key: str, number: int) -> Path:
        return self.points / f"{key}-{number:06d}.npy"

    def asked(self, source: Entry) -> list[Entry]:
        """The networks that points of a source are tried on: the targets, and the source itself."""
        return [entry for entry in self.entries if entry.is_target or entry is source]

    def forget_others(self) -> None:
        """Delete points and rows of networks that have been trained anew, and of what the matrix no longer names."""
        numbers = range(len(self.setting.blocks()))
        wanted = {self._part(self._clean_key, entry, number) for entry in self.entries for number in numbers}
        keys = [(key, source) for source, _, key in self.combinations]
        wanted |= {self._part(key, one, n) for key, source in keys for one in self.asked(source) for n in numbers}
        for part in self.ledger.parts():
            if part.stem not in wanted:
                files.remove(part)
        kept = {self._points_file(key, number) for key, _ in keys for number in numbers}
        for file in sorted(self.points.glob("*.npy")):
            if file not in kept:
                files.remove(file)

    @property
    def _clean_key(self) -> str:
        return _digest(CLEAN, self.setting.examples, str(self.matrix.evaluate.block))

    def fill(self) -> Iterator[Crossed]:
        """Everything that is not stored."""
        total = len(self.splits.test) * (
            len(self.entries) + sum(len(self.asked(one)) for one, _, _ in self.combinations)
        )
        done = 0
        for entry in self.entries:
            for number, places in enumerate(self.setting.blocks()):
                part = self._part(self._clean_key, entry, number)
                if not self.ledger.has(part):
                    self.ledger.append(part, self._rows(entry, places, CLEAN, Clean(), None))
                done += len(places)
                yield Crossed(f"{entry.name}: clean images", done, total)
        for source, attack, key in self.combinations:
            for number, places in enumerate(self.setting.blocks()):
                self._cross(source, attack, key, number, places)
                done += len(places) * len(self.asked(source))
                yield Crossed(check_name(attack, source.name), done, total)

    def _cross(self, source: Entry, attack: str, key: str, number: int, places: range) -> None:
        """Points of one block, and what every network says of them."""
        missing = [one for one in self.asked(source) if not self.ledger.has(self._part(key, one, number))]
        if not missing:
            return
        file = self._points_file(key, number)
        if not file.exists():
            write_points(file, self._made(source, self.attacks[attack], places))
        points = torch.from_numpy(read_points(file, self.splits.shape))
        name, check = check_name(attack, source.name), self._transfer(source, attack)
        rows = {self._part(key, one, number): self._rows(one, places, name, check, points) for one in missing}
        self.ledger.append_together(rows)

    def _transfer(self, source: Entry, attack: str) -> Transfer:
        return Transfer(attack=self.attacks[attack], source=str(source.path))

    def _made(self, source: Entry, attack: Attack, places: range) -> Tensor:
        """The points of an attack that goes to the end, in the order of the places."""
        network = self._network(source)

        def work(part: Split) -> Tensor:
            streams = self.setting.streams(part)
            return run_batch(network, part, make_persistent(attack), streams, batch_size=self.batch_size)[2].cpu()

        with evaluating(network):
            return torch.cat([points for _, points in self.setting.batches(places, work)])

    def _rows(
        self, entry: Entry, places: range, name: str, check: Clean | Transfer, points: Tensor | None
    ) -> pl.DataFrame:
        """Rows of one network on one block of images or points."""
        network, rows = self._network(entry), []

        def work(chosen: Sequence[int]) -> list[dict[str, Any]]:
            split = self.splits.test.select(self.setting.order[list(chosen)])
            at = None if points is None else points[[place - places.start for place in chosen]]
            stand_in: Any = check if at is None else StoredPoints(at)
            threat = check.threat if isinstance(check, Transfer) else None
            return run_batch(network, split, stand_in, self.setting.streams(split), threat=threat)[0]

        with evaluating(network):
            for _, made in self.batch_size.over(places, work):
                rows += made
        params = {} if points is None else {"source": name.rpartition(" from ")[2], **self._stated(check)}
        whole: dict[str, Any] = {
            "run": entry.name, "weights": entry.card.file.stem, "weights_hash": entry.card.hash[:12], "check": name,
            "method": CLEAN if points is None else "transfer", "params": json.dumps(params, sort_keys=True),
            "seed": self.matrix.seed, "seconds": None, **traits_of(check).columns(),
        }  # fmt: skip
        return pl.DataFrame([{**row, **whole} for row in rows], schema=SCHEMA)

    def _stated(self, check: Any) -> dict[str, Any]:
        method, _, params = describe(check.attack, Attack)
        return {"attack": {method: json.loads(params)}}

    def _network(self, entry: Entry) -> Any:
        if entry.name not in self._networks:
            try:
                model = load_model(entry.path, trust=self.trust).model
            except CheckpointError as error:
                raise RecipeError(f"{self.matrix.name}: {error}") from error
            self._networks[entry.name] = model.eval().requires_grad_(False).to(self.device)
        return self._networks[entry.name]

    def facts(self) -> dict[str, Any]:
        """What the report needs beside the rows."""
        return {
            "name": self.matrix.name,
            "holdfast": version(),
            "seed": self.matrix.seed,
            "data": self.splits.facts(),
            "attacks": list(self.attacks),
            "networks": [facts_of(entry, self.entries) for entry in self.entries],
        }


def _digest(*words: str) -> str:
    return hashlib.blake2b("\0".join(words).encode(), digest_size=8).hexdigest()
