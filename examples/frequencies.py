"""What filters and noise by frequency do to an image: one page.

`python examples/frequencies.py frequencies.html` draws a digit without its smallest coefficients and without its
highest frequencies, with the difference and the mask of each, and with noise in each band; `--data cifar10 --index 7`
draws another image. What attacks change, and the spectrum of that, is in the report of a run with these checks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from holdfast.corruptions import BandNoise, EnergyFilter, LowPass
from holdfast.data import DATASETS
from holdfast.frequency import bands, dct, energy_mask, low_pass_mask
from holdfast.report.gallery import magnification, magnified, png
from holdfast.report.spectra import picture
from holdfast.rng import Streams
from holdfast.show.items import Heading, Item
from holdfast.show.page import Section, render_page
from holdfast.show.pictures import Photo, Photos

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
BANDS = 10
SOURCES = {name: source for name, source in DATASETS.items() if not isinstance(source, type)}
DECADES = 4
"""Of a logarithmic spectrum."""


def image_items(x: Tensor) -> Iterator[Item]:
    """One image, (1, C, H, W), in all its changes."""
    size, magnitude = x.shape[-2:], dct(x)[0].abs().mean(0).numpy()
    plane = png(magnitude[None] / (magnitude.max() or 1.0))
    yield strip([("original", png(x.numpy()[0])), ("|DCT|", plane), ("|DCT|, log scale", picture(magnitude, DECADES))])
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
    """Images without some of their coefficients, what is gone, and the masks, which are 1 (white) where one stays."""
    before, after = x.numpy()[0], [z.numpy()[0] for z, _ in changed]
    factor = magnification(max(float(np.abs(z - before).max()) for z in after))
    names = [f"{share:.0%} removed" for share in SHARES]
    yield Heading(title)
    yield strip(list(zip(names, map(png, after), strict=True)))
    yield strip([(f"difference, {factor:g} times", png(magnified(before, z, factor))) for z in after])
    yield strip([("mask, 1 stays", png(mask.numpy())) for _, mask in changed])


def strip(pictures: Sequence[tuple[str, str]]) -> Photos:
    """Pictures side by side, each with its caption."""
    return Photos([Photo([(picture, caption)], caption) for caption, picture in pictures], "strip")


def main() -> None:
    """Read, print, draw."""
    parser = argparse.ArgumentParser(description="Filters and noise by frequency, in pictures.")
    parser.add_argument("page", type=Path, nargs="?", default=Path("frequencies.html"))
    parser.add_argument("--data", choices=SOURCES, default="digits")
    parser.add_argument("--index", type=int, default=0, help="of the test image")
    options = parser.parse_args()
    test = SOURCES[options.data]().test
    if not 0 <= options.index < len(test):
        parser.error(f"--index: expected 0 to {len(test) - 1}, got {options.index}")
    x, _ = test.batch(slice(options.index, options.index + 1))
    section = Section.of("image", f"An input of {options.data} and its frequencies", image_items(x.double()))
    page = render_page("Frequencies", [section], kicker="holdfast example")
    options.page.write_text(page, encoding="utf-8")
    print(f"page: {options.page}")


if __name__ == "__main__":
    main()
