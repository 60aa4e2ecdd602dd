"""The question of flatness."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.question import Material, Needs, Record
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Item
from holdfast.show.numbers import decimal, give_or_take, percent, short
from holdfast.show.table import Cell, Table, across
from holdfast.statistics import spread

if TYPE_CHECKING:
    from torch import nn

RADII, RADII_BY_FILTER = (0.0, 5.0, 10.0, 15.0, 20.0, 25.0), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
AXIS = {True: "distance, as a share of each filter", False: "distance in all parameters together"}
EXPLANATION = (
    "Mean loss when the parameters are moved in random directions. The flatter the curve, the less the network depends "
    "on their exact values; distances in all parameters compare only networks of the same kind and scale."
)


@dataclass(frozen=True, kw_only=True)
class Flatness:
    r"""Flatness: the mean loss at growing distances from the parameters, in random directions.

    .. math:: L(\rho) = E_u\, L(\theta + \rho\, u)

    :math:`u` is uniform on the unit sphere of all parameters, the same directions for every distance.

    Args:
        radii: distances from the parameters (default: 0 to 25; 0 to 0.5 with by_filter).
        draws: number of random directions.
        by_filter: scale each direction by the norm of its filter (filter normalisation).

    Reference:
        Li et al., Visualizing the Loss Landscape of Neural Nets, NeurIPS 2018, arXiv:1712.09913, section 4 (filters).
    """

    title: ClassVar = "Flatness"
    needs: ClassVar = Needs.NETWORK
    axes: ClassVar = {"losses": ("direction",), "errors": ("direction",)}

    radii: tuple[float, ...] | None = None
    draws: int = 50
    by_filter: bool = False

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")
        if self.radii is not None and not (self.radii and all(0 <= radius < math.inf for radius in self.radii)):
            raise ValueError(f"radii: expected numbers from 0 on, such as 0,5,10; got {list(self.radii)}")

    @property
    def distances(self) -> tuple[float, ...]:
        """The radii in order, each once."""
        default = RADII_BY_FILTER if self.by_filter else RADII
        return default if self.radii is None else tuple(sorted(set(self.radii)))

    def count(self, material: Material) -> int:
        """One record for each distance."""
        return len(self.distances)

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """Loss and share of wrong answers for each direction at the next distances."""
        from holdfast.questions.flatness.measurement import flatness

        for level in flatness(
            cast("nn.Module", material.model), material.x, material.y, radii=self.distances[len(earlier) :],
            draws=self.draws, by_filter=self.by_filter, batch_size=material.batch_size, seed=material.seed,
        ):  # fmt: skip
            yield asdict(level)

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Mean loss against distance, a chart and a table for each way of measuring it."""
        each = zip(answers.names(), answers.kinds(), answers, strict=True)
        some = [one for one in each if one[-1].records]
        if some:
            yield EXPLANATION
        for by_filter in (False, True):
            chosen = [one for one in some if one[-1].settings["by_filter"] is by_filter]
            if chosen:
                curves = tuple(_curve(kind, answer) for _, kind, answer in chosen)
                yield Chart("Loss around the parameters", AXIS[by_filter], curves, False)
                yield _table([(name, answer) for name, _, answer in chosen], AXIS[by_filter])


def _curve(kind: str, answer: Answer) -> Curve:
    losses = [spread(level["losses"]) for level in answer.records]
    low, high = (tuple(one.mean + sign * (one.half or 0.0) for one in losses) for sign in (-1, 1))
    radii: tuple[float, ...] = tuple(level["radius"] for level in answer.records)
    return Curve(answer.place, kind, radii, tuple(one.mean for one in losses), low, high)


def _table(chosen: Sequence[tuple[str, Answer]], axis: str) -> Table:
    columns = [(name, {level["radius"]: _cell(level) for level in one.records}) for name, one in chosen]
    caption = "Mean loss with its 95 % interval, and accuracy, at each distance from the parameters"
    return across(caption, axis.capitalize(), columns, short)


def _cell(level: Any) -> Cell:
    losses, errors = spread(level["losses"]), spread(level["errors"])
    note = (give_or_take(losses.half, _four), f"{percent(1 - errors.mean)} correct")
    return Cell(_four(losses.mean), "; ".join(filter(None, note)), value=losses.mean)


def _four(value: float) -> str:
    return decimal(value, 4)
