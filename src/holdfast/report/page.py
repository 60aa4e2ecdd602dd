"""Put the page together: every section is a unit over stored rows, or a question with stored answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, Protocol

from holdfast.questions.question import Needs
from holdfast.report.accuracy import Accuracy
from holdfast.report.answers import answer_sections
from holdfast.report.bands import NoiseInBands
from holdfast.report.certificates import Certificates, Refuted
from holdfast.report.classes import ClassAccuracies, Confusion
from holdfast.report.compare import Comparisons
from holdfast.report.composed import Components
from holdfast.report.corruptions import Corruptions
from holdfast.report.curves import Budgets
from holdfast.report.distances import SmallestDistances
from holdfast.report.epochs import Epochs
from holdfast.report.examples import Galleries
from holdfast.report.first_answers import FirstAnswers
from holdfast.report.groups import Groups
from holdfast.report.maps import Maps
from holdfast.report.optimisers import Optimisers
from holdfast.report.plane import Plane
from holdfast.report.provenance import Provenance
from holdfast.report.runs import RunData, of_stored_answers
from holdfast.report.spectra import PerturbationSpectra
from holdfast.report.summary import Summary
from holdfast.report.training import Training
from holdfast.report.trust import Trust
from holdfast.report.unfinished import Unfinished
from holdfast.show.items import Item, Note
from holdfast.show.page import Section, render_page

NAMED = 4
"""Runs whose names make a title; more are counted."""


class Unit(Protocol):
    """A frozen dataclass that presents stored rows, as a question presents its answers.

    Its docstring is the help of `holdfast analyse`, its fields are options.
    """

    needs: ClassVar[Needs]
    """What it is asked about: stored rows alone."""

    @property
    def title(self) -> str:
        """Heading."""
        ...

    def present(self, runs: Sequence[RunData]) -> Iterable[Item]:
        """Tables, charts and sentences about one or several runs, for every medium; nothing where it does not apply."""
        ...


UNITS: Mapping[str, Any] = {
    "refuted": Refuted,
    "summary": Summary,
    "unfinished": Unfinished,
    "trust": Trust,
    "accuracy": Accuracy,
    "top": FirstAnswers,
    "groups": Groups,
    "yields": Components,
    "robustness": Budgets,
    "distances": SmallestDistances,
    "certificates": Certificates,
    "plane": Plane,
    "corruptions": Corruptions,
    "band-noise": NoiseInBands,
    "maps": Maps,
    "optimisers": Optimisers,
    "comparison": Comparisons,
    "class-accuracy": ClassAccuracies,
    "confusion": Confusion,
    "gallery": Galleries,
    "spectra": PerturbationSpectra,
    "epochs": Epochs,
    "training": Training,
    "provenance": Provenance,
}
"""The sections of a page in their order; those on questions follow the maps."""

LINKS = {"trust": "Trust"}
NUMBERS = {"robustness": "accuracy"}


def render(runs: Sequence[RunData], *, title: str | None = None, failed: Mapping[str, str] | None = None) -> str:
    """The whole page as text."""
    notes = [Note(f"{name}: {reason}", "error", "Not finished.") for name, reason in (failed or {}).items()]
    sections = [Section.of("failed", "", notes), *sections_of(runs)]
    return render_page(title or f"Report on {_subject(runs)}", sections, kicker="Robustness report")


def render_answers(run: RunData) -> str:
    """A page on answers to questions alone."""
    sections = [
        Section.of(name, unit.title, unit.present([run]), [run.label]) for name, unit in answer_sections([run]).items()
    ]
    return render_page(f"Answers on {run.label}", sections, kicker="Answers to questions")


def units_of(runs: Sequence[RunData]) -> dict[str, Unit]:
    """All sections by name, in the order of the page."""
    names = list(UNITS)
    place = names.index("maps") + 1
    before, after = ({name: UNITS[name]() for name in part} for part in (names[:place], names[place:]))
    return {**before, **answer_sections(runs), **after}


def sections_of(runs: Sequence[RunData]) -> Iterator[Section]:
    """All sections; those without parts have nothing to show."""
    labels = [run.label for run in runs]
    for name, unit in units_of(runs).items():
        with nullcontext() if name in UNITS else of_stored_answers(unit.title):
            more = {"link": LINKS.get(name, ""), "numbers": NUMBERS.get(name, "")}
            section = Section.of(name, unit.title, unit.present(runs), labels, **more)
        yield section


def _subject(runs: Sequence[RunData]) -> str:
    if len(runs) <= NAMED:
        return ", ".join(run.label for run in runs)
    recipes = dict.fromkeys(
        str(run.facts.get("recipe") or run.facts["name"]).encode("utf-8", "replace").decode() for run in runs
    )
    return f"{len(runs)} runs" + (f" of {', '.join(recipes)}" if len(recipes) <= NAMED else "")
