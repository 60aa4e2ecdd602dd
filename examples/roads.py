"""Synthetic pictures of dry, wet and icy roads as PNG files: stand-ins for a folder of photographs.

`python examples/roads.py roads --scale 0.1` writes roads/dry/*.png, roads/wet/*.png and roads/icy/*.png, 400 pixels
high and 500 wide, a tenth of 460, 460 and 977 pictures: as unbalanced as the data of the paper on discriminative
features. Then `holdfast run examples/roads.yaml` trains on them. For photographs, make one directory for each class.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

HEIGHT, WIDTH = 400, 500
COUNTS = {"dry": 460, "wet": 460, "icy": 977}
Array = NDArray[np.float64]


def picture(kind: str, random: np.random.Generator) -> Image.Image:
    """One road: a sky, a verge on both sides, and the road with its markings in the given weather."""
    y, x = np.mgrid[0 : 1 : HEIGHT * 1j, 0 : 1 : WIDTH * 1j]
    horizon, light = random.uniform(0.3, 0.45), random.uniform(0.65, 1.0)
    depth = np.clip((y - horizon) / (1 - horizon), 1e-3, 1)  # 0 at the horizon, 1 in front
    middle = 0.5 + random.uniform(-0.1, 0.1) + random.uniform(-0.25, 0.25) * (1 - depth) ** 2  # it bends
    across = (x - middle) / (random.uniform(0.4, 0.6) * (0.06 + depth))  # -1 and 1 are its edges
    road, below = (np.abs(across) < 1) & (y > horizon), y > horizon
    sky = np.array([0.55, 0.68, 0.85]) * (1 - 0.3 * y[..., None]) + random.uniform(0, 0.15)
    scene = np.where(below[..., None], verge(kind, random), sky)
    scene = np.where(road[..., None], surface(kind, depth, across, sky, random), scene)
    lines = (np.abs(np.abs(across) - 0.93) < 0.02) | ((np.abs(across) < 0.02) & (np.sin(25 / (0.1 + depth)) > 0))
    scene = np.where((road & lines)[..., None], 0.6 * scene + 0.35 * (kind != "icy") + 0.1, scene)
    grain = random.normal(0, 0.025, scene.shape)
    pixels = np.clip(255 * (light * scene + grain), 0, 255).astype(np.uint8)
    return Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(random.uniform(0.3, 1.2)))


def verge(kind: str, random: np.random.Generator) -> Array:
    """Grass, or snow where the road is icy and sometimes where it is not."""
    green = np.array([0.32, 0.42, 0.2]) + random.uniform(-0.05, 0.05, 3)
    snowy = random.uniform() < (0.85 if kind == "icy" else 0.1)
    patches = clouds(random, 12)[..., None]
    return np.where(patches > 0.45, 0.85, green) if snowy else green * (0.8 + 0.4 * patches)


def surface(kind: str, depth: Array, across: Array, sky: Array, random: np.random.Generator) -> Array:
    """Asphalt: dry; wet, darker and mirroring the sky; or icy, with white patches and wheel tracks."""
    asphalt = random.uniform(0.3, 0.45) * (0.9 + 0.2 * clouds(random, 40)[..., None]) * np.array([1.0, 0.98, 0.95])
    if kind == "dry":
        return asphalt
    if kind == "wet":
        shine = np.clip(1.3 * clouds(random, 6) - 0.35, 0, 1)[..., None] * random.uniform(0.5, 0.9)
        return (1 - shine) * 0.65 * asphalt + shine * 0.9 * sky
    cover = clouds(random, 14) + 0.25 * (np.abs(np.abs(across) - 0.5) > 0.15) - 0.15 * depth
    white = np.array([0.86, 0.9, 0.95])
    return np.where(cover[..., None] > random.uniform(0.35, 0.6), white * random.uniform(0.85, 1.0), asphalt)


def clouds(random: np.random.Generator, cells: int) -> Array:
    """Smooth random patches in [0, 1]: a small random picture made large."""
    small = Image.fromarray((255 * random.random((cells, cells))).astype(np.uint8))
    return np.asarray(small.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC), dtype=np.float64) / 255


def main() -> None:
    """Write the pictures; existing ones are overwritten with the same content."""
    parser = argparse.ArgumentParser(description="Write pictures of roads, dry, wet and icy.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--scale", type=float, default=0.1, help="share of 460, 460 and 977 pictures")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for number, (kind, count) in enumerate(COUNTS.items()):
        (options.directory / kind).mkdir(parents=True, exist_ok=True)
        for index in range(max(2, round(options.scale * count))):
            image = picture(kind, np.random.default_rng([options.seed, number, index]))
            image.save(options.directory / kind / f"{index:04d}.png")
    print({kind: len(list((options.directory / kind).glob("*.png"))) for kind in COUNTS})


if __name__ == "__main__":
    main()
