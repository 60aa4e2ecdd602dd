"""What answers about the similarity of networks say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.presenting import answered, mean, number, proportion
from holdfast.resampling import rank_correlation, ranks
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Heading, Item, Note
from holdfast.show.numbers import count, decimal, points, several
from holdfast.show.table import Cell, Table
from holdfast.statistics import spread

EXPLANATION = (
    "How alike other networks are to the one in question. Divergence is of the other's answer from that of the "
    "network, which alignment with the other as witness lowers; agreement is the share of images for which both "
    "predict the same class, right or wrong; the cosine is between the gradients of their losses at the image: 1 where "
    "both point the same way, about 0 where they have nothing in common."
)
RANKING = (
    "Ranks of the candidates by what is known without a query to any target: 1 is the largest cosine, the largest "
    "agreement, and the most weights. The gain, where it is known, is the change of error rates that alignment with "
    "this candidate brought: the mean over the attacks of a matrix and its targets, without the candidate."
)
UNKNOWN = (
    "Which of the three chooses well is an open question; `--matrix` compares them with what each candidate gained as "
    "a witness."
)
FEWEST = 3
"""Candidates that a rank correlation needs: two always agree or disagree wholly."""
CRITERIA = ("Cosine", "Agreement", "Weights")


@dataclass(frozen=True)
class Other:
    """What was measured of another network.

    Args:
        name: of its run.
        weights: how many it has.
        divergence: of each image, in nats.
        agreement: of each image.
        cosine: of each image that has one.
        energy: mean share of each band in its perturbations, minus that of the source's.
        half: half of the 95 % interval of each.
        gain: as a witness, in error rate; None where it is unknown.
    """

    name: str
    weights: int
    divergence: Sequence[float]
    agreement: Sequence[bool]
    cosine: Sequence[float]
    energy: Sequence[float]
    half: Sequence[float]
    gain: float | None

    @property
    def criteria(self) -> tuple[float, ...]:
        """What candidates are ranked by, in the order of `CRITERIA`."""
        alike = math.fsum(self.cosine) / len(self.cosine) if self.cosine else math.nan
        return alike, sum(self.agreement) / len(self.agreement), float(self.weights)


def presentation(answers: Answers) -> Iterator[Item]:
    """For each answer a table, ranks, and the frequencies in which perturbations differ."""
    some = answered(answers)
    if some:
        yield EXPLANATION
    for name, answer in some:
        others = others_of(answer)
        if len(some) > 1:
            yield Heading(name)
        yield _table(name, others)
        if len(others) > 1:
            yield RANKING
            if missing := answer.settings.get("missing_controls"):
                text = f"Sources of the matrix lack controls ({', '.join(missing)}): gains may not be the witness's."
                yield Note(text, "doubt", "Without controls.")
            yield _rank_table(others)
            yield _correlations(others)
        yield _chart(name, answer, others)


def others_of(answer: Answer) -> list[Other]:
    """The other networks of an answer."""
    arrays = {name: _array(answer, name) for name in ("divergence", "agreement", "cosine", "energy")}
    gains = answer.settings.get("gains") or [None] * len(answer.settings["networks"])
    made = []
    facts: Mapping[str, object]
    for place, (facts, gain) in enumerate(zip(answer.settings["networks"], gains, strict=True)):
        cosines = arrays["cosine"][:, place]
        difference = arrays["energy"][:, 1 + place] - arrays["energy"][:, 0]
        each = [spread(column.tolist()) for column in difference.T]
        made.append(
            Other(
                name=str(facts["name"]), weights=int(str(facts["weights"])),
                divergence=arrays["divergence"][:, place].tolist(),
                agreement=arrays["agreement"][:, place].astype(bool).tolist(),
                cosine=cosines[np.isfinite(cosines)].tolist(), energy=[one.mean for one in each if one is not None],
                half=[one.half or 0.0 for one in each if one is not None], gain=gain,
            )
        )  # fmt: skip
    return made


def _array(answer: Answer, column: str) -> NDArray[np.float64]:
    """A column of lists as an array."""
    return np.asarray(answer.rows[column].to_list(), dtype=np.float64)


def _table(name: str, others: Sequence[Other]) -> Table:
    rows = []
    for one in others:
        missing = len(one.divergence) - len(one.cosine)
        alike = mean(one.cosine) if one.cosine else Cell("–")
        note = f"without {several(missing, 'image')} of gradient zero" if missing else alike.note
        cells = [mean(one.divergence), proportion(one.agreement), Cell(alike.text, note=note, value=alike.value)]
        rows.append((one.name, [*cells, Cell(count(one.weights), value=one.weights)]))
    columns = ("Divergence, nats", "Agreement", "Cosine of gradients", "Weights")
    return Table(f"Networks compared with {name}", "Network", columns, rows)


def _rank_table(others: Sequence[Other]) -> Table:
    """A candidate's rank by each criterion, and its gain."""
    by_criterion = [
        ranks([-value for value in values]) for values in zip(*(one.criteria for one in others), strict=True)
    ]
    gains = any(one.gain is not None for one in others)
    rows = []
    for place in sorted(range(len(others)), key=lambda place: float(by_criterion[0][place])):
        gain = others[place].gain
        cells = [number(float(each[place])) for each in by_criterion]
        last = [Cell("–") if gain is None else Cell(points(gain), value=gain)] if gains else []
        rows.append((others[place].name, [*cells, *last]))
    columns = [*CRITERIA, *(["Gain as witness"] if gains else [])]
    return Table("Candidate witnesses by rank, the largest cosine first", "Network", columns, rows)


def _correlations(others: Sequence[Other]) -> Item:
    """Rank correlations of the criteria with the gain, where it is known of enough candidates."""
    measured = [one for one in others if one.gain is not None]
    if not measured:
        return UNKNOWN
    if len(measured) < FEWEST:
        return f"The gain is known of {len(measured)} of {len(others)} candidates; a rank correlation needs {FEWEST}."
    columns = list(zip(*(one.criteria for one in measured), strict=True))
    gains = [float(one.gain or 0) for one in measured]
    rows = []
    for name, values in zip(CRITERIA, columns, strict=True):
        value = rank_correlation(values, gains)
        cell = Cell("–", note="all alike") if math.isnan(value) else Cell(decimal(value, 2), value=value)
        rows.append((name, [cell, Cell(count(len(measured)), value=len(measured))]))
    return Table("Rank correlation (Spearman) with the gain", "Criterion", ("Correlation", "Candidates"), rows)


def _chart(name: str, answer: Answer, others: Sequence[Other]) -> Chart:
    """By band of frequencies, the share of perturbations of another network minus that of the source's."""
    curves = []
    for one in others:
        places = tuple(float(band) for band in range(1, len(one.energy) + 1))
        low = tuple(value - half for value, half in zip(one.energy, one.half, strict=True))
        high = tuple(value + half for value, half in zip(one.energy, one.half, strict=True))
        curves.append(Curve(answer.place, one.name, places, tuple(one.energy), low, high))
    title = f"Energy of perturbations by frequency: share of the other network minus that of {name}"
    return Chart(
        title, "band of frequencies, from low to high", tuple(curves), True, whole=False, from_zero=False, alone=True
    )
