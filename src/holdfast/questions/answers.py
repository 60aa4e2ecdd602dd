"""Answers on disk and in memory: `answers/<question>-<weights>-<digest>` in a run's directory.

The `.json` file holds what was asked and the records; columns per example are in Parquet files beside it, one for each
block of examples. Every file appears whole or not at all, has a checksum, and is never written again once it is
complete, so that a repetition goes on where a kill has left it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from holdfast import files
from holdfast.errors import LedgerError
from holdfast.json_text import parse_json_object
from holdfast.parquet import from_parquet, to_parquet
from holdfast.questions.question import Record
from holdfast.records import parse_record
from holdfast.show.numbers import several

DIRECTORY = "answers"
EARLIER = ("analyses", "measures")
"""Directories in which earlier versions kept answers."""

COMMON: dict[str, Any] = {
    "run": pl.String,
    "weights": pl.String,
    "weights_hash": pl.String,
    "seed": pl.Int64,
    "example": pl.Int64,
    "label": pl.Int32,
}
"""Columns that rows of all questions have, named as in the ledger."""

WITHOUT_NETWORK = "data"
"""In the place of weights, for answers that are about no network."""

IMPLIED = {"attack": ("norm", "eps", "params"), "others": ("networks", "gains", "missing_controls")}
"""Settings that need no mention beside another one, which says what they say."""

REMEDY = "; delete it and ask again"


@dataclass(frozen=True, kw_only=True)
class AnswerKey:
    """A question about one set of weights and some images: what distinguishes one answer from another.

    Args:
        question: its name.
        settings: its fields as plain values.
        weights: which weights of the run; `data` where the question needs no network.
        weights_hash: first digits of their SHA-256; empty where the question needs no network.
        seed: seed of everything random.
        examples: number of images.
        images: digest of which images these are.
        block: examples of a block.
    """

    question: str
    settings: Mapping[str, Any]
    weights: str
    weights_hash: str
    seed: int
    examples: int
    images: str
    block: int

    @property
    def stem(self) -> str:
        """Name of its files."""
        content = {name: value for name, value in asdict(self).items() if name != "weights"}
        digest = hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=6).hexdigest()
        return f"{files.safe_names([self.question, self.weights])[0]}-{self.weights}-{digest}"


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    Args:
        key: the question with its settings, weights and images.
        records: of questions that are answered in records, in their order.
        rows: of questions that are answered for each example.
        run: label of the run.
        place: of the run among those that are shown.
        classes: names of the classes.
    """

    key: AnswerKey
    records: tuple[Record, ...] = ()
    rows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COMMON))
    run: str = ""
    place: int = 0
    classes: tuple[str, ...] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        """The fields of the question."""
        return self.key.settings

    @property
    def examples(self) -> int:
        """How many images it rests on so far."""
        return self.key.examples if self.records else len(self.rows)

    @property
    def network(self) -> str:
        """Name of the network: its run and which weights; of the run alone where no network was asked about."""
        return self.run if self.key.weights == WITHOUT_NETWORK else f"{self.run} ({self.key.weights})"

    def class_name(self, index: int) -> str:
        """Name of a class; its number where it has none."""
        return self.classes[index] if 0 <= index < len(self.classes) else str(index)


