"""What `run.json` says of a run: the facts that commands and reports read, with their types; others may be added."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from holdfast.json_text import encodable
from holdfast.records import check_fields


class _Facts(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())


class _Data(_Facts):
    name: str | None = None
    fingerprint: str | None = None
    examples: str | None = None
    classes: list[str] | None = None
    shape: list[int] | None = None
    train: int | None = None
    validation: int | None = None
    test: int | None = None
    hierarchy: dict[str, Any] | None = None


class _Outputs(_Facts):
    precision: str
    values: list[list[float | None]]


class _Weights(_Facts):
    sha256: str | None = None
    outputs: _Outputs | None = None


class _Origin(_Facts):
    name: str
    sha256: str


class _Model(_Facts):
    name: str | None = None
    parameters: int | None = None


class _Run(_Facts):
    name: str | None = None
    seed: int | None = None
    position: int | None = None
    block: int | None = None
    versions: dict[str, str] | None = None
    data: _Data = _Data()
    model: _Model = _Model()
    weights: dict[str, _Weights] = {}
    seconds: dict[str, float] = {}
    not_run: dict[str, dict[str, int]] = {}
    init_from: dict[str, Any] = {}
    bases: dict[str, dict[str, Any]] = {}
    witnesses: list[_Origin] = []
    fitted: dict[str, Any] | None = None
    network: dict[str, Any] | None = None


class _Epoch(_Facts):
    train: dict[str, Any] | None = None
    validation: dict[str, Any] | None = None
    cost: dict[str, Any] | None = None
    alarm: str | None = None


def checked_epoch(line: dict[str, Any]) -> dict[str, Any]:
    """A line of `metrics.jsonl`, checked as `checked_facts` does it."""
    check_fields(_Epoch, line)
    return line


def checked_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The same facts, once those that holdfast reads are known to have their types.

    Raises:
        ValueError: in one line, naming the first that has not.
    """
    check_fields(_Run, encodable(facts))
    return facts
