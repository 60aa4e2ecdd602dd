"""A directory of image files, one directory per class."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from holdfast.budget import require_budget
from holdfast.data.class_folders import ClassFolders, Cut, files_below
from holdfast.data.dataset import Dataset, split_validation
from holdfast.data.roots import existing
from holdfast.errors import DataError, unknown
from holdfast.files.regular import read_regular

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""Suffixes of images; files with other suffixes are skipped."""

FORMATS = ("BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Formats that Pillow may read."""

PER_PIXEL = 16
"""Largest number of bytes per pixel in memory: decoded, converted, and as an array."""

COPIES = 2
"""Copies of all images in memory while they are checked."""

MOST_STRETCHED = 100
"""How many times longer one side of an image may be than the other."""

RESIZE = ("crop", "stretch")


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Image files in one directory per class, which gives the class its name; labels follow the sorted names.

    Either `path/train/CLASS/...` and `path/test/CLASS/...` (or val, valid, validation), or `path/CLASS/...`. Pixels are
    taken as stored: orientation marks are not applied, transparency is dropped, more than 8 bits is an error.

    Args:
        path: the directory, in the current directory or in the data root.
        size: height and width to which images are resized; None keeps them, and all must have the same size.
        resize: `crop` scales the shorter side to `size` and cuts out the centre, `stretch` scales both sides.
        grey: one channel instead of three.
        holdout: without `train/`, the share of each class to test on; None makes all images the test split.
        seed: which images are held out.
    """

    path: str
    size: int | None = None
    resize: str = "crop"
    grey: bool = False
    holdout: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.resize not in RESIZE:
            raise DataError(f"folder.resize: {unknown(self.resize, RESIZE)}")
        if self.size is not None and self.size < 1:
            raise DataError(f"folder.size: expected at least 1, got {self.size}")

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read all images into memory."""
        return ClassFolders(existing(self.path, root), SUFFIXES, "image", self._stack).read(self._cut)

    @property
    def _cut(self) -> Cut | None:
        share = self.holdout
        return None if share is None else lambda whole, _: split_validation(whole, share, self.seed)

    def _stack(self, paths: Sequence[Path]) -> NDArray[np.uint8]:
        """Pixels (N, C, H, W) of files that give equal sizes."""
        first = self._read(paths[0])
        require_budget(COPIES * len(paths) * first.size, f"{paths[0].parent.parent}: {len(paths)} images")
        stack = np.empty((len(paths), *first.shape), np.uint8)
        for i, file in enumerate(paths):
            pixels = self._read(file)
            if pixels.shape != first.shape:
                (height, width), (h, w) = first.shape[:2], pixels.shape[:2]
                raise DataError(f"{file}: expected {width}x{height} as {paths[0]}, got {w}x{h}; give a size to resize")
            stack[i] = pixels
        return stack.transpose(0, 3, 1, 2)

    def _read(self, file: Path) -> NDArray[np.uint8]:
        """Pixels (H, W, C)."""
        plain = read_picture(file, "L" if self.grey else "RGB")
        if self.size is not None:
            plain = crop(plain, self.size) if self.resize == "crop" else _scale(plain, self.size, self.size)
        return np.asarray(plain, np.uint8).reshape(plain.height, plain.width, -1)


def read_picture(file: Path, mode: str) -> Image.Image:
    """An image file in a mode of Pillow, `L` or `RGB`.

    Only the formats of `FORMATS` are tried, whatever the name says: others start programs or run scripts of their own.

    Raises:
        DataError: if it is none of these, is damaged, has more than 8 bits, or is too large.
    """
    content = io.BytesIO(read_regular(file, error=DataError, follow=True))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the budget decides
            with Image.open(content, formats=FORMATS) as image:
                pixels = image.width * image.height
                require_budget(PER_PIXEL * pixels, f"{file}: {image.width} x {image.height} pixels")
                if image.mode[0] in "IF":
                    raise DataError(f"{file}: expected at most 8 bits per channel, got mode {image.mode}")
                if max(image.size) > MOST_STRETCHED * min(image.size):
                    raise DataError(f"{file}: expected sides at most 1 : {MOST_STRETCHED}, got {image.size}")
                return image.convert(mode)
    except DataError:
        raise
    except Exception as error:  # Pillow's decoders raise anything on damaged files
        raise DataError(f"{file}: expected an image, cannot be read: {_words(error)}") from error


def _words(error: Exception) -> str:
    """The message of an error without the address of an object."""
    return re.sub(r" <_io\.\w+ object at 0x[0-9a-f]+>", "", str(error)) or type(error).__name__


def crop(image: Image.Image, size: int) -> Image.Image:
    """Scale the shorter side to `size` and cut out the centre."""
    shorter = min(image.size)
    scaled = _scale(image, *(max(size, round(side * size / shorter)) for side in image.size))
    left, top = (scaled.width - size) // 2, (scaled.height - size) // 2
    return scaled.crop((left, top, left + size, top + size))


def pictures_below(path: Path, within: Path) -> list[Path]:
    """Image files below a directory; see `files_below`."""
    return files_below(path, within, SUFFIXES, "image")


def _scale(image: Image.Image, width: int, height: int) -> Image.Image:
    return image.resize((width, height), Image.Resampling.BILINEAR)
