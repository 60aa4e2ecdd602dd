"""What filters and noise by frequency do to an image, and how much accuracy noise in each band takes: one page.

`python examples/frequencies.py frequencies.html` draws a digit without its smallest coefficients and without its
highest frequencies, with the difference and the mask of each, and with noise in each band. After `holdfast run
recipes/digits_bands.yaml`, `python examples/frequencies.py frequencies.html runs/digits_bands/*/*` adds a table of what
each band takes, and the spectra of what the checks of these runs changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from holdfast import load_run
from holdfast.corruptions import BandNoise, EnergyFilter, LowPass
from holdfast.data import DATASETS
from holdfast.frequency import bands, dct, energy_mask, low_pass_mask
from holdfast.report.gallery import magnification, magnified, png, read_galleries
from holdfast.results.band_drops import band_drops
from holdfast.rng import Streams
from holdfast.show.html import environment, to_html
from holdfast.show.numbers import interval
from holdfast.show.table import Cell, Table, across, coloured
from holdfast.show.terminal import draw

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
BANDS = 10
SOURCES = {name: source for name, source in DATASETS.items() if not isinstance(source, type)}
DECADES = 4
"""Of a logarithmic spectrum."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Frequencies</title><style>
body { font: 15px system-ui, sans-serif; margin: 2rem; color: #222 }
figure { display: inline-block; margin: 0 1rem 1rem 0; text-align: center } figcaption { font-size: 12px }
img { height: 96px; image-rendering: pixelated; border: 1px solid #ccc }
td, th { padding: 0.2rem 0.8rem; text-align: right }
</style></head><body>
<h1>Frequencies</h1>
{{ tables }}
{% for row in rows %}
<h2>{{ row.title }}</h2>
{% for caption, picture in row.pictures %}
<figure><img src="{{ picture }}" alt="{{ caption }}"><figcaption>{{ caption }}</figcaption></figure>
{% endfor %}
{% endfor %}
</body></html>
"""
Array = NDArray[np.floating]


@dataclass(frozen=True)
class Row:
    """Pictures side by side.

    Args:
        title: heading.
        pictures: caption and data URI of each.
    """

    title: str
    pictures: Sequence[tuple[str, str]]


def image_rows(x: Tensor) -> Iterator[Row]:
    """One image, (1, C, H, W), in all its changes."""
    plane, log = spectra(x.numpy()[0])
    yield Row("Image and its spectrum", [("original", png(x.numpy()[0])), ("|DCT|", plane), ("|DCT|, log scale", log)])
    size = x.shape[-2:]
    without_energy = [(EnergyFilter(share=share)(x), energy_mask(dct(x), share)[0]) for share in SHARES]
    yield from changed_rows("the smallest coefficients", x, without_energy)
    without_detail = [(LowPass(share=share)(x), low_pass_mask(*size, share)[None]) for share in SHARES]
    yield from changed_rows("the highest frequencies", x, without_detail)
    count = min(BANDS, size.numel())
    masks = [bands(*size, count) == band for band in range(count)]
    noisy = [BandNoise(band=band, bands=count, variance=0.1)(x, rng=Streams(0, "page", 1)) for band in range(count)]
    names = [f"band {band}" for band in range(count)]
    yield Row("Noise in each band, variance 0.1", [(n, png(z.numpy()[0])) for n, z in zip(names, noisy, strict=True)])
    yield Row("The bands", [(name, mask_of(mask[None])) for name, mask in zip(names, masks, strict=True)])


def changed_rows(what: str, x: Tensor, changed: Sequence[tuple[Tensor, Tensor]]) -> Iterator[Row]:
    """Images without some of their coefficients, what is gone, and the masks."""
    names, before = [f"{share:.0%} removed" for share in SHARES], x.numpy()[0]
    after = [z.numpy()[0] for z, _ in changed]
    factor = magnification(max(float(np.abs(z - before).max()) for z in after))
    differences = [png(magnified(before, z, factor)) for z in after]
    yield Row(f"Without {what}", list(zip(names, map(png, after), strict=True)))
    yield Row(f"Difference, {factor:g} times", list(zip(names, differences, strict=True)))
    yield Row("Mask: black is removed", [(n, mask_of(mask)) for n, (_, mask) in zip(names, changed, strict=True)])


def mask_of(mask: Tensor) -> str:
    """A mask, (1, H, W), as a picture."""
    return png(mask.float().numpy())


def spectra(image: Array) -> tuple[str, str]:
    """Magnitudes of the coefficients of an image, (C, H, W), averaged over channels: plain, and on a log scale."""
    size = dct(torch.as_tensor(image, dtype=torch.float64)).abs().mean(0, keepdim=True)
    size = size / size.max().clamp(min=torch.finfo(size.dtype).tiny)
    log = 1 + size.clamp(min=10.0**-DECADES).log10() / DECADES
    return png(size.numpy()), png(log.numpy())


def run_rows(path: Path) -> Iterator[Row]:
    """The first image that each check of a run kept: before, after, the change and its spectrum."""
    for gallery in read_galleries(path / "gallery"):
        if len(gallery.x) and np.any(gallery.x[0] != gallery.z[0]):
            change = magnified(gallery.x[0], gallery.z[0], gallery.factor)
            pictures = [("before", png(gallery.x[0])), ("after", png(gallery.z[0]))]
            pictures += [(f"change, {gallery.factor:g} times", png(change))]
            pictures += [("|DCT| of the change, log scale", spectra(gallery.z[0] - gallery.x[0])[1])]
            yield Row(f"{path.parent.name}/{path.name}: {gallery.check}", pictures)


def drops_table(paths: Sequence[Path]) -> Table:
    """Percentage points of accuracy that noise in each band takes from each run, with intervals."""
    columns = []
    for path in paths:
        run = load_run(path)
        drops = band_drops(run.ledger.filter(pl.col("weights") == run.weights[0]))
        columns.append(
            (f"{path.parent.name}/{path.name}", {row["band"]: cell(row) for row in drops.iter_rows(named=True)})
        )
    table = across("Accuracy that noise in each band takes, in percentage points", "Band", columns, str)
    return Table(table.caption, table.corner, table.columns, coloured(table.rows))


def cell(row: dict[str, float]) -> Cell:
    """A drop with its interval."""
    low, high = row["low"], row["high"]
    note = "" if low is None else interval(low, high)
    return Cell(f"{100 * row['drop']:z.1f}", note, value=row["drop"])


def main() -> None:
    """Read, print, draw."""
    parser = argparse.ArgumentParser(description="Filters and noise by frequency: pictures, and accuracies of runs.")
    parser.add_argument("page", type=Path, nargs="?", default=Path("frequencies.html"))
    parser.add_argument("runs", type=Path, nargs="*", help="directories of runs with checks band_noise")
    parser.add_argument("--data", choices=SOURCES, default="digits")
    parser.add_argument("--index", type=int, default=0, help="of the test image")
    options = parser.parse_args()
    test = SOURCES[options.data]().test
    if not 0 <= options.index < len(test):
        parser.error(f"--index: expected 0 to {len(test) - 1}, got {options.index}")
    x, _ = test.batch(slice(options.index, options.index + 1))
    tables = [drops_table(options.runs)] if options.runs else []
    draw(tables, Console())
    rows = [*image_rows(x.double()), *(row for path in options.runs for row in run_rows(path))]
    page = environment().from_string(PAGE).render(rows=rows, tables=to_html(tables))
    options.page.write_text(page, encoding="utf-8")
    print(f"page: {options.page}")


if __name__ == "__main__":
    main()
