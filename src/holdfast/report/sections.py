"""Sections that a page has only if somebody asked: each is a class, a template of its name, and a line here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import polars as pl

from holdfast.errors import LedgerError, RecipeError
from holdfast.questions import QUESTIONS
from holdfast.report.corruptions import Corruptions
from holdfast.report.maps import Maps
from holdfast.report.plane import Plane
from holdfast.report.runs import RunData, answers_of
from holdfast.show.figures import Figure
from holdfast.show.html import Part, figures_of, parts_of


class Section(Protocol):
    """Tables and figures under a heading. `<name>.html.j2` writes it, as `section`."""

    name: ClassVar[str]
    title: ClassVar[str]

    @classmethod
    def of(cls, runs: Sequence[RunData], labels: Sequence[str]) -> Self:
        """What the runs have to show."""
        ...

    @property
    def has_content(self) -> bool:
        """Whether there is anything."""
        ...

    @property
    def figures(self) -> Sequence[Figure]:
        """What the page has to draw."""
        ...


SECTIONS: tuple[type[Section], ...] = (
    Plane, Corruptions, Maps,
)  # fmt: skip
"""In the order of the page."""


UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, pl.exceptions.PolarsError)
"""What comes of numbers, names or columns that are others than a presentation was written for."""


@dataclass(frozen=True)
class Presented:
    """What a question presents, drawn by the template of all questions.

    Args:
        name: identifier of the section.
        title: its heading.
        parts: sentences, tables and charts, in order.
    """

    name: str
    title: str
    parts: Sequence[Part]

    @property
    def figures(self) -> Sequence[Figure]:
        """What the page has to draw."""
        return figures_of(self.parts)


def sections_of(runs: Sequence[RunData], labels: Sequence[str]) -> list[Section | Presented]:
    """The sections that have something to show."""
    made: list[Section | Presented] = []
    for kind in SECTIONS:
        with _of_stored_answers(kind.title):
            section = kind.of(runs, labels)
            made += [section] if section.has_content and section.figures is not None else []
    return [*made, *_presented(runs, labels)]


@contextmanager
def _of_stored_answers(title: str) -> Iterator[None]:
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


def _presented(runs: Sequence[RunData], labels: Sequence[str]) -> Iterator[Presented]:
    answered = {answer.key.question for run in runs for answer in run.answered}
    for name in QUESTIONS:
        if QUESTIONS.package(name):
            continue  # below, if there is something to present: code of others is imported for nothing else
        yield from _section(runs, labels, name, QUESTIONS[name])
    for name in sorted(answered):
        if name in QUESTIONS and QUESTIONS.package(name):
            try:
                yield from _section(runs, labels, name, QUESTIONS[name])
            except RecipeError as error:
                yield _sentence(labels, name, f"These answers cannot be presented: {error}.")
        elif name not in QUESTIONS:
            remedy = "install the package that declares their question as an entry point of holdfast.questions"
            yield _sentence(
                labels, name, f"There are answers to '{name}', which no installed package presents; {remedy}."
            )


def _section(runs: Sequence[RunData], labels: Sequence[str], name: str, home: Any) -> Iterator[Presented]:
    with _of_stored_answers(home.title):
        answers, identifier = answers_of(runs, name), name.replace("_", "-")
        items = [*_outdated(runs, name), *(home.present(answers) if len(answers) else ())]
        parts = parts_of(items, labels, identifier)
    if parts:
        yield Presented(identifier, home.title, parts)


def _sentence(labels: Sequence[str], name: str, sentence: str) -> Presented:
    """A section that says why there is nothing else in it."""
    identifier = f"question-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return Presented(identifier, f"Question {name}", parts_of([sentence], labels, identifier))


def _outdated(runs: Sequence[RunData], name: str) -> Iterator[str]:
    """Which runs have an answer that only an earlier version reads, and what to do."""
    outdated = [
        run.label
        for run in runs
        if name in run.outdated and not any(answer.key.question == name for answer in run.answered)
    ]
    if outdated:
        command = f"holdfast analyse {name.replace('_', '-')}"
        yield f"{', '.join(outdated)}: the answer of an earlier version is no longer read; ask again with {command}."
