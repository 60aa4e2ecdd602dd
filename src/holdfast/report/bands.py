"""The accuracy that noise in each band of frequencies takes, from checks `band_noise`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from holdfast.questions.bands import EXPLANATION, NOISE, Taken, presentation
from holdfast.questions.question import Needs
from holdfast.report.runs import RunData
from holdfast.results.band_drops import band_drops
from holdfast.show.items import Item, Note


@dataclass(frozen=True, kw_only=True)
class NoiseInBands:
    """Accuracy that noise in each band of frequencies takes, from the checks of runs."""

    title: ClassVar = "Noise in bands of frequencies"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """A chart and tables for each noise; nothing for runs without checks `band_noise`."""
        if shown := [taken for place, run in enumerate(runs) for taken in _taken(place, run)]:
            yield Note(EXPLANATION)
            yield from presentation(shown)


def _taken(place: int, run: RunData) -> Iterator[Taken]:
    """What each kind of noise takes from the weights that matter."""
    for _, rows in band_drops(run.main_rows).group_by(NOISE, maintain_order=True):
        yield Taken(run.label, "drop", place, rows.rows(named=True))
