"""Sections that a page has only if somebody asked: each is a class, a template of its name, and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

from holdfast.questions import QUESTIONS
from holdfast.report.corruptions import Corruptions
from holdfast.report.curvature import Curvatures
from holdfast.report.features import Features
from holdfast.report.maps import Maps
from holdfast.report.mixing import Mixtures
from holdfast.report.neighbours import NeighbourMixtures
from holdfast.report.plane import Plane
from holdfast.report.runs import RunData, answers_of
from holdfast.report.segment import Segments
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
    def there(self) -> bool:
        """Whether there is anything."""
        ...

    @property
    def figures(self) -> Sequence[Figure]:
        """What the page has to draw."""
        ...


SECTIONS: tuple[type[Section], ...] = (
    Plane, Mixtures, NeighbourMixtures, Corruptions, Maps, Curvatures, Segments, Features,
)  # fmt: skip
"""In the order of the page."""


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
    sections = [kind.of(runs, labels) for kind in SECTIONS]
    return [*(section for section in sections if section.there), *_presented(runs, labels)]


def _presented(runs: Sequence[RunData], labels: Sequence[str]) -> Iterator[Presented]:
    for name, home in QUESTIONS.items():
        answers = answers_of(runs, name)
        if len(answers) and (parts := parts_of(home.present(answers), labels, identifier := name.replace("_", "-"))):
            yield Presented(identifier, home.title, parts)
