"""The question of where in feature space the last layer has its weights: in directions that matter, or in others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.presenting import answered, of_each_kind
from holdfast.questions.question import Material, Needs, Record
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Item
from holdfast.show.numbers import count, percent
from holdfast.show.table import Cell, Table

if TYPE_CHECKING:
    from torch import Tensor, nn

SHARES = (0.9, 0.99, 0.999)
"""Of the energy of the features, for the table."""
FLOOR = 1e-12
"""Directions with a smaller share of the energy are rounding and are counted with those that no image has."""
WHO = "head spectrum"
EXPLANATION = (
    "Directions of feature space in the order of their energy, the mean square of the features along them, and the "
    "share of the last layer's squared norm that lies along each. Gradient descent on the last layer moves its weights "
    "in proportion to the features, so that directions of little energy keep their initial weights; methods that "
    "rescale coordinates fill them. Such weights hardly change the logits of these images, but do change those of "
    "perturbed ones."
)


@dataclass(frozen=True, kw_only=True)
class HeadSpectrum:
    r"""Head spectrum: the energy of the features by direction, and the weights of the last layer along each.

    With features :math:`q`, a linear head :math:`W` whose rows have their mean subtracted, which softmax does not see,
    and :math:`u_1, u_2, \dots` the eigenvectors of :math:`\frac1N \sum q q^T` in the order of their eigenvalues:

    .. math:: \mathrm{energy}_i = \frac1N \sum_n (u_i^T q_n)^2, \qquad \mathrm{weight}_i = \|W u_i\|^2

    Reference:
        Ma, Pan, Farahmand, Understanding the robustness difference between stochastic gradient descent and adaptive
        gradient methods, TMLR 2023, arXiv:2308.06703, section 4, whose linear model a head on frozen features is.
    """

    title: ClassVar = "Last layer by energy of the features"
    needs: ClassVar = Needs.NETWORK
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {"energy": ("direction",), "weight": ("direction",)}

    def count(self, material: Material) -> int:
        """One record."""
        return 1

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """Energies and weights, and the weights along directions that no image has."""
        import torch

        from holdfast.models.head import check_linear, check_whole, linear_head
        from holdfast.questions.classes.measurement import features_by_batch

        model = cast("nn.Module", material.model)
        head = linear_head(model, WHO)
        check_linear(head, WHO)
        check_whole(model, head, material.x[:1], WHO)
        features = torch.cat(list(features_by_batch(model, material.x, batch_size=material.batch_size)))
        energy, weight, beyond = spectrum_of(features.double(), head.weight.detach().double())
        yield {"energy": energy, "weight": weight, "beyond": float(beyond), "features": features.shape[1]}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """A row for each network, and both shares against the number of directions."""
        some = answered(answers)
        if some:
            yield EXPLANATION
            yield _table(some)
            yield _chart(of_each_kind(answers))


def spectrum_of(features: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Energies, falling, the squared norm of a head along each direction, and that along all others.

    Args:
        features: (N, F).
        weight: of the head, (K, F).
    """
    import torch

    centred = weight - weight.mean(0)
    _, lengths, directions = torch.linalg.svd(features, full_matrices=False)
    energy = lengths.square() / len(features)
    kept = energy > FLOOR * energy.sum()
    along = (centred @ directions[kept].T).square().sum(0)
    return energy[kept], along, (centred.square().sum() - along.sum()).clamp(min=0)


def directions_for(record: Record, share: float) -> int:
    """How many directions have a share of the energy together, at least."""
    return next(k for k, part in enumerate(_cumulated(record["energy"], 0.0), 1) if part >= share * (1 - 1e-12))


def weight_outside(record: Record, directions: int) -> float:
    """The share of the head's squared norm outside the first directions; 0 for a head of equal rows."""
    whole = sum(record["weight"]) + record["beyond"]
    return 1 - sum(record["weight"][:directions]) / whole if whole else 0.0


def _cumulated(values: Sequence[float], rest: float) -> list[float]:
    """Shares of the first values together; `rest` belongs to the whole, too."""
    whole = sum(values) + rest
    return [part / whole if whole else 0.0 for part in itertools.accumulate(values)]


def _table(some: Sequence[tuple[str, Answer]]) -> Table:
    rows = []
    for name, answer in some:
        record = answer.records[0]
        size = record["features"]
        cells = [Cell(count(size), value=size)]
        for share in SHARES:
            directions = directions_for(record, share) if sum(record["energy"]) else 0
            outside, even = weight_outside(record, directions), 1 - directions / size
            cells.append(Cell(count(directions), value=directions))
            cells.append(Cell(percent(outside), f"{percent(even)} if even", value=outside))
        rows.append((name, cells))
    columns = [
        "Features",
        *(text for share in SHARES for text in (f"{100 * share:g}\u00a0% of energy", "Head outside")),
    ]
    return Table("Directions with most energy, and the head's squared norm outside them", "Run", columns, rows)


def _chart(some: Sequence[tuple[str, Answer]]) -> Chart:
    """The shares of answers whose curves have these names."""
    curves = []
    for of, answer in some:
        record = answer.records[0]
        places = tuple(map(float, range(1, len(record["energy"]) + 1)))
        for kind, rest in (("energy", 0.0), ("weight", record["beyond"])):
            label = {"energy": "energy of the features", "weight": "squared norm of the head"}[kind]
            shares = tuple(_cumulated(record[kind], rest))
            curves.append(Curve(answer.place, f"{label}, {of}", places, shares))
    title = "Shares of energy and of the head in the first directions"
    return Chart(title, "directions, by falling energy", tuple(curves), True, log_x=True)
