"""The question of which frequencies images are made of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.question import Context, Material, Needs, Prepared, Record
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Item
from holdfast.show.numbers import count, percent
from holdfast.show.spectra import along_diagonal, spectrum_map
from holdfast.show.table import Cell, Table

if TYPE_CHECKING:
    from holdfast.data.dataset import Split

SHARES = (0.5, 0.9, 0.99)
"""Of the energy, for the table."""
EXPLANATION = (
    "The mean magnitude of the cosine transform over images and channels, and, along the diagonal, from the mean of an "
    "image (frequency 0) to the finest checkerboard. Frequencies with hardly any energy carry little "
    "of the images: a network's weights there hardly matter for these, and matter for perturbed ones."
)
ROUNDING = 1e-20
"""Energy relative to that of the mean below which there is none but that of rounding."""
NAMED = 3
"""Runs on the same images whose names stand together; more are counted."""


@dataclass(frozen=True, kw_only=True)
class Spectrum:
    r"""Spectrum of a data set: the mean magnitude of each frequency of its images.

    .. math:: S_{ij} = \frac1{NC} \sum_{n, c} \bigl|(C_H\, x_{n,c}\, C_W^T)_{ij}\bigr|, \qquad
              E_{ij} = \frac1{NC} \sum_{n, c} (C_H\, x_{n,c}\, C_W^T)_{ij}^2

    with the orthonormal cosine transforms of height and width.

    Args:
        part: which images: test, or train.

    Reference:
        Ma, Pan, Farahmand, Understanding the robustness difference between stochastic gradient descent and adaptive
        gradient methods, TMLR 2023, arXiv:2308.06703, section 4.1 (figure 4.2 of Ma's thesis).
    """

    title: ClassVar = "Spectrum of the images"
    needs: ClassVar = Needs.DATA

    part: Literal["test", "train"] = "test"

    def prepared(self, context: Context) -> Prepared:
        """The images that are asked about."""
        if self.part == "test":
            return Prepared(InParts(None))
        if context.train is None:
            raise ValueError("part: expected test, for data without training images; got train")
        return Prepared(InParts(context.train))

    @staticmethod
    def rests_on(answer: Answer) -> int:
        """How many images an answer rests on."""
        return int(answer.records[-1]["images"]) if answer.records else 0

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """The spectrum of each data set as a map and along the diagonal, with the concentration of its energy."""
        if some := _distinct(answers):
            yield EXPLANATION
            yield _table(some)
            yield _diagonals(some)
            for name, answer in some:
                yield _map(name, answer.records[-1])


@dataclass(frozen=True)
class InParts:
    """Adds up the magnitudes and the energy of images, batch by batch.

    Args:
        train: training images, where these are asked about.
    """

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "magnitude": ("frequency in height", "frequency in width"),
        "energy": ("frequency in height", "frequency in width"),
    }

    train: Split | None

    def count(self, material: Material) -> int:
        """One record."""
        return 1

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """The means over all images."""
        import torch

        from holdfast.frequency import dct

        total = len(material.x) if self.train is None else len(self.train)
        magnitude, energy = torch.zeros((2, *material.x.shape[-2:]), dtype=torch.float64, device=material.x.device)
        for first in range(0, total, material.batch_size):
            rows = slice(first, first + material.batch_size)
            x = material.x[rows] if self.train is None else self.train.batch(rows)[0].to(material.x)
            coefficients = dct(x.double())
            magnitude += coefficients.abs().mean(1).sum(0) / total
            energy += coefficients.square().mean(1).sum(0) / total
        yield {"images": total, "magnitude": magnitude, "energy": energy}


def _distinct(answers: Answers) -> list[tuple[str, Answer]]:
    """Answers with their names; runs on the same images share one."""
    names: dict[str, tuple[list[str], Answer]] = {}
    for name, answer in zip(answers.names(), answers, strict=True):
        if answer.records:
            same, _ = names.setdefault(json.dumps([answer.records, answer.settings]), ([], answer))
            same.append(name)
    return [(_enumerated(same), answer) for same, answer in names.values()]


def _enumerated(names: Sequence[str]) -> str:
    """Names in one, the first ones of many."""
    shown = names if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _table(some: Sequence[tuple[str, Answer]]) -> Table:
    """How few coefficients have most of the energy, apart from the mean of the image."""
    rows = []
    for name, answer in some:
        record = answer.records[-1]
        energies = sorted((value for line in record["energy"] for value in line), reverse=True)
        mean = record["energy"][0][0]
        cells = [Cell(count(record["images"]), value=record["images"]), Cell(percent(mean / (sum(energies) or 1)))]
        without_mean = sorted(energies, reverse=True)
        without_mean.remove(mean)
        if sum(without_mean) < ROUNDING * mean:
            without_mean = []  # images that are the same everywhere
        for share in SHARES:
            needed = coefficients_with(without_mean, share)
            cells.append(Cell(percent(needed / len(energies)), value=needed / len(energies)))
        rows.append((name, cells))
    columns = [
        "Images",
        "Energy of the mean",
        *(f"Coefficients with {100 * share:g} % of the rest" for share in SHARES),
    ]
    return Table(
        "Energy of the mean, and the share of the coefficients that have most of the rest", "Data", columns, rows
    )


def coefficients_with(energies: Sequence[float], share: float) -> int:
    """How many of the largest energies, in falling order, have a share of their sum."""
    whole, part = sum(energies), 0.0
    for number, energy in enumerate(energies):
        if part >= share * whole * (1 - 1e-12):
            return number
        part += energy
    return len(energies)


def _diagonals(some: Sequence[tuple[str, Answer]]) -> Chart:
    """Magnitudes along the diagonal."""
    curves = []
    for name, answer in some:
        x, y = along_diagonal(answer.records[-1]["magnitude"])
        curves.append(Curve(answer.place, name if len(some) > 1 else "magnitude", x, y))
    return Chart(
        "Magnitude along the diagonal", "frequency in both directions", tuple(curves), False, log_y=True, alone=True
    )


def _map(name: str, record: Record) -> Item:
    """All magnitudes on a logarithmic scale."""
    return spectrum_map(f"{name}: magnitude of each frequency", record["magnitude"])
