"""Which frequencies checks changed: spectra of the perturbations in galleries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast.questions.question import Needs
from holdfast.report.examples import main_galleries
from holdfast.report.gallery import Gallery, png
from holdfast.report.runs import RunData
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Choice, Item, Note
from holdfast.show.numbers import count, counts, percent, short
from holdfast.show.pictures import Photo, Photos
from holdfast.show.spectra import DARKEST, along_diagonal
from holdfast.show.table import Cell, Table

CURVES = 6
"""Checks of one run in a chart: as many as there are colours."""
ROWS = 15
"""Of the table; of more, readers scroll."""
FEW = 4
"""Charts of several runs that stand side by side; of more, readers choose one."""
POSITIONS = 256
"""Along a diagonal at most; longer ones, as of sound, are averaged over neighbours."""
DECADES = 2
"""Of the magnitudes in a picture, from white for the largest down to black; perturbations need few."""
THIRDS = ("lowest", "middle", "highest")

GUIDE = Note(
    "The mean magnitude of the cosine transform of what each check changed, the image after it minus that before, over "
    "the images in its gallery that it changed, and their channels. Compare with the spectrum of the images "
    "themselves: what has much energy where images have little uses frequencies that say nothing about the class. "
    "Galleries hold a few images; evaluate: {gallery: 64} in a recipe keeps more."
)

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class PerturbationSpectra:
    """Spectra of the perturbations that galleries hold, for each check."""

    title: ClassVar = "Spectra of perturbations"
    needs: ClassVar = Needs.ROWS

    def present(self, runs: Sequence[RunData]) -> Iterator[Item]:
        """Curves along the diagonal, the shares of low and high frequencies, and maps; nothing without galleries."""
        spectra = [one for place, run in enumerate(runs) for one in spectra_of(place, run)]
        if spectra:
            yield GUIDE
            yield from _several(spectra) if len(runs) > 1 else _of_one_run(spectra)
            yield table_of(spectra)


@dataclass(frozen=True)
class Changed:
    """What a check changed in the images of a gallery.

    Args:
        place: of the run in the report.
        run: its label.
        check: name of the check.
        changes: after minus before, of the images that differ, (n, C, H, W).
        kept: images in the gallery.
    """

    place: int
    run: str
    check: str
    changes: Array
    kept: int

    @cached_property
    def coefficients(self) -> Array:
        """Of the cosine transform, like the changes."""
        from scipy.fft import dctn

        return np.asarray(dctn(self.changes, axes=(-2, -1), norm="ortho"))

    @cached_property
    def magnitude(self) -> Array:
        """Mean over images and channels, (H, W)."""
        return np.asarray(np.abs(self.coefficients).mean(axis=(0, 1)))

    @cached_property
    def energy(self) -> tuple[float, ...]:
        """Shares of the energy in the third of the frequencies with the smallest radius, the next and the last."""
        energy = np.square(self.coefficients).sum(axis=(0, 1))
        rank = radial_rank(*energy.shape)
        return tuple(float(energy[rank * 3 // rank.size == third].sum() / energy.sum()) for third in range(3))


def spectra_of(place: int, run: RunData) -> Iterator[Changed]:
    """Of the checks of the weights that matter, in the order of the tables, those that changed an image."""
    for gallery in main_galleries(run):
        changes = _changes(gallery)
        if len(changes):
            yield Changed(place, run.label, gallery.check, changes, len(gallery.x))


def _changes(gallery: Gallery) -> Array:
    difference = gallery.z.astype(np.float64) - gallery.x
    return np.asarray(difference[np.any(difference != 0, axis=(1, 2, 3))])


def radial_rank(height: int, width: int) -> NDArray[np.int64]:
    """Place of each coefficient in the radial order of `holdfast.frequency.radial_rank`, without torch."""
    radius = (np.arange(height)[:, None] * width) ** 2 + (np.arange(width) * height) ** 2
    rank = np.empty(radius.size, dtype=np.int64)
    rank[radius.ravel().argsort(kind="stable")] = np.arange(radius.size)
    return rank.reshape(height, width)


def _of_one_run(spectra: Sequence[Changed]) -> Iterator[Item]:
    """Charts of a few checks each, then all maps."""
    for first in range(0, len(spectra), CURVES):
        some = spectra[first : first + CURVES]
        yield _chart("Perturbations along the diagonal", [(one, one.check) for one in some], alone=True)
    yield from _maps([(one, one.check) for one in spectra])


def _several(spectra: Sequence[Changed]) -> Iterator[Item]:
    """A chart for each check with all runs, and its maps."""
    checks: dict[str, list[tuple[Changed, str]]] = {}
    for one in spectra:
        checks.setdefault(one.check, []).append((one, one.run))
    items: list[tuple[str, list[Item]]] = [(name, [_chart(name, some), *_maps(some)]) for name, some in checks.items()]
    if len(items) <= FEW:
        yield from itertools.chain.from_iterable(each for _, each in items)
    else:
        yield Choice(items)


def _chart(title: str, some: Sequence[tuple[Changed, str]], *, alone: bool = False) -> Chart:
    """Magnitudes along the diagonal, on a logarithmic scale."""
    curves = [
        Curve(one.place, name if alone else "magnitude", *_pooled(*along_diagonal(_floored(one.magnitude).tolist())))
        for one, name in some
    ]
    images = counts([len(one.changes) for one, _ in some])
    caption = f"{title}, mean over {images} images"
    return Chart(caption, "frequency in both directions", tuple(curves), False, log_y=True, alone=alone)


def _floored(magnitude: Array) -> Array:
    """Magnitudes, of which the smallest, as of rounding, are a millionth of the largest."""
    return np.asarray(np.maximum(magnitude, DARKEST * magnitude.max()))


def _pooled(x: Sequence[float], y: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Means over neighbours, so that a page does not hold every sample of a sound."""
    parts = np.array_split(np.arange(len(x)), min(len(x), POSITIONS))
    means = [tuple(float(np.asarray(values)[part].mean()) for part in parts) for values in (x, y)]
    return means[0], means[1]


