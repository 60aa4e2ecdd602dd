"""The question of smoothed robustness, between the average and the worst case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.fields import require_at_least, require_sizes
from holdfast.questions.presenting import Rate, answered, mean, rate_curve
from holdfast.questions.question import Needs
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Item
from holdfast.show.names import NORMS
from holdfast.show.numbers import several, short
from holdfast.show.table import Cell, Table, coloured

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier

EXPLANATION = (
    "An image is smoothed robust where the network is right on average over the noise, at the worst point of the "
    "region that a search finds. A region of size 0 gives the average case, noise of 0 the worst case. A search may "
    "miss the worst point, so the true shares may be lower."
)


@dataclass(frozen=True, kw_only=True)
class SmoothedRobustness:
    r"""Smoothed robustness: the worst average loss over a region under noise, from the average to the worst case.

    .. math:: \tilde T(x) = \max_{z \in \Omega(x)} E_{\xi}\, T(z + \sigma\xi)

    Args:
        eps: sizes of the region around each image; 0 for the image alone.
        sigma: standard deviations of the Gaussian noise; 0 for none.
        norm: norm of the region: l2, linf or l1.
        loss: loss that is averaged: zero_one or margin.
        steps: steps of the search in the region.
        draws: noisy copies of each point.

    Reference:
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, theorem 1.
    """

    title: ClassVar = "Between average and worst case"
    needs: ClassVar = Needs.NETWORK
    columns: ClassVar = {
        "value": "worst average loss, for each size of the region and each deviation of the noise, in their order",
        "safe": "whether the image is smoothed robust there",
    }

    eps: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0)
    sigma: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5)
    norm: Literal["l2", "linf", "l1"] = "l2"
    loss: Literal["zero_one", "margin"] = "zero_one"
    steps: int = 20
    draws: int = 64

    def __post_init__(self) -> None:
        require_sizes(eps=self.eps, sigma=self.sigma)
        require_at_least(0, steps=self.steps)
        require_at_least(1, draws=self.draws)

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """A search for every size and deviation, (N, sizes, deviations)."""
        from holdfast.questions.sra.measurement import CRITERIA, sra_map
        from holdfast.threat import THREATS

        ball: Any = THREATS[self.norm]
        value, safe = sra_map(
            model, x, y, eps=ordered(self.eps), sigma=ordered(self.sigma), region=ball(1.0),
            criterion=CRITERIA[self.loss], steps=self.steps, draws=self.draws, rng=rng,
        )  # fmt: skip
        return {"value": value, "safe": safe}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Share of smoothed robust images over region and noise, as curves and as a map of each answer."""
        some = answered(answers)
        if not some:
            return
        yield EXPLANATION
        for norm, loss in dict.fromkeys(_kind(answer) for _, answer in some):
            curves = [curve for _, answer in some if _kind(answer) == (norm, loss) for curve in _curves(answer)]
            yield Chart(f"Smoothed robust images, {loss} loss", f"size of the region ({norm})", tuple(curves), True)
        for name, answer in some:
            images = several(len(answer.rows), "image")
            yield _map(answer, "safe", _rate, f"Smoothed robust: {name}, {_kind(answer)[1]} loss, {images}")
        maps = [_map(answer, "value", _mean, f"Mean worst average loss: {name}") for name, answer in some]
        yield Details("Mean worst average losses", maps)


def ordered(sizes: Sequence[float]) -> list[float]:
    """Sizes from the smallest, each once."""
    return sorted(set(sizes))


def _kind(answer: Answer) -> tuple[str, str]:
    """Norm and loss in words."""
    return NORMS[answer.settings["norm"]], answer.settings["loss"].replace("_", "-")


def _curves(answer: Answer) -> Iterator[Curve]:
    """The share against the size of the region, for each deviation of the noise."""
    safe = np.array(answer.rows["safe"].to_list())
    for column, sigma in enumerate(ordered(answer.settings["sigma"])):
        rates = [Rate.of(safe[:, row, column]) for row in range(safe.shape[1])]
        yield rate_curve(f"noise of {short(sigma)}", rates, ordered(answer.settings["eps"]), answer.place)


def _rate(values: NDArray[Any]) -> Cell:
    return Rate.of(values).cell


def _mean(values: NDArray[Any]) -> Cell:
    return mean(values.tolist())


def _map(answer: Answer, column: str, cell: Callable[[NDArray[Any]], Cell], caption: str) -> Table:
    """A column summed up for each size of the region and each deviation of the noise."""
    values = np.array(answer.rows[column].to_list())
    rows = [
        (short(size), [cell(values[:, row, place]) for place in range(values.shape[2])])
        for row, size in enumerate(ordered(answer.settings["eps"]))
    ]
    columns = [f"noise of {short(sigma)}" for sigma in ordered(answer.settings["sigma"])]
    return Table(caption, f"Region ({_kind(answer)[0]})", columns, coloured(rows))
