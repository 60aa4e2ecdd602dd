"""Whether several runs were tested on the same images: if not, their numbers do not belong in one row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from holdfast.report.runs import RunData
from holdfast.show.items import Note
from holdfast.show.numbers import listed

REMEDY = "measure them on the same ones, with the same data.test_subset and data.test_seed"


@dataclass(frozen=True)
class Tested:
    """The test images of a run.

    Args:
        run: its name.
        fingerprint: of its data set; None if that is not recorded.
        examples: indices of the images that its checks saw.
    """

    run: str
    fingerprint: str | None
    examples: AbstractSet[int]


def tested(run: RunData) -> Tested:
    """The test images of a run."""
    return Tested(run.label, run.section("data").get("fingerprint"), {*run.rows["example"], *run.graded["example"]})


def different_images(runs: Sequence[Tested]) -> str:
    """Which runs were tested on other images than the first, and how many they share; empty if none was."""
    others = [_shared(run, runs[0]) for run in runs[1:] if not _same(run, runs[0])]
    if not others:
        return ""
    return f"tested on other images than {runs[0].run}: {listed(others)}; {REMEDY}"


def image_doubts(runs: Sequence[RunData]) -> Iterator[Note]:
    """That runs were tested on other images than the first; nothing if none was."""
    if note := different_images([tested(run) for run in runs]):
        yield Note(f"Not all numbers are comparable. Runs {note}.", "doubt", "Check this.")


def _same(one: Tested, other: Tested) -> bool:
    return _same_data(one, other) and one.examples == other.examples


def _same_data(one: Tested, other: Tested) -> bool:
    return None in (one.fingerprint, other.fingerprint) or one.fingerprint == other.fingerprint


def _shared(run: Tested, first: Tested) -> str:
    if not _same_data(run, first):
        return f"{run.run} (other data)"
    return f"{run.run} ({len(run.examples & first.examples)} of {len(run.examples)} in common)"
