"""Fields of files have the types that they are declared to have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.facts import checked_epoch, checked_facts
from holdfast.records import parse_record


@dataclass(frozen=True)
class Point:
    name: str
    x: float
    tags: list[str] = field(default_factory=list)
    more: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(f"x: expected no negative number; got {self.x}")


def test_fields_become_an_object():
    assert parse_record(Point, {"name": "a", "x": 1}) == Point("a", 1.0)
    whole = {"name": "a", "x": 0.5, "tags": ["b"], "more": {"c": [1]}, "note": "d"}
    assert parse_record(Point, whole) == Point("a", 0.5, ["b"], {"c": [1]}, "d")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], r"expected an object; got \[\]"),
        ({"name": "a"}, "x: Field required"),
        ({"name": 3, "x": 1.0}, "name: expected a string; got 3"),
        ({"name": "a", "x": "1"}, "x: expected a number; got '1'"),
        ({"name": "a", "x": True}, "x: expected a number; got True"),
        ({"name": "a", "x": 1.0, "tags": ["b", None]}, r"tags\.1: expected a string; got None"),
        ({"name": "a", "x": 1.0, "more": []}, r"more: expected an object; got \[\]"),
        ({"name": "a", "x": 1.0, "other": 1}, "other: Extra inputs are not permitted; got 1"),
        ({"name": "x" * 200, "x": []}, r"x: expected a number; got \[\]"),
        ({"name": "a", "x": -1.0}, r"x: expected no negative number; got -1\.0"),
    ],
)
def test_other_values_are_named_in_one_line(value, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        parse_record(Point, value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"data": 3}, "data: expected an object; got 3"),
        ({"data": {"classes": "ab"}}, r"data\.classes: expected a list; got 'ab'"),
        ({"data": {"shape": [1, "8"]}}, r"data\.shape\.1: expected a whole number; got '8'"),
        ({"weights": {"best": "ab"}}, r"weights\.best: expected an object; got 'ab'"),
        ({"weights": {"best": {"outputs": {"precision": 1, "values": []}}}}, r"outputs\.precision: expected a string"),
        ({"seconds": {"train": "long"}}, r"seconds\.train: expected a number; got 'long'"),
        ({"not_run": {"best": {"pgd": None}}}, r"not_run\.best\.pgd: expected a whole number; got None"),
        ({"bases": {"standard": 1}}, r"bases\.standard: expected an object; got 1"),
        ({"versions": {"torch": 2}}, r"versions\.torch: expected a string; got 2"),
    ],
)
def test_facts_of_a_run_have_their_types(facts, problem):
    with pytest.raises(ValueError, match=problem):
        checked_facts(facts)


def test_other_facts_and_names_that_are_no_text_are_left_alone():
    facts = {"name": "a\ud800", "new": [1], "data": {"other": 2}, "seconds": {"train": 1}}
    assert checked_facts(facts) is facts


def test_lines_of_metrics_have_their_types():
    line = {"epoch": 1, "train": {"total": 0.5}, "validation": None}
    assert checked_epoch(line) is line
    with pytest.raises(ValueError, match="train: expected an object; got 3"):
        checked_epoch({"train": 3})
