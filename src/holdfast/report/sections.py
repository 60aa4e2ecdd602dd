"""Sections that a page has only if somebody asked: each is a class, a template of its name, and a line here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, Self

from holdfast.report.class_geometry import ClassGeometry
from holdfast.report.confidences import ConfidenceTable
from holdfast.report.corruptions import Corruptions
from holdfast.report.curvature import Curvatures
from holdfast.report.features import Features
from holdfast.report.figures import Figure
from holdfast.report.geometry import Geometry
from holdfast.report.maps import Maps
from holdfast.report.mixing import Mixtures
from holdfast.report.neighbours import NeighbourMixtures
from holdfast.report.plane import Plane
from holdfast.report.runs import RunData
from holdfast.report.segment import Segments
from holdfast.report.surface import Surfaces


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
    Plane, Mixtures, NeighbourMixtures, Corruptions, Maps, Geometry, ClassGeometry, Curvatures, Segments,
    ConfidenceTable, Features, Surfaces,
)  # fmt: skip
"""In the order of the page."""


def sections_of(runs: Sequence[RunData], labels: Sequence[str]) -> list[Section]:
    """The sections that have something to show."""
    return [section for section in (kind.of(runs, labels) for kind in SECTIONS) if section.there]
