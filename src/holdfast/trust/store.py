"""Verdicts on disk: `verdicts/<weights>-<evidence>.json` in a run's directory, a list of flat records.

Those on groups of classes are in `verdicts/<weights>-<evidence>-<level>.json`, and name the level as their `view`.

A file holds the verdicts of one kind of evidence on one set of weights; writing it again replaces them. As JSON they
can be read without holdfast, and `polars.read_json` makes a table of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast import files
from holdfast.errors import LedgerError
from holdfast.json_text import parse_json
from holdfast.records import parse_record
from holdfast.trust.verdict import Verdict

NAMES = ("run", "weights", "weights_hash", "seed")
"""Which network a record is about, beside the fields of a `Verdict`."""


@dataclass(frozen=True)
class Stored:
    """A verdict with the network it is about.

    Args:
        run: name of the run.
        weights: which of its weights.
        weights_hash: first digits of their sha256.
        seed: of the attacks.
        verdict: on them.
        view: the level whose groups were the classes; empty for the classes themselves.
    """

    run: str
    weights: str
    weights_hash: str
    seed: int
    verdict: Verdict
    view: str = ""


def stored(run: str, weights: str, digest: str, seed: int, verdicts: Iterable[Verdict], view: str = "") -> list[Stored]:
    """Verdicts under the name of their network."""
    return [Stored(run, weights, digest[:12], seed, verdict, view) for verdict in verdicts]


def write_verdicts(path: Path, verdicts: Sequence[Stored]) -> None:
    """Replace the verdicts of the same weights, evidence and view in the directory `path` of a run."""
    kinds: dict[tuple[str, ...], list[Stored]] = {}
    for one in verdicts:
        level = files.safe_names([one.view]) if one.view else []
        kinds.setdefault((one.weights, one.verdict.evidence, *level), []).append(one)
    for names, same in kinds.items():
        text = json.dumps([flat(one) for one in same], indent=1, ensure_ascii=False) + "\n"
        files.write_checked(path / "verdicts" / f"{'-'.join(names)}.json", text.encode())


def read_verdicts(path: Path) -> list[Stored]:
    """All verdicts in a run's directory, in the order of their files' names; empty if nobody judged it.

    Raises:
        LedgerError: if a file is damaged.
    """
    return [one for file in sorted((path / "verdicts").glob("*.json")) for one in _read(file)]


def forget_others(path: Path, kept: set[tuple[str, str]]) -> None:
    """Delete verdicts on weights that are not among these pairs of label and hash."""
    for file in sorted((path / "verdicts").glob("*.json")):
        if any((one.weights, one.weights_hash) not in kept for one in _read(file)):
            files.remove(file)


def flat(one: Stored) -> dict[str, Any]:
    """The record of a verdict: names of the network, then the fields of the verdict."""
    view = {"view": one.view} if one.view else {}
    return {**{name: getattr(one, name) for name in NAMES}, **view, **asdict(one.verdict)}


def _read(file: Path) -> list[Stored]:
    content = files.read_checked(file, remedy="; delete it and audit again")
    try:
        records = parse_json(content)
        if not isinstance(records, list):
            raise ValueError(f"expected a list, got {type(records).__name__}")
        return [_stored(record) for record in records]
    except ValueError as error:
        raise LedgerError(f"{file}: expected verdicts by holdfast ({error}); delete it and audit again") from None


def _stored(record: object) -> Stored:
    if not isinstance(record, dict):
        raise ValueError(f"expected an object, got {type(record).__name__}")
    fields = {name: value for name, value in record.items() if name not in (*NAMES, "view")}
    network = {name: record.get(name) for name in NAMES} | {"view": record.get("view", "")}
    return parse_record(Stored, {**network, "verdict": parse_record(Verdict, fields)})