def _maps(some: Sequence[tuple[Changed, str]]) -> Iterator[Photos]:
    """All magnitudes as small pictures; sound has no plane of frequencies."""
    flat = [(one, name) for one, name in some if one.magnitude.shape[0] > 1]
    if flat:
        yield Photos([Photo([(picture(one.magnitude), name)], name) for one, name in flat], "strip")


def picture(magnitude: Array, decades: int = DECADES) -> str:
    """Magnitudes on a logarithmic scale as an image, the lowest frequencies in the upper left corner."""
    relative = np.maximum(magnitude / (magnitude.max() or 1.0), 10.0**-decades)
    return png((1 + np.log10(relative) / decades)[None])


def table_of(spectra: Sequence[Changed]) -> Table:
    """Where the energy of the perturbations lies."""
    rows: list[tuple[str, list[Cell]]] = []
    several = len({one.place for one in spectra}) > 1
    for one in spectra:
        size = len(one.changes)
        part = "" if size == one.kept else f"of {count(one.kept)}, others unchanged"
        length = float(np.sqrt(np.square(one.changes).sum(axis=(1, 2, 3))).mean())
        shares = [Cell(percent(value), value=value) for value in one.energy]
        name = f"{one.run}: {one.check}" if several else one.check
        rows.append((name, [Cell(count(size), part, value=size), Cell(short(length), value=length), *shares]))
    columns = ("Images", "Mean length (ℓ2)", *(f"In the {third} third" for third in THIRDS))
    caption = "Energy of the perturbations by thirds of the frequencies"
    return Table(caption, "Check", columns, rows, style="tall" if len(rows) > ROWS else "")
