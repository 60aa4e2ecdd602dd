"""The question of confidence around the images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.attack import check_budget, chosen_attack, norm_of
from holdfast.questions.presenting import Rate, answered, mean
from holdfast.questions.question import Context, Needs, Prepared
from holdfast.show.items import Item
from holdfast.show.names import NORMS
from holdfast.show.numbers import count, percent, short
from holdfast.show.table import Cell, Table

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier, Threat

SHARES = (0.5, 1.0)
"""Radii in units of eps: regularisers that start from one step of PGD spend half of the budget on it."""

POINTS = {"random": "random points", "pgd1": "one step of PGD"}
"""Kinds of points around the images, by the names of their columns."""

VALUES = {
    "likeliest": "probability of the likeliest class",
    "true": "probability of the true class",
    "right": "whether the two are the same class",
}
"""What is measured at every point."""

CAPTION = "Mean probability of the likeliest and of the true class, and right answers"
EXPLANATION = (
    "How sure the network is of its answer, correct or not, and how much of that belongs to the true class: on clean "
    "images, at random points within the stated distance, and after one step of PGD of that length. A network that "
    "stays almost certain everywhere has a flat loss wherever an attack starts, which may be due to masked gradients; "
    "one trained against attacks is less sure, which is honest. Neither is a verdict: `holdfast audit` gives those."
)


@dataclass(frozen=True, kw_only=True)
class Confidences:
    r"""Confidence on clean images, at random points and after one step of PGD, within eps/2 and eps.

    .. math:: \frac1N \sum_n \max_i P(x_n)_i

    for the likeliest class, with the probability of the true class and the share of right answers beside it.

    Args:
        norm: norm of the budget: linf, l2 or l1; goes with eps (default: linf).
        eps: budget, such as 8/255 (default: that of the run's attack).

    Reference:
        Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 3.3.4, table 3.1. It
        does not say how far the random points and the step go.
    """

    title: ClassVar = "Confidence around the images"
    needs: ClassVar = Needs.NETWORK

    norm: Literal["linf", "l2", "l1"] | None = None
    eps: float | None = None

    def __post_init__(self) -> None:
        check_budget(self.norm, self.eps)

    def prepared(self, context: Context) -> Prepared:
        """The measurement within the stated budget or that of the run's attack."""
        threat = chosen_attack(context, self.norm, self.eps).threat
        return Prepared(Measurement(threat), {"norm": norm_of(threat), "eps": threat.eps})

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """A row for each network and kind of points."""
        if some := answered(answers):
            yield EXPLANATION
            columns = ("Likeliest class, 95 %", "True class, 95 %", "Right, 95 %", "Images")
            yield Table(CAPTION, "Run", columns, [row for name, answer in some for row in _rows(name, answer)])


@dataclass(frozen=True)
class Measurement:
    """Confidence around the images within a threat.

    Args:
        threat: where the random points lie and how far the step goes, in units of `SHARES`.
    """

    threat: Threat
    columns: ClassVar[Mapping[str, str]] = {
        **{f"clean_{name}": f"{text}, on the image" for name, text in VALUES.items()},
        **{
            f"{kind}_{name}": f"{text}, {points} within eps/2 and eps"
            for kind, points in POINTS.items()
            for name, text in VALUES.items()
        },
    }

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """A column for each kind of points and value, (N,) on the images and (N, 2) around them."""
        import torch

        from holdfast.questions.sureness import confidences
        from holdfast.threat.radius import with_radius

        threats = [with_radius(self.threat, share * self.threat.eps) for share in SHARES]
        results = [vars(confidences(model, x, y, threat=threat, rng=rng)) for threat in threats]
        columns = {f"clean_{name}": getattr(results[0]["clean"], name) for name in VALUES}
        for kind in POINTS:
            for name in VALUES:
                columns[f"{kind}_{name}"] = torch.stack([getattr(each[kind], name) for each in results], dim=1)
        return columns


def _rows(name: str, answer: Answer) -> Iterator[tuple[str, list[Cell]]]:
    """Clean images, then every kind of points by growing distance."""
    rows, norm = answer.rows, NORMS[answer.settings["norm"]]
    yield f"{name}, clean images", _cells([rows[f"clean_{value}"] for value in VALUES])
    for kind, points in POINTS.items():
        for number, part in enumerate(SHARES):
            eps = short(part * answer.settings["eps"])
            yield f"{name}, {points}, {norm} {eps}", _cells([rows[f"{kind}_{v}"].list.get(number) for v in VALUES])


def _cells(values: list[pl.Series]) -> list[Cell]:
    likeliest, true, right = values
    means = [mean(column.to_list(), percent) for column in (likeliest, true)]
    return [*means, Rate.of(right).cell, Cell(count(len(right)), value=len(right))]
