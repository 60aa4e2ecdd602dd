"""Pictures of waveforms."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.report.gallery import picture_of
from holdfast.report.waveform import HEIGHT, INK, MIDDLE, WIDTH, envelope, is_waveform


def ink(samples: np.ndarray) -> np.ndarray:
    """Which pixels the waveform covers."""
    picture = picture_of(samples[None, None])
    assert picture.size == (WIDTH, HEIGHT)
    return np.asarray(picture) == INK


@pytest.mark.parametrize("length", [3, 192, 1000, 8000])
def test_one_is_the_top_and_zero_the_bottom(length: int) -> None:
    for level, row in ((1.0, 0), (0.0, HEIGHT - 1), (2.0, 0), (-1.0, HEIGHT - 1)):
        covered = ink(np.full(length, level))
        assert covered[row].all()
        assert covered.sum() == WIDTH


@pytest.mark.parametrize("rises", [True, False])
def test_a_jump_is_a_line_without_a_gap(rises: bool) -> None:
    samples = np.full(WIDTH, float(not rises))
    samples[100:] = float(rises)
    covered = ink(samples)
    assert covered[:, 100].all()
    assert covered.sum() == HEIGHT + WIDTH - 1


def test_a_short_click_is_seen_however_long_the_sound() -> None:
    samples = np.full(80_000, 0.5)
    samples[40_000] = 1
    covered = ink(samples)
    assert np.flatnonzero(covered[0]).tolist() == [WIDTH // 2, WIDTH // 2 + 1][: int(covered[0].sum())]


def test_the_envelope_of_each_column_holds_its_samples() -> None:
    samples = np.random.default_rng(0).random(1000)
    low, high = envelope(samples, 10)
    for column, part in enumerate(samples.reshape(10, 100)):
        assert low[column] <= part.min()
        assert high[column] >= part.max()


def test_silence_has_a_line_and_images_stay_images() -> None:
    assert (np.asarray(picture_of(np.zeros((1, 1, 10))))[HEIGHT // 2] == MIDDLE).all()
    assert not is_waveform(np.zeros((1, 2, 10)))
    assert picture_of(np.zeros((3, 1, 10))).size == (10, 1)
