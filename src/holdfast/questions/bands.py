"""The question of which frequencies a network needs: the accuracy that noise in each band of them takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import polars as pl

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.fields import require_at_least, require_not_negative
from holdfast.questions.question import Needs
from holdfast.results.band_drops import FIELDS, drops
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Item
from holdfast.show.numbers import counts, interval, percent, short
from holdfast.show.table import Cell, Table, across, coloured

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier

NOISE = tuple(name for name in FIELDS if name != "band")
"""Fields of the noise that all bands of a chart share."""
EXPLANATION = (
    "Gaussian noise in one band of frequencies after the other, of about the same length in all of them, and the "
    "accuracy that it takes. Where it takes much, the network relies on these frequencies; differences are taken image "
    "by image, and intervals treat images as clusters of their draws."
)


@dataclass(frozen=True, kw_only=True)
class Bands:
    r"""Accuracy that noise in each band of frequencies takes.

    .. math:: \frac1N \sum_n 1\{f(x_n) = y_n\} - \frac1{NK} \sum_n \sum_k 1\{f(x_n + C^T (M_b \odot \delta_{n,k})\, C)
              = y_n\}, \qquad \delta_{n,k} \sim N(0, \sigma^2 I)

    with the orthonormal cosine transform :math:`C` and the mask :math:`M_b` of each band.

    Args:
        bands: number of bands that the frequencies are divided into.
        variance: of the noise in each coefficient, and so in each pixel if all bands had noise.
        draws: number of draws of the noise for each image; all bands have parts of the same ones.
        rule: rank for bands of the same size, for images of any size; radius for the published ones, of 32x32 pixels.
        clip: cut noisy images to [0, 1], which moves noise out of its band.

    Reference:
        Ma, Pan, Farahmand, Understanding the robustness difference between stochastic gradient descent and adaptive
        gradient methods, TMLR 2023, arXiv:2308.06703, section 4.3.2; equation 4.5 and figures 4.6 and 4.17 of Ma's
        thesis. The check `band_noise` has the same noise and keeps images of it.
    """

    title: ClassVar = "Accuracy by band of frequencies"
    needs: ClassVar = Needs.NETWORK
    columns: ClassVar = {
        "right": "whether the answer is right on the image itself",
        "right_in_band": "draws of the noise in each band with a right answer, from the lowest frequencies on",
    }

    bands: int = 10
    variance: float = 0.01
    draws: int = 10
    rule: Literal["rank", "radius"] = "rank"
    clip: bool = False

    def __post_init__(self) -> None:
        require_at_least(1, bands=self.bands, draws=self.draws)
        require_not_negative(variance=self.variance)

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """Right answers on the images and on noisy copies of them: `draws` times `bands` forward passes, and one."""
        import torch

        from holdfast.corruptions.frequencies import BandNoise, in_each_band

        with torch.no_grad():
            right = model(x).argmax(1) == y
            hits = torch.zeros(len(x), self.bands, dtype=torch.int64, device=x.device)
            for draw in range(self.draws):
                noise = BandNoise(
                    band=0, bands=self.bands, variance=self.variance, rule=self.rule, clip=self.clip, draw=draw
                )
                for band, z in enumerate(in_each_band(noise, x, rng=rng)):
                    hits[:, band] += model(z).argmax(1) == y
        return {"right": right, "right_in_band": hits}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """What each band takes from each network, as a chart and in numbers."""
        named = zip(answers.names(), answers.kinds(), answers, strict=True)
        shown = [Taken(name, kind, one.place, drops_of(one)) for name, kind, one in named if len(one.rows)]
        if shown:
            yield EXPLANATION
            yield from presentation(shown)


@dataclass(frozen=True)
class Taken:
    """What noise in each band takes from one network.

    Args:
        name: of the network.
        kind: what its curve is called.
        place: of its run among those that are shown.
        drops: a row of `holdfast.results.band_drops` for each band.
    """

    name: str
    kind: str
    place: int
    drops: Sequence[Mapping[str, Any]]

    @property
    def noise(self) -> Mapping[str, Any]:
        """The fields that all bands share."""
        return {name: self.drops[0][name] for name in NOISE}


def drops_of(answer: Answer) -> list[dict[str, Any]]:
    """What each band takes, from the columns of an answer."""
    settings = answer.settings
    rows = answer.rows.explode("right_in_band").with_columns(
        pl.lit(settings[name], dtype=FIELDS[name]).alias(name) for name in NOISE
    )
    examples = rows.select(
        "run", "weights", *NOISE, "example",
        band=pl.int_range(pl.len()).over("example"),
        draws=pl.lit(settings["draws"]),
        clean=pl.col("right").cast(pl.Float64),
        noisy=pl.col("right_in_band") / settings["draws"],
    )  # fmt: skip
    return list(drops(examples.sort("band", "example")).iter_rows(named=True))


def presentation(shown: Sequence[Taken]) -> Iterator[Item]:
    """A chart and tables for each noise that networks were tried with."""
    groups: dict[str, list[Taken]] = {}
    for one in shown:
        groups.setdefault(json.dumps(one.noise), []).append(one)
    for some in groups.values():
        noise = _in_words(some[0].noise)
        yield drops_chart(some, noise)
        yield drops_table(some, noise)
        yield _basis(some, noise)


def _in_words(noise: Mapping[str, Any]) -> str:
    """The noise in few words."""
    clipped = ", clipped" if noise["clip"] else ""
    radii = " of published radii" if noise["rule"] == "radius" else ""
    return f"{noise['bands']} bands{radii}, variance {short(noise['variance'])}{clipped}"


def drops_chart(some: Sequence[Taken], noise: str) -> Chart:
    """The accuracy that each band takes from each network, with intervals."""
    title = f"Accuracy that noise in each band takes, {noise}"
    return Chart(title, "band, from low to high frequencies", tuple(map(_curve, some)), True, whole=False)


def _curve(one: Taken) -> Curve:
    x, y, low, high = (tuple(row[key] for row in one.drops) for key in ("band", "drop", "low", "high"))
    several = None not in low  # images
    return Curve(one.place, one.kind, x, y, low if several else (), high if several else (), ribbon=several)


def drops_table(some: Sequence[Taken], noise: str) -> Table:
    """The same in percentage points, with intervals."""
    columns = [(one.name, {row["band"]: _cell(row) for row in one.drops}) for one in some]
    table = across(f"Accuracy that noise in each band takes, in percentage points; {noise}", "Band", columns, str)
    return replace(table, rows=coloured(table.rows, good=False))


def _cell(row: Mapping[str, Any]) -> Cell:
    """A drop with its interval."""
    note = "" if row["low"] is None else interval(row["low"], row["high"])
    return Cell(f"{100 * row['drop']:z.1f}", note, value=row["drop"])


def _basis(some: Sequence[Taken], noise: str) -> Table:
    """What the differences rest on."""
    rows = []
    for one in some:
        clean, *sizes = ([row[name] for row in one.drops] for name in ("clean", "examples", "draws"))
        whole = [Cell(counts(size), value=size[0] if len(set(size)) == 1 else None) for size in sizes]
        rows.append((one.name, [Cell(percent(clean[0]), value=clean[0]), *whole]))
    columns = ("Right on clean images", "Images", "Draws")
    return Table(f"What the differences rest on; {noise}", "Run", columns, rows)
