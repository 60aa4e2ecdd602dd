"""The question of smoothed robustness, between the average and the worst case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.questions.answers import Answers
from holdfast.questions.fields import ordered, require_at_least, require_sizes
from holdfast.questions.question import Needs
from holdfast.show.items import Item

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier


@dataclass(frozen=True, kw_only=True)
class SmoothedRobustness:
    r"""Smoothed robustness: the worst-case average loss over a region under noise, from the average to the worst case.

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
        "value": "worst-case average loss, for each size of the region and each deviation of the noise, in their order",
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
        from holdfast.families import THREATS
        from holdfast.questions.sra.measurement import CRITERIA, sra_map

        ball: Any = THREATS[self.norm]
        value, safe = sra_map(
            model, x, y, eps=ordered(self.eps), sigma=ordered(self.sigma), region=ball(1.0),
            criterion=CRITERIA[self.loss], steps=self.steps, draws=self.draws, rng=rng,
        )  # fmt: skip
        return {"value": value, "safe": safe}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Share of smoothed robust images over region and noise, as curves and as a map of each answer."""
        from holdfast.questions.sra.presentation import presentation

        return presentation(answers)
