"""Answers to questions as sections of a page, beside the units over stored rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from holdfast.errors import RecipeError
from holdfast.families import QUESTIONS
from holdfast.questions.foreign import UNLOADED, question_named, stored_values
from holdfast.questions.presenting import presented
from holdfast.questions.question import Needs
from holdfast.registry import one_line
from holdfast.report.runs import RunData, answers_of, of_stored_answers
from holdfast.show.html import parts_of
from holdfast.show.items import Item

UNPRESENTED = "The question {} of package {} cannot present its answers: {}."


def answer_sections(runs: Sequence[RunData]) -> dict[str, StoredAnswers]:
    """A section for each question of ours, and for each other one that has answers, by its name on the page.

    Questions of packages are imported for nothing else.
    """
    own = [name for name in QUESTIONS if not QUESTIONS.package(name)]
    others = {answer.key.question for run in runs for answer in run.answered}.difference(own)
    anchors = {name: f"question-{hashlib.sha256(name.encode()).hexdigest()[:8]}" for name in sorted(others)}
    return {name.replace("_", "-"): StoredAnswers(name) for name in own} | {
        anchor: StoredAnswers(name) for name, anchor in anchors.items()
    }


@dataclass(frozen=True)
class StoredAnswers:
    """The answers to one question.

    Args:
        question: its name.
    """

    needs: ClassVar = Needs.ROWS

    question: str

    @property
    def title(self) -> str:
        """The heading of the question; its name where no code presents it."""
        try:
            return str(question_named(self.question).title)
        except (KeyError, RecipeError, AttributeError):
            return f"Question {self.question}"

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """What the question makes of the answers, or why nothing can be made of them."""
        yield from self._outdated(runs)
        if not len(answers := answers_of(runs, self.question)):
            return
        try:
            question = question_named(self.question)
        except KeyError:
            yield UNLOADED.format(self.question)
            yield from stored_values(answers)
            return
        except RecipeError as error:
            yield f"These answers cannot be presented: {error}."
            return
        module, third_party, _ = self.question.partition(":")
        if package := module if third_party else QUESTIONS.package(self.question):
            yield from self._of_package(package, lambda: presented(question, answers), [run.label for run in runs])
            return
        with of_stored_answers(self.title):
            items = presented(question, answers)
        yield from items

    def _of_package(self, package: str, present: Callable[[], Iterable[Item]], labels: Sequence[str]) -> Sequence[Item]:
        """What the question of a package makes of the answers; a line where it fails, so that the page is written."""
        try:
            items = list(present())
            parts_of(items, labels, self.question)
        except Exception as error:  # noqa: BLE001  third-party code may raise anything
            return [UNPRESENTED.format(self.question, package, one_line(error))]
        return items

    def _outdated(self, runs: Sequence[RunData]) -> Iterator[str]:
        """Which runs have an answer that only an earlier version reads, and what to do."""
        outdated = [
            run.label
            for run in runs
            if self.question in run.outdated and all(answer.key.question != self.question for answer in run.answered)
        ]
        if outdated:
            command = f"holdfast analyse {self.question.replace('_', '-')}"
            names = ", ".join(outdated)
            yield f"{names}: the answer of an earlier version is no longer read; ask again with {command}."
