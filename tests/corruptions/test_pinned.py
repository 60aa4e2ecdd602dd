"""Corruptions stay what they are: numbers of two runs can be compared only while the images are the same.

`pinned.json` has two weighted means of the images that each kind makes of a smooth picture with an edge. They were
taken when every kind had been compared with its reference (docs/corruptions.md), so a difference is a change of
results. Change them on purpose only: `python -m tests.corruptions.test_pinned` writes them anew. JPEG is left out: it
belongs to Pillow.
"""

import json
from pathlib import Path

import pytest
import torch

from holdfast.corruptions import Bar, Chain, Common, DownUp, GaussianNoise, Linear, Occlusion, Stripes, UniformNoise
from holdfast.corruptions.bar import KINDS
from holdfast.corruptions.common import EXTRA, STANDARD
from holdfast.rng import Streams

FILE = Path(__file__).with_name("pinned.json")

CHECKS = {
    **{f"common {kind} {s}": Common(kind, s) for kind in STANDARD + EXTRA if "jpeg" not in kind for s in (1, 3, 4, 5)},
    **{f"bar {kind} {severity}": Bar(kind, severity) for kind in KINDS for severity in (1, 5)},
    "gaussian noise": GaussianNoise(0.1),
    "uniform noise": UniformNoise(0.1),
    "linear": Linear(0.4),
    "occlusion": Occlusion(size=3),
    "stripes": Stripes(thickness=1),
    "down up": DownUp(),
    "chain": Chain(of=(GaussianNoise(0.1), Occlusion(count=2, size=4))),
}
SHAPES = {"colour": (3, 3, 34, 40), "grey": (3, 1, 36, 33), "large": (1, 3, 70, 64)}


def waves(shape, start):
    """A wave over examples, channels, rows and columns, from -1 to 1; no two axes alike."""
    n, c, h, w = (torch.arange(size, dtype=torch.float64) for size in shape)
    return torch.cos(start + n[:, None, None, None] + 2.3 * c[:, None, None] + 0.31 * h[:, None] + 0.17 * w)


def picture(shape):
    x = 0.45 + 0.35 * waves(shape, 0.7) + 0.1 * waves(shape, 5.0).square()
    x[..., : shape[2] // 2, shape[3] // 3 :] *= 0.4
    return x.clamp(0, 1)


def measured(check, shape):
    """Two numbers that almost any change of the images moves."""
    z = check(picture(shape), rng=Streams(11, "pinned", shape[0]))
    return [float((z * (1 + waves(shape, start) * waves(shape, 3 * start))).mean()) for start in (0.0, 2.0)]


def names():
    return [f"{check}, {size}" for check in CHECKS for size in SHAPES if size != "large" or check.startswith("common")]


@pytest.mark.parametrize("name", names())
def test_images_are_those_of_earlier_versions(name):
    check, size = name.split(", ")
    expected = json.loads(FILE.read_text(encoding="utf-8"))[name]
    assert measured(CHECKS[check], SHAPES[size]) == pytest.approx(expected, abs=1e-6)


def test_every_pinned_number_has_its_check():
    assert set(json.loads(FILE.read_text(encoding="utf-8"))) == set(names())


if __name__ == "__main__":
    rows = {name: measured(CHECKS[name.split(", ")[0]], SHAPES[name.split(", ")[1]]) for name in names()}
    lines = ",\n".join(f'  "{name}": [{first:.9f}, {second:.9f}]' for name, (first, second) in rows.items())
    FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
