"""What filters and noise by frequency do to an image: one page.

`python examples/frequencies.py frequencies.html` draws a digit without its smallest coefficients and without its
highest frequencies, with the difference and the mask of each, and with noise in each band. After `holdfast run
recipes/digits_bands.yaml`, `python examples/frequencies.py frequencies.html runs/digits_bands/*/*` adds the spectra of
what the checks of these runs changed; how much accuracy each band takes is in their report.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from holdfast.corruptions import BandNoise, EnergyFilter, LowPass
from holdfast.data import DATASETS
from holdfast.frequency import bands, dct, energy_mask, low_pass_mask
from holdfast.report.gallery import magnification, magnified, png, read_galleries
from holdfast.rng import Streams
from holdfast.show.items import Details, Heading, Item
from holdfast.show.page import Section, render_page
from holdfast.show.pictures import Photo, Photos

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
BANDS = 10
SOURCES = {name: source for name, source in DATASETS.items() if not isinstance(source, type)}
DECADES = 4
"""Of a logarithmic spectrum."""

Array = NDArray[np.floating]


def image_items(x: Tensor) -> Iterator[Item]:
    """One image, (1, C, H, W), in all its changes."""
    plane, log = spectra(x.numpy()[0])
    yield strip([("original", png(x.numpy()[0])), ("|DCT|", plane), ("|DCT|, log scale", log)])
    size = x.shape[-2:]
    without_energy = [(EnergyFilter(share=share)(x), energy_mask(dct(x), share)[0]) for share in SHARES]
    yield from changed_items("Without the smallest coefficients", x, without_energy)
    without_detail = [(LowPass(share=share)(x), low_pass_mask(*size, share)[None]) for share in SHARES]
    yield from changed_items("Without the highest frequencies", x, without_detail)
    count = min(BANDS, size.numel())
    noisy = [BandNoise(band=band, bands=count, variance=0.1)(x, rng=Streams(0, "page", 1)) for band in range(count)]
    masks = [(bands(*size, count) == band)[None] for band in range(count)]
    yield Heading("Noise of variance 0.1 in each band")
    yield strip([(f"band {band}", png(z.numpy()[0])) for band, z in enumerate(noisy)])
    yield strip([(f"band {band}", png(mask.numpy())) for band, mask in enumerate(masks)])


def changed_items(title: str, x: Tensor, changed: Sequence[tuple[Tensor, Tensor]]) -> Iterator[Item]:
    """Images without some of their coefficients, what is gone, and the masks, in which black is removed."""
    before, after = x.numpy()[0], [z.numpy()[0] for z, _ in changed]
    factor = magnification(max(float(np.abs(z - before).max()) for z in after))
    names = [f"{share:.0%} removed" for share in SHARES]
    yield Heading(title)
    yield strip(list(zip(names, map(png, after), strict=True)))
    yield strip([(f"difference, {factor:g} times", png(magnified(before, z, factor))) for z in after])
    yield strip([("mask, black is removed", png(mask.numpy())) for _, mask in changed])


def strip(pictures: Sequence[tuple[str, str]]) -> Photos:
    """Pictures side by side, each with its caption."""
    return Photos([Photo([(picture, caption)], caption) for caption, picture in pictures], "strip")


def spectra(image: Array) -> tuple[str, str]:
    """Magnitudes of the coefficients of an image, (C, H, W), averaged over channels: plain, and on a log scale."""
    size = dct(torch.as_tensor(image, dtype=torch.float64)).abs().mean(0, keepdim=True)
    size = size / size.max().clamp(min=torch.finfo(size.dtype).tiny)
    log = 1 + size.clamp(min=10.0**-DECADES).log10() / DECADES
    return png(size.numpy()), png(log.numpy())


def run_items(path: Path) -> Iterator[Item]:
    """The first image that each check of a run kept: before, after, the change and its spectrum."""
    for gallery in read_galleries(path / "gallery"):
        if len(gallery.x) and np.any(gallery.x[0] != gallery.z[0]):
            before, after = gallery.x[0], gallery.z[0]
            change = png(magnified(before, after, gallery.factor))
            pictures = [("before", png(before)), ("after", png(after)), (f"change, {gallery.factor:g} times", change)]
            pictures += [("|DCT| of the change, log scale", spectra(after - before)[1])]
            yield Details(gallery.check, [strip(pictures)])


def sections(x: Tensor, runs: dict[str, Path]) -> Iterator[Section]:
    """All that the page shows."""
    yield Section.of("image", "An image and its frequencies", image_items(x))
    for number, (name, path) in enumerate(runs.items()):
        yield Section.of(f"run-{number}", f"What the checks of {name} changed", run_items(path))


def main() -> None:
    """Read, print, draw."""
    parser = argparse.ArgumentParser(description="Filters and noise by frequency, in pictures.")
    parser.add_argument("page", type=Path, nargs="?", default=Path("frequencies.html"))
    parser.add_argument("runs", type=Path, nargs="*", help="directories of runs with galleries")
    parser.add_argument("--data", choices=SOURCES, default="digits")
    parser.add_argument("--index", type=int, default=0, help="of the test image")
    options = parser.parse_args()
    test = SOURCES[options.data]().test
    if not 0 <= options.index < len(test):
        parser.error(f"--index: expected 0 to {len(test) - 1}, got {options.index}")
    x, _ = test.batch(slice(options.index, options.index + 1))
    runs = {f"{path.parent.name}/{path.name}": path for path in options.runs}
    page = render_page("Frequencies", sections(x.double(), runs), kicker="holdfast example")
    options.page.write_text(page, encoding="utf-8")
    print(f"page: {options.page}")


if __name__ == "__main__":
    main()