@dataclass(frozen=True)
class Answers(Sequence[Answer]):
    """The answers to one question, of one run or several.

    Args:
        each: the answers.
        labels: of all runs that are shown, also of those without an answer.
        networks: names of the networks of these runs, by the first 12 digits of the SHA-256 of their weights.
    """

    each: tuple[Answer, ...] = ()
    labels: tuple[str, ...] = ()
    networks: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, place: Any) -> Any:
        return self.each[place]

    def __len__(self) -> int:
        return len(self.each)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.each)

    def __str__(self) -> str:
        from holdfast.questions.foreign import presented_by_name
        from holdfast.show.terminal import to_text

        return to_text(presented_by_name(self)) if self.each else "no answers"

    def _repr_html_(self) -> str:
        """What the question presents, in a notebook."""
        from holdfast.questions.foreign import presented_by_name
        from holdfast.show.page import to_html

        return to_html(presented_by_name(self), self.labels) if self.each else ""

    def names(self) -> list[str]:
        """A name for each answer: run and weights, and what else tells them apart."""
        return [", ".join([one.network, *more]) for one, more in zip(self.each, self._remarks(), strict=True)]

    def kinds(self) -> list[str]:
        """What the curves of each answer are called: its weights, and what else tells the answers apart."""
        own = [one.key.weights for one in self.each]
        weights = [each if each == WITHOUT_NETWORK else f"{each} weights" for each in own]
        return [", ".join([each, *more]) for each, more in zip(weights, self._remarks(), strict=True)]

    def _remarks(self) -> list[list[str]]:
        """Of each answer the settings, and the number of images, in which the answers differ."""
        varying = [
            name
            for name in dict.fromkeys(name for answer in self.each for name in answer.settings)
            if len({json.dumps(answer.settings.get(name)) for answer in self.each}) > 1
        ]
        varying = [name for name in varying if not any(name in IMPLIED.get(other, ()) for other in varying)]
        sizes = {answer.key.examples for answer in self.each}
        return [
            [f"{name}={_plain(answer.settings.get(name))}" for name in varying]
            + [several(answer.key.examples, "image")] * (len(sizes) > 1)
            for answer in self.each
        ]


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Store:
    """The answers in a run's directory.

    Args:
        run: the directory.
    """

    run: Path

    def write(self, key: AnswerKey, records: Sequence[Record] = ()) -> None:
        """Keep what was asked, with the records so far."""
        text = json.dumps({**asdict(key), "records": list(records)}, indent=1, ensure_ascii=False) + "\n"
        files.write_checked(self._file(key), text.encode("utf-8", "surrogatepass"))

    def begin(self, key: AnswerKey) -> None:
        """Keep what is asked, unless it is kept."""
        if not self._file(key).exists():
            self.write(key)

    def append(self, key: AnswerKey, number: int, run: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Keep the rows of a block; `columns` holds `example`, `label` and those of the question."""
        same = {"run": run, "weights": key.weights, "weights_hash": key.weights_hash, "seed": key.seed}
        frame = pl.DataFrame(dict(columns)).with_columns(**{name: pl.lit(value) for name, value in same.items()})
        own = [name for name in frame.columns if name not in COMMON]
        frame = frame.select(*[pl.col(name).cast(kind) for name, kind in COMMON.items()], *own)
        files.write_checked(self._block(key, number), to_parquet(frame))

    def has(self, key: AnswerKey, number: int) -> bool:
        """Whether the rows of a block are kept."""
        return self._block(key, number).exists()

    def records(self, key: AnswerKey) -> tuple[Record, ...]:
        """The records so far."""
        file = self._file(key)
        return _read(file)[1] if file.exists() else ()

    def read(self, key: AnswerKey) -> Answer:
        """What is kept of an answer."""
        return Answer(key, self.records(key), self._rows(key))

    def read_all(self) -> list[Answer]:
        """All answers by question, those about more images later.

        Raises:
            LedgerError: if a file is not what holdfast wrote.
        """
        kept = [_read(file) for file in sorted((self.run / DIRECTORY).glob("*.json"))]
        kept.sort(key=lambda one: (one[0].question, one[0].weights, one[0].examples))
        return [Answer(key, records, self._rows(key)) for key, records in kept]

    def earlier(self) -> list[str]:
        """Names of the questions whose answers an earlier version kept, in a form that is no longer read."""
        places = (self.run / EARLIER[0]).glob("*.json")
        return sorted({file.name.partition("-")[0] for file in places})

    def _rows(self, key: AnswerKey) -> pl.DataFrame:
        paths = sorted((self.run / DIRECTORY).glob(f"{key.stem}-*.parquet"))
        frames = [_rows_of(path) for path in paths]
        for path, frame in zip(paths, frames, strict=True):
            if frame.schema != frames[0].schema:
                raise LedgerError(f"{path}: expected the columns of {paths[0].name}; delete both and ask again")
        return pl.concat(frames) if frames else pl.DataFrame(schema=COMMON)

    def _file(self, key: AnswerKey) -> Path:
        return self.run / DIRECTORY / f"{key.stem}.json"

    def _block(self, key: AnswerKey, number: int) -> Path:
        return self.run / DIRECTORY / f"{key.stem}-{number:06d}.parquet"


def shown(answers: Sequence[Answer], *, run: str, place: int, classes: Sequence[str]) -> list[Answer]:
    """Answers of a run with how it is called where they are shown."""
    return [replace(answer, run=run, place=place, classes=tuple(classes)) for answer in answers]


def _read(path: Path) -> tuple[AnswerKey, tuple[Record, ...]]:
    content = files.read_checked(path, remedy=REMEDY)
    try:
        value = parse_json_object(content)
        records = value.pop("records", None)
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise ValueError("expected a list of objects as records")
        return parse_record(AnswerKey, value), tuple(records)
    except ValueError as error:
        raise LedgerError(f"{path}: expected an answer that holdfast wrote; {error}{REMEDY}") from None


def _rows_of(path: Path) -> pl.DataFrame:
    content = files.read_checked(path, remedy=REMEDY)
    frame = from_parquet(content, f"{path}: expected rows of an answer by holdfast", REMEDY.removeprefix("; "))
    if {name: frame.schema.get(name) for name in COMMON} != COMMON:
        raise LedgerError(f"{path}: expected the columns {', '.join(COMMON)}{REMEDY}")
    return frame
