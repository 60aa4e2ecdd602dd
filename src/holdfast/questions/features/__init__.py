"""The question of how well layers separate the classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from holdfast.errors import unknown
from holdfast.questions.answers import Answer, Answers
from holdfast.questions.features.presentation import MAPS, images_of, presented
from holdfast.questions.question import Context, Material, Needs, Prepared, Record
from holdfast.show.items import Item

if TYPE_CHECKING:
    from holdfast.types import Corruption

LIMITS = {"images": (4, None), "points": (2, 2000), "resamples": (0, None)}
"""Least and largest values of fields."""


@dataclass(frozen=True, kw_only=True)
class Features:
    r"""Feature separation: how well each layer separates the classes of clean and noisy images, with maps to look at.

    Layers are the stages of the network, averaged over space or tokens, and the vector before its linear head. The
    numbers are taken in the full space of a layer: silhouette, share of images nearest to the centroid of their class,
    and scatter between classes over scatter within.

    Args:
        noise: any corruption (default: gaussian_noise: 0.06).
        maps: tsne, pca or umap, or several.
        images: number of test images that the numbers are of, drawn at random.
        points: how many of them are drawn in the maps.
        resamples: number of bootstrap samples for the intervals.

    Reference:
        Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
        figures 1, 12 and 13 and section 7.5.
    """

    title: ClassVar = "Features"
    needs: ClassVar = Needs.NETWORK
    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "example": ("point",), "label": ("point",), "maps": ("map", "side", "coordinate", "point"),
    }  # fmt: skip

    noise: Corruption | None = None
    maps: tuple[str, ...] = ("tsne",)
    images: int = 1000
    points: int = 500
    resamples: int = 100

    def __post_init__(self) -> None:
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if value < least or (most is not None and value > most):
                limits = f"{least} to {most}" if most is not None else f"at least {least}"
                raise ValueError(f"{name}: expected {limits}, got {value}")
        for name in self.maps:
            if name not in MAPS:
                raise ValueError(f"maps: {unknown(name, MAPS)}")

    def prepared(self, context: Context) -> Prepared:
        """The noise where none is stated; maps that cannot be drawn here are refused before any work is done."""
        from holdfast.questions.features.embedding import umap_library
        from holdfast.questions.features.measurement import NOISE

        if "umap" in self.maps:
            umap_library()
        if self.noise is not None:
            return Prepared(self)
        return Prepared(replace(self, noise=NOISE), {"noise": {"gaussian_noise": asdict(NOISE)}})

    def count(self, material: Material) -> int:
        """One record for each layer."""
        from holdfast.questions.features.measurement import layer_names

        return len(layer_names(material.model, material.x))

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """Numbers and maps of the layers that follow."""
        from holdfast.questions.features.measurement import layer_records

        return layer_records(self, material, len(earlier))

    @staticmethod
    def rests_on(answer: Answer) -> int:
        """How many of the images it was asked about."""
        return images_of(answer)

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Numbers of every layer as a table and charts, and its maps; kinds of noise stand apart."""
        return presented(answers)
