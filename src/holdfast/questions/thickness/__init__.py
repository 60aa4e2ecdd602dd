"""The question of boundary thickness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.presenting import answered, mean, number, share
from holdfast.questions.question import Needs
from holdfast.show.items import Item
from holdfast.show.numbers import count, decimal, short
from holdfast.show.table import Cell, Table
from holdfast.statistics import spread

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier

TOGETHER = 16
"""Points of each segment in a forward pass."""

EXPLANATION = (
    "Thickness is the length over which the probabilities of two classes cross the band, on the way from an image to a "
    "point that an attack moves to another class. Segments that do not reach the other class contribute only the part "
    "of the band that they cross."
)


@dataclass(frozen=True, kw_only=True)
class Thickness:
    r"""Boundary thickness: how far an input moves while the prediction changes.

    .. math:: \Theta = \|x_i - x_j\| \int_0^1 \mathbf 1\bigl[\alpha < p_i(x(t)) - p_j(x(t)) < \beta\bigr]\, dt

    along the segment from each image to what a targeted attack in l2 finds for another class, drawn at random.

    Args:
        alpha: lower end of the band of probability differences.
        beta: upper end of the band.
        eps: maximum length of a segment, in l2.
        steps: steps of the attack.
        step_size: length of a step, in l2.
        points: number of points on each segment.

    Reference:
        Yang et al., Boundary thickness and robustness in learning models, NeurIPS 2020, arXiv:2007.05086.
    """

    title: ClassVar = "Boundary thickness"
    needs: ClassVar = Needs.NETWORK
    columns: ClassVar = {
        "value": "thickness of the boundary along the segment",
        "length": "length of the segment in l2",
        "source": "class predicted at the image",
        "target": "class that the attack aims at",
        "reached": "whether the end of the segment is predicted as the target",
    }

    alpha: float = 0.0
    beta: float = 0.75
    eps: float = 1.0
    steps: int = 20
    step_size: float = 0.2
    points: int = 128

    def __post_init__(self) -> None:
        from holdfast.theory.thickness import check_band

        check_band(self.alpha, self.beta)
        if self.points < 2:
            raise ValueError(f"points must be at least 2, got {self.points}")

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """Thickness along one segment from each image."""
        from holdfast.attacks.pgd import PGD
        from holdfast.questions.thickness.measurement import boundary_thickness
        from holdfast.threat.l2 import L2

        attack = PGD(
            threat=L2(self.eps), steps=self.steps, step_size=self.step_size, random_start=False, until_lost=False
        )
        band = {"alpha": self.alpha, "beta": self.beta}
        return vars(
            boundary_thickness(model, x, **band, points=self.points, attack=attack, batch=TOGETHER * len(x), rng=rng)
        )

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Mean and spread of each network, over all images and by predicted class."""
        if not answered(answers):
            return
        yield EXPLANATION
        yield _table(answers)
        yield _by_class(answers)


def _table(answers: Answers) -> Table:
    rows = [(name, _row(answer)) for name, answer in answered(answers)]
    columns = ("Mean, 95 %", "Deviation", "Segments that reach the class", "Images", "Band", "Longest segment (ℓ2)")
    return Table("Boundary thickness", "Run", columns, rows)


def _row(answer: Answer) -> list[Cell]:
    values, settings = answer.rows["value"].to_list(), answer.settings
    return [
        mean(values, _four), number(spread(values).deviation, _four),
        share(answer.rows["reached"].cast(float).to_numpy().mean()), Cell(count(len(values)), value=len(values)),
        Cell(f"({short(settings['alpha'])}, {short(settings['beta'])})"), number(settings["eps"]),
    ]  # fmt: skip


def _by_class(answers: Answers) -> Table:
    """Mean thickness by the class that is predicted at the image."""
    groups = [(name, answer, _means(answer)) for name, answer in answered(answers)]
    classes = sorted({which for _, _, means in groups for which in means})
    values = [value for _, _, means in groups for value in means.values()]
    low, high = min(values), max(values)

    def cell(value: float | None) -> Cell:
        if value is None:
            return Cell("")
        heat = (value - low) / (high - low) if high > low else 0.0
        return Cell(decimal(value, 3), heat=heat, good=True, value=value)

    rows = [(name, [cell(means.get(which)) for which in classes]) for name, _, means in groups]
    names = [groups[0][1].class_name(which) for which in classes]
    return Table("Mean boundary thickness by predicted class", "Run", names, rows, style="dense")


def _means(answer: Answer) -> dict[int, float]:
    return {int(source): float(group["value"].to_numpy().mean()) for (source,), group in answer.rows.group_by("source")}


def _four(value: float) -> str:
    return decimal(value, 4)
