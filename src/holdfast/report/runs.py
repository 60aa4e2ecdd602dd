"""Read run directories: facts, ledger, training record and gallery of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from holdfast import files
from holdfast.errors import LedgerError
from holdfast.facts import checked_epoch, checked_facts
from holdfast.hierarchy import Hierarchy, hierarchy_of_facts
from holdfast.json_text import parse_json_object
from holdfast.questions.answers import Answer, Answers, Store
from holdfast.report.gallery import Gallery, read_galleries
from holdfast.results.labels import epoch_of
from holdfast.results.ledger import SCHEMA, Ledger, is_graded
from holdfast.results.recorded_checks import Check, checks_of
from holdfast.results.worst_case import attempts
from holdfast.show.names import labels as short_labels
from holdfast.trust.store import Stored, read_verdicts

OPTIONAL = ("not_run",)
"""Facts that a report does without where they are not what they should be."""
UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, pl.exceptions.PolarsError)
"""What comes of numbers, names or columns that are others than a presentation was written for."""
PREFERRED = ("best", "given", "last")


@dataclass(frozen=True)
class RunData:
    """Everything a report says about one run comes from here.

    Args:
        label: name on the page, unique in the report; also the value of the column `run` of `rows`.
        facts: `run.json`.
        rows: the ledger, but for corruptions by kind and severity.
        recipe: text of `recipe.yaml`, or None.
        epochs: lines of `metrics.jsonl`, empty when there is none.
        galleries: images before and after, empty when there are none.
        verdicts: on whether the numbers can be trusted, as stored; empty when nobody asked.
        graded: rows of corruptions by kind and severity.
        graded_galleries: their images.
        epoch_rows: rows of weights kept during training.
        answered: answers to questions, as stored.
        outdated: names of questions whose answers an earlier version stored in another form.
    """

    label: str
    facts: Mapping[str, Any]
    rows: pl.DataFrame
    recipe: str | None
    epochs: tuple[Mapping[str, Any], ...]
    galleries: tuple[Gallery, ...]
    verdicts: tuple[Stored, ...] = ()
    graded: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SCHEMA))
    graded_galleries: tuple[Gallery, ...] = ()
    epoch_rows: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SCHEMA))
    answered: tuple[Answer, ...] = ()
    outdated: tuple[str, ...] = ()

    @cached_property
    def weights(self) -> tuple[str, ...]:
        """Weights with results, the ones that figures show first."""
        return tuple(sorted(self.rows["weights"].unique(), key=_preference))

    @cached_property
    def main_rows(self) -> pl.DataFrame:
        """Rows of the weights that figures, classes and comparisons are about."""
        return self.rows.filter(pl.col("weights") == self.weights[0])

    @cached_property
    def measured_rows(self) -> pl.DataFrame:
        """`main_rows` and those of corruptions."""
        return pl.concat([self.main_rows, self.graded.filter(pl.col("weights") == self.weights[0])])

    @cached_property
    def main_checks(self) -> tuple[Check, ...]:
        """The checks of `main_rows`, in order."""
        return checks_of(self.main_rows)

    @cached_property
    def attempts(self) -> pl.DataFrame:
        """Rows of clean images and attacks, with the threat of each."""
        return attempts(self.rows)

    @property
    def variant(self) -> str:
        """The name of the run without that of its seed."""
        return str(self.facts["name"]).rsplit("/seed-", 1)[0]

    def heading(self, weights: str, check: str) -> str:
        """The name of a row about a check of some weights, which only a run with several names."""
        return f"{self.label}{f', {weights} weights' if len(self.weights) > 1 else ''}: {check}"

    def only(self, weights: str, checks: Collection[str]) -> RunData:
        """The same run as if it had no other weights and checks, and no corruptions by kind and severity."""
        left = self.section("not_run").get(weights)
        left = {what: n for what, n in left.items() if what.split(": ")[0] in checks} if isinstance(left, dict) else {}
        mine = (pl.col("weights") == weights) & pl.col("check").is_in(list(checks))
        facts = {**self.facts, "not_run": {weights: left}}
        return replace(self, rows=self.rows.filter(mine), facts=facts, graded=self.graded.clear())

    def section(self, key: str) -> Mapping[str, Any]:
        """One part of the facts, empty when it is missing."""
        value = self.facts.get(key)
        return value if isinstance(value, dict) else {}

    def class_name(self, index: int) -> str:
        """Name of a class, its number when the run has no names."""
        names = self.section("data").get("classes")
        return str(names[index]) if isinstance(names, list) and 0 <= index < len(names) else str(index)

    @cached_property
    def hierarchy(self) -> Hierarchy | None:
        """The hierarchy of the classes; None for none.

        Raises:
            LedgerError: if the facts state something else.
        """
        data = self.section("data")
        stated, names = data.get("hierarchy"), data.get("classes")
        if stated is None or not isinstance(names, list):
            return None
        try:
            return hierarchy_of_facts(stated, [*map(str, names)])
        except ValueError as error:
            raise LedgerError(f"{self.label}: data in run.json: {error}") from None

    @cached_property
    def classes(self) -> int:
        """Number of classes: those named, or more when the ledger has more."""
        names = self.section("data").get("classes")
        seen = max(self.rows.select(pl.max_horizontal(pl.col("label").max(), pl.col("prediction").max())).item(), 0)
        return max(len(names) if isinstance(names, list) else 0, int(seen) + 1)


def read_run(path: Path) -> RunData:
    """Read one run directory; its label is its name."""
    if not path.is_dir():
        raise LedgerError(f"{path}: expected a run directory, got none")
    files.refuse_links(path)
    _refuse_missing(path)
    facts = _facts(path / "run.json")
    rows = Ledger(path / "ledger").read()
    if rows.is_empty():
        raise LedgerError(f"{path / 'ledger'}: expected results, got parts without rows; evaluate again")
    recipe = path / "recipe.yaml"
    on_the_way = [label for label in rows["weights"].unique() if epoch_of(label) is not None]
    epoch_rows, rows = (rows.filter(pl.col("weights").is_in(on_the_way) == among) for among in (True, False))
    if rows.is_empty():
        raise LedgerError(f"{path / 'ledger'}: expected results of the last weights; evaluate again")
    graded = rows.filter(is_graded())
    others = rows.filter(~is_graded())
    if others.is_empty():
        others = rows  # nothing else to show
    galleries, names = read_galleries(path / "gallery"), set(graded["check"])
    name = facts["name"]
    return _labelled(
        RunData(
            label=name,
            facts=facts,
            rows=others,
            recipe=_text(recipe) if recipe.exists() else None,
            epochs=_epochs(path / "metrics.jsonl"),
            galleries=tuple(shown for shown in galleries if shown.check not in names),
            verdicts=tuple(read_verdicts(path)),
            graded=graded,
            epoch_rows=epoch_rows,
            graded_galleries=tuple(shown for shown in galleries if shown.check in names),
            answered=tuple(Store(path).read_all()),
            outdated=tuple(Store(path).earlier()),
        ),
        name,
    )


def read_answers(path: Path) -> RunData:
    """Read the answers in a directory that may hold no results of checks; its label is its name."""
    files.refuse_links(path)
    _refuse_missing(path)
    facts = _facts(path / "run.json")
    return RunData(
        label=facts["name"], facts=facts, rows=pl.DataFrame(schema=SCHEMA), recipe=None, epochs=(), galleries=(),
        answered=tuple(Store(path).read_all()), outdated=tuple(Store(path).earlier()),
    )  # fmt: skip


def _refuse_missing(path: Path) -> None:
    """Refuse a run of which something is gone that the page shows: everything but weights and training state."""
    gone = [file for file in files.missing_files(path) if file.suffix in (".json", ".jsonl", ".yaml")]
    for below in sorted(entry for entry in path.iterdir() if entry.is_dir()):
        gone += files.missing_files(below)
    if gone:
        raise LedgerError(
            f"{gone[0]}: was written and is missing; restore it, repeat the command that wrote it, or delete its lines "
            f"in {gone[0].parent / files.CHECKSUMS} to continue without it"
        )


def read_runs(paths: Sequence[Path]) -> tuple[RunData, ...]:
    """Read several run directories; labels drop what all names share and are made unique."""
    if not paths:
        raise LedgerError("expected one or more run directories, got none")
    runs = [read_run(path) for path in paths]
    labels = short_labels([run.label for run in runs])
    return tuple(_labelled(run, label) for run, label in zip(runs, labels, strict=True))


def answers_of(runs: Sequence[RunData], question: str) -> Answers:
    """The answers to a question of all runs, with their labels."""
    return Answers(
        tuple(
            replace(answer, run=run.label, place=place, classes=_class_names(run))
            for place, run in enumerate(runs)
            for answer in run.answered
            if answer.key.question == question
        ),
        tuple(run.label for run in runs),
        {
            str(facts.get("sha256"))[:12]: f"{run.label} ({weights})"
            for run in reversed(runs)
            for weights, facts in reversed([*run.section("weights").items()])
            if isinstance(facts, dict)
        },  # of networks that are shown twice, the first name stays
    )


@contextmanager
def of_stored_answers(title: str) -> Iterator[None]:
    """What cannot be presented is the fault of its files: they hold whatever somebody wrote there.

    Raises:
        LedgerError: naming the section, what went wrong, and the remedy.
    """
    try:
        yield
    except UNREADABLE as error:
        line = str(error).strip().partition("\n")[0]
        raise LedgerError(
            f"section '{title}': expected answers as holdfast stores them, got others "
            f"({type(error).__name__}: {line}); delete them and ask again"
        ) from error


def _class_names(run: RunData) -> tuple[str, ...]:
    names = run.section("data").get("classes")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _labelled(run: RunData, label: str) -> RunData:
    rows, graded, on_the_way = (
        frame.with_columns(run=pl.lit(label)) for frame in (run.rows, run.graded, run.epoch_rows)
    )
    return replace(run, label=label, rows=rows, graded=graded, epoch_rows=on_the_way)


def _preference(weights: str) -> tuple[int, str]:
    return PREFERRED.index(weights) if weights in PREFERRED else len(PREFERRED), weights


def _facts(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise LedgerError(f"{path}: expected the facts of a run, got no such file")
    facts = _json(_text(path), str(path))
    try:
        checked_facts({name: value for name, value in facts.items() if value is not None and name not in OPTIONAL})
    except ValueError as error:
        raise LedgerError(f"{path}: {error}") from None
    if not isinstance(facts.get("name"), str) or not facts["name"]:
        raise LedgerError(f"{path}: expected a name of the run under 'name', got {facts.get('name')!r}")
    return facts


def _epochs(path: Path) -> tuple[Mapping[str, Any], ...]:
    if not path.exists():
        return ()
    lines = enumerate(_text(path).splitlines(), 1)
    return tuple(_epoch(line, f"{path}, line {number}") for number, line in lines if line.strip())


def _epoch(line: str, where: str) -> dict[str, Any]:
    try:
        return checked_epoch(_json(line, where))
    except ValueError as error:
        raise LedgerError(f"{where}: {error}") from None


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        return parse_json_object(text)
    except ValueError as error:
        raise LedgerError(f"{where}: expected JSON, got something damaged ({error})") from error


def _text(path: Path) -> str:
    try:
        return files.read_checked(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise LedgerError(f"{path}: cannot be read as text ({error})") from error
