"""The question of Fourier heat maps: the errors of a network under noise of a single frequency."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from holdfast.questions.answers import Answers
from holdfast.questions.fields import require_at_least, require_positive
from holdfast.questions.fourier_map import independent
from holdfast.questions.question import Context, Material, Needs, Prepared, Record
from holdfast.show.items import Item

if TYPE_CHECKING:
    from holdfast.types import Loss

TOGETHER = 32
"""Frequencies of a record: what an interruption loses."""


@dataclass(frozen=True, kw_only=True)
class FourierHeatmap:
    r"""Fourier heat map: the share of wrong answers when a wave of one frequency is added, for every frequency.

    .. math:: E_{ij} = \frac1N \sum_n 1\bigl\{f\bigl(\mathrm{clip}(x_n + r_n\, v\, U_{ij})\bigr) \ne y_n\bigr\},
              \qquad U_{ij} \propto \cos 2\pi(i r / H + j c / W),\ \|U_{ij}\| = 1

    with a random sign :math:`r_n` for each image, channel and wave. The waves of :math:`(i, j)` and :math:`(-i, -j)`
    are the same, so that half of the map is measured. With it comes the first-order heat map of the same images
    (question `gradient_spectrum`), and how well it predicts the order of the errors.

    Args:
        length: of the wave in each channel, :math:`v`, in l2.
        clip: cut images with a wave to [0, 1].
        images: number of test images that are asked about, balanced over the classes.
        loss: of the first-order map, per example (default: cross_entropy).

    Reference:
        Yin et al., A Fourier Perspective on Model Robustness in Computer Vision, NeurIPS 2019, arXiv:1906.08988: 4 is
        the length for CIFAR-10, in every channel as in the code of peers, 6.9 in all three together.
    """

    title: ClassVar = "Fourier heat map"
    needs: ClassVar = Needs.NETWORK
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "first_order": ("independent frequency",),
        "errors": ("independent frequency",),
        "halves": ("half of the images", "independent frequency"),
    }

    length: float = 4.0
    clip: bool = True
    images: int = 200
    loss: Loss | None = None

    def __post_init__(self) -> None:
        require_positive(length=self.length)
        require_at_least(1, images=self.images)

    def prepared(self, context: Context) -> Prepared:
        """The measurement on some of the images."""
        return Prepared(self, examples=self.images)

    def count(self, material: Material) -> int:
        """One record with the first-order map, and one for every few frequencies."""
        height, width = material.x.shape[-2:]
        return 1 + math.ceil(len(independent(height, width)) / TOGETHER)

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """What the images give without waves, then errors of the frequencies that follow."""
        from holdfast.questions.fourier_heatmap.measurement import around, errors

        if not earlier:
            yield around(material, self.loss)
        every = independent(*material.x.shape[-2:])
        for first in range(TOGETHER * max(0, len(earlier) - 1), len(every), TOGETHER):
            some = every[first : first + TOGETHER]
            yield errors(material, some, length=self.length, clip=self.clip)

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Errors and first order as maps, over the radius, and in numbers."""
        from holdfast.questions.fourier_heatmap.presentation import presentation

        return presentation(answers)
