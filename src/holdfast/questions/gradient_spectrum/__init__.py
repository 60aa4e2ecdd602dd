"""The question of which frequencies a network is sensitive to, to first order: all from one gradient of each image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.fourier_map import RADIUS, THIRDS, by_radius, fourier_map, in_thirds, independent
from holdfast.questions.presenting import answered, number, of_each_kind
from holdfast.questions.question import Material, Needs, Record
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Item
from holdfast.show.spectra import along_diagonal, spectrum_map
from holdfast.show.table import Table

if TYPE_CHECKING:
    from holdfast.types import Loss

EXPLANATION = (
    "How much the loss changes with each frequency of the image, to first order: the mean magnitude of the projection "
    "of its gradient on each Fourier wave, and of its cosine transform, over images and channels. All frequencies "
    "come from one backward pass for each image. It is about very small perturbations; the Fourier heat map has errors "
    "under large ones, and how well this predicts them."
)


@dataclass(frozen=True, kw_only=True)
class GradientSpectrum:
    r"""First-order heat map: how much the loss changes with each frequency, from one backward pass for each image.

    .. math:: G_{ij} = \frac1{NC} \sum_{n, c} \bigl|\langle \nabla_{x_{n,c}} \ell(f(x_n), y_n),\, U_{ij} \rangle\bigr|,
              \qquad U_{ij} \propto \cos 2\pi(i r / H + j c / W),\ \|U_{ij}\| = 1

    for all waves at once by a Fourier transform of the gradient; likewise the mean magnitude of its cosine transform.

    Args:
        loss: per-example loss (default: cross_entropy).

    Reference:
        Yin et al., A Fourier Perspective on Model Robustness in Computer Vision, NeurIPS 2019, arXiv:1906.08988 (the
        map of errors, of which this is the first order).
    """

    title: ClassVar = "First-order heat map"
    needs: ClassVar = Needs.NETWORK
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "fourier": ("independent frequency",),
        "cosine": ("frequency in height", "frequency in width"),
    }

    loss: Loss | None = None

    def count(self, material: Material) -> int:
        """One record."""
        return 1

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """Means over all images."""
        from holdfast.questions.gradient_spectrum.measurement import gradient_maps

        fourier, cosine = gradient_maps(
            material.model, material.x, material.y, loss=self.loss, batch_size=material.batch_size
        )
        size = material.x.shape[-2:]
        yield {"size": list(size), "fourier": [float(fourier[place]) for place in independent(*size)], "cosine": cosine}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Numbers by thirds of the frequencies, curves over the radius and along the diagonal, and maps."""
        some = answered(answers)
        if not some:
            return
        yield EXPLANATION
        yield from _charts(of_each_kind(answers))
        yield _table(some)
        for name, answer in some:
            record = answer.records[0]
            yield first_order_map(
                f"{name}: projection of the gradient on Fourier waves", record["fourier"], record["size"]
            )
            yield spectrum_map(f"{name}: cosine transform of the gradient", record["cosine"], high_is_worse=True)


def first_order_map(title: str, values: Sequence[float], size: tuple[int, int]) -> Item:
    """Values of the independent frequencies, relative to the largest, with frequency 0 in the middle."""
    largest = max(values, default=0.0) or 1.0
    relative = [round(value / largest, 4) for value in values]
    return fourier_map(f"{title}, relative to the largest", relative, size, hover="%{z:.3f}", ends=(0, 1))


def _table(some: Sequence[tuple[str, Answer]]) -> Table:
    rows = []
    for name, answer in some:
        record = answer.records[0]
        rows.append((name, [number(value) for value in in_thirds(record["fourier"], record["size"])]))
    caption = "Mean projection of the gradient on Fourier waves, loss per unit of length, by thirds of the frequencies"
    return Table(caption, "Run", THIRDS, rows)


def _charts(some: Sequence[tuple[str, Answer]]) -> Iterator[Chart]:
    """The projections over the radius, and the cosine transform along the diagonal."""
    records = [(kind, answer.place, answer.records[0]) for kind, answer in some]
    curves = [Curve(place, kind, *by_radius(record["fourier"], record["size"])) for kind, place, record in records]
    title = "Projection of the gradient on Fourier waves"
    yield Chart(title, RADIUS, tuple(curves), False, log_y=True)
    curves = [Curve(place, kind, *along_diagonal(record["cosine"])) for kind, place, record in records]
    title = "Cosine transform of the gradient along the diagonal"
    yield Chart(title, "frequency in both directions", tuple(curves), False, log_y=True)
