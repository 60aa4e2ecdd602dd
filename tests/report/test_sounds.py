"""Examples to listen to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holdfast.errors import LedgerError
from holdfast.report.gallery import Gallery
from holdfast.report.sounds import write_sounds
from holdfast.wav import read_wav


def gallery(x: np.ndarray, z: np.ndarray, check: str = "pgd") -> Gallery:
    index = np.arange(len(x)) + 7
    return Gallery(check, "best", "linf", x, z, index, index, index, index, np.zeros(len(x)))


def test_each_example_is_written_before_after_and_as_a_difference(tmp_path: Path) -> None:
    x = np.array([0.0, 0.25, 0.5, 0.75], np.float32).reshape(1, 1, 1, 4)
    z = x + np.array([0.0, 0.01, -0.01, 0.0], np.float32).reshape(1, 1, 1, 4)
    written = write_sounds([gallery(x, z)], tmp_path / "out", 8000)
    assert [path.name for path in written] == [
        "pgd-best-000007-original.wav", "pgd-best-000007-changed.wav", "pgd-best-000007-difference-x50.wav",
    ]  # fmt: skip
    sounds = [read_wav(path.read_bytes(), path.name) for path in written]
    assert {sound.rate for sound in sounds} == {8000}
    assert sounds[0].samples.tolist() == [-1, -0.5, 0, 0.5]
    assert sounds[1].samples == pytest.approx(2 * z.ravel() - 1, abs=2**-15)
    assert sounds[2].samples == pytest.approx([0, 1, -1, 0], abs=1e-4)


def test_names_of_checks_are_no_paths(tmp_path: Path) -> None:
    x = np.full((1, 1, 1, 4), 0.5, np.float32)
    written = write_sounds([gallery(x, x, "../a"), gallery(x, x, "a/b")], tmp_path / "out", 8000)
    assert len(set(written)) == 6
    assert {path.parent for path in written} == {tmp_path / "out"}


def test_images_are_refused(tmp_path: Path) -> None:
    x = np.zeros((1, 3, 4, 4), np.float32)
    with pytest.raises(LedgerError, match=r"^pgd: expected sounds of shape \(1, 1, L\), got images of shape"):
        write_sounds([gallery(x, x)], tmp_path, 8000)
