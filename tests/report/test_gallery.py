from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from holdfast.errors import LedgerError
from holdfast.report import write_report
from holdfast.report.gallery import Gallery, change, png, read_galleries
from tests.report.factory import FakeCheck, make_run
from tests.report.reading import read


def gallery(x: np.ndarray, z: np.ndarray) -> Gallery:
    index = np.zeros(len(x), dtype=np.int64)
    return Gallery("pgd", "best", "linf", x, z, index, index, index, index, np.zeros(len(x)))


def decoded(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))))


def test_small_images_are_magnified_by_a_whole_number() -> None:
    pixels = decoded(png(np.array([[[0.0, 1.0], [0.5, 0.25]]], dtype=np.float32)))
    assert pixels.shape == (96, 96)
    assert pixels[::48, ::48].tolist() == [[0, 255], [128, 64]]
    assert (pixels[:48, 48:] == 255).all()


@pytest.mark.parametrize(("channels", "shape"), [(1, (90, 90)), (3, (90, 90, 3)), (4, (90, 90))])
def test_channels_become_grey_or_colour(channels: int, shape: tuple[int, ...]) -> None:
    assert decoded(png(np.full((channels, 30, 30), 0.5))).shape == shape


def test_large_images_keep_their_size() -> None:
    assert decoded(png(np.zeros((3, 224, 160)))).shape == (224, 160, 3)


@pytest.mark.parametrize(("step", "factor"), [(0.1, 5), (8 / 255, 10), (1.0, 0.5), (0.0, 1)])
def test_factor_is_the_largest_that_does_not_clip(step: float, factor: float) -> None:
    x = np.zeros((2, 1, 4, 4), dtype=np.float32)
    shown = gallery(x, x + np.float32(step))
    assert shown.factor == factor
    assert change(shown, 0) == pytest.approx(np.full((1, 4, 4), 0.5 + factor * step), abs=1e-6)


def test_page_tells_label_predictions_distance_and_factor(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [FakeCheck("clean", correct=[True, False])], gallery="pgd")
    page = read(write_report([run], tmp_path / "report.html"))
    assert "the change magnified × 5 around middle grey" in page.words
    assert "dog : dog → cat fooled example 1, distance 0.100 in linf" in page.words.replace("dog:", "dog :")
    assert "cat → cat held" in page.words
    assert sum(tag == "img" for tag, _ in page.elements) == 18 + 1  # the spectrum of the changes


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("z", np.zeros((6, 1, 8, 9)), "one shape"),
        ("x", np.full((6, 1, 8, 8), np.nan), r"x in \[0, 1\]"),
        ("label", np.zeros(5, dtype=np.int64), "6 numbers as label"),
        ("norm", np.array(["l2", "l2"]), "one text as norm"),
        ("check", np.array({}, dtype=object), "check: expected an array; got pickled objects"),
    ],
)
def test_a_gallery_that_is_none_is_named(tmp_path: Path, field: str, value: np.ndarray, reason: str) -> None:
    path = make_run(tmp_path / "run", [FakeCheck("clean", correct=[True])], gallery="pgd") / "gallery"
    with np.load(path / "0.npz") as file:
        fields = dict(file)
    np.savez(path / "0.npz", **(fields | {field: value}))
    with pytest.raises(LedgerError, match=reason):
        read_galleries(path)
