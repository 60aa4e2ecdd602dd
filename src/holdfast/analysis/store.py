"""Answers of analyses on disk: `analyses/<kind>-<weights>-<digest>.json` in a run's directory.

One file for one question about one set of weights: asking again with the same settings replaces it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast import files
from holdfast.errors import LedgerError
from holdfast.json_text import parse_json
from holdfast.records import parse_record


@dataclass(frozen=True)
class Answer:
    """What an analysis found.

    Args:
        kind: name of the analysis.
        weights: which weights of the run.
        weights_hash: first digits of their sha256.
        settings: what was asked, plain values.
        result: what was found, plain values.
    """

    kind: str
    weights: str
    weights_hash: str
    settings: Mapping[str, Any]
    result: Mapping[str, Any]

    def file(self, run: Path) -> Path:
        """Where it is kept in a run's directory."""
        words = json.dumps([self.weights_hash, self.settings], sort_keys=True)
        digest = hashlib.blake2b(words.encode(), digest_size=6).hexdigest()
        return run / "analyses" / f"{self.kind}-{self.weights}-{digest}.json"


def write_answer(run: Path, answer: Answer) -> None:
    """Write or replace an answer in a run's directory."""
    text = json.dumps(asdict(answer), indent=1, ensure_ascii=False) + "\n"
    files.write_checked(answer.file(run), text.encode())


def read_answers(run: Path) -> list[Answer]:
    """All answers in a run's directory, in the order of their files' names.

    Raises:
        LedgerError: if a file is not what holdfast wrote.
    """
    return [_read(path) for path in sorted((run / "analyses").glob("*.json"))]


def find_answer(run: Path, asked: Answer) -> Answer | None:
    """The answer to the same question, if there is one."""
    path = asked.file(run)
    return _read(path) if path.exists() else None


def _read(path: Path) -> Answer:
    content = files.read_checked(path, remedy="; delete it and ask again")
    try:
        return parse_record(Answer, parse_json(content))
    except ValueError as error:
        raise LedgerError(
            f"{path}: expected an analysis that holdfast wrote; {error}; delete it and ask again"
        ) from None
