"""Images before and after a check, as PNG inside the page."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.arrays import read_archive
from holdfast.errors import LedgerError
from holdfast.files.checked import read_checked
from holdfast.report.waveform import is_waveform, picture_of_waveform

SIDE = 96  # pixels on the page that a small image is magnified to, at most
LIMIT = 12  # examples shown of one gallery
NICE = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
TEXTS = ("check", "weights", "norm")
NUMBERS = ("example", "label", "before", "after")
FIELDS = (*TEXTS, "x", "z", *NUMBERS, "distance")


@dataclass(frozen=True)
class Gallery:
    """Examples of one check.

    Args:
        check: name of the check.
        weights: the weights that were checked.
        norm: norm of the distances.
        x: clean images, (n, C, H, W) in [0, 1].
        z: changed images.
        example: index in the test split, (n,).
        label: true class.
        before: prediction on `x`.
        after: prediction on `z`.
        distance: from `x` to `z`.
    """

    check: str
    weights: str
    norm: str
    x: NDArray[np.float32]
    z: NDArray[np.float32]
    example: NDArray[np.int64]
    label: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    distance: NDArray[np.float64]

    @property
    def factor(self) -> float:
        """By how much the page magnifies the change: the largest round number that stays within grey ± a half."""
        return magnification(float(np.abs(self.z - self.x).max(initial=0.0)))


def read_galleries(path: Path) -> tuple[Gallery, ...]:
    """All galleries of a run in order of file name; none when the directory is missing."""
    return tuple(_read(file) for file in sorted(path.glob("*.npz")))


def magnification(largest: float) -> float:
    """The largest round factor by which a change of this size stays within grey ± a half."""
    return max((f for f in NICE if f * largest <= 0.5 + 1e-6), default=NICE[0]) if largest else 1.0


def picture_of(image: NDArray[np.floating]) -> Image.Image:
    """A (C, H, W) image in eight bits: one channel is grey, three are colours, else they are averaged.

    Sound, which has one row, is drawn as a curve. Values outside [0, 1], which noise without clipping has, look like 0
    and 1.
    """
    if is_waveform(image):
        return picture_of_waveform(image[0, 0])
    shown = image if len(image) in (1, 3) else image.mean(axis=0, keepdims=True)
    pixels = np.rint(shown.clip(0, 1) * 255).astype(np.uint8)
    return Image.fromarray(pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))


def png(image: NDArray[np.floating]) -> str:
    """A (C, H, W) image in [0, 1] as a PNG data URI, magnified by a whole number to about `SIDE` pixels."""
    picture = picture_of(image)
    scale = max(1, SIDE // max(picture.size))
    buffer = io.BytesIO()
    picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST).save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def change(gallery: Gallery, index: int) -> NDArray[np.floating]:
    """The magnified change of one example: middle grey where nothing changed."""
    return magnified(gallery.x[index], gallery.z[index], gallery.factor)


def magnified(x: NDArray[np.floating], z: NDArray[np.floating], factor: float) -> NDArray[np.floating]:
    """The change from `x` to `z` around middle grey."""
    shown: NDArray[np.floating] = np.clip(0.5 + factor * (z - x), 0, 1)
    return shown


def _read(path: Path) -> Gallery:
    fields: dict[str, Any] = read_archive(read_checked(path), str(path), FIELDS.__contains__, error=LedgerError)
    if missing := [name for name in FIELDS if name not in fields]:
        raise LedgerError(f"{path}: expected a gallery with {', '.join(FIELDS)}, without {', '.join(missing)}")
    _verify(path, fields)
    for name in TEXTS:
        fields[name] = str(fields[name])
    return Gallery(**fields)


def _verify(path: Path, fields: dict[str, Any]) -> None:
    x, z = fields["x"], fields["z"]
    if x.dtype.kind != "f" or z.dtype.kind != "f":
        raise LedgerError(f"{path}: expected x and z as floats, got {x.dtype} and {z.dtype}")
    if x.ndim != 4 or x.shape != z.shape or not all(x.shape[1:]):
        raise LedgerError(f"{path}: expected x and z of one shape (n, C, H, W), got {x.shape} and {z.shape}")
    for name in TEXTS:
        if fields[name].ndim or fields[name].dtype.kind != "U":
            raise LedgerError(f"{path}: expected one text as {name}, got {fields[name].dtype} {fields[name].shape}")
    for name, kinds in (*((name, "iu") for name in NUMBERS), ("distance", "f")):
        if fields[name].shape != x.shape[:1] or fields[name].dtype.kind not in kinds:
            raise LedgerError(
                f"{path}: expected {len(x)} numbers as {name}, got {fields[name].dtype} {fields[name].shape}"
            )
    if not np.all((x >= 0) & (x <= 1)):
        raise LedgerError(f"{path}: expected x in [0, 1], got values outside")
    if not np.all(np.isfinite(z)):
        raise LedgerError(f"{path}: expected finite values of z, got others")
