"""Waveforms in archives, their place in [0, 1], and who speaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.corruptions import GaussianNoise
from holdfast.data import Split, Waveforms, resolve
from holdfast.data.waveforms import in_unit_interval, of_length
from holdfast.errors import DataError
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf


def arrays(**changes: Any) -> dict[str, Any]:
    """A good archive's arrays, some of them changed or, by None, left out."""
    rng = np.random.default_rng(0)
    good = {
        "x_train": rng.integers(-(2**15), 2**15, (4, 6), np.int16),
        "y_train": np.array([0, 1, 1, 0], np.uint8),
        "speaker_train": np.array([0, 0, 1, 1], np.uint8),
        "x_test": np.array([[-(2**15), -(2**14), 0, 2**14, 2**15 - 1, 0]], np.int16),
        "y_test": np.array([1], np.uint8),
        "speaker_test": np.array([2], np.uint8),
        "speakers": np.array(["ann", "bob", "eve"]),
        "rate": np.array(8000),
    }
    return {key: value for key, value in (good | changes).items() if value is not None}


def read(place: Path, content: dict[str, Any], **fields: Any) -> Any:
    np.savez(place / "a.npz", **content)
    return Waveforms(path="a.npz", **fields)(place)


def test_16_bits_become_inputs_in_the_unit_interval_exactly(tmp_path: Path) -> None:
    content = arrays()
    data = read(tmp_path, content)
    assert (data.name, data.shape, data.classes) == ("a", (1, 1, 6), ("0", "1"))
    assert data.test.x.flatten().tolist() == [0, 0.25, 0.5, 0.75, 1 - 2**-16, 0.5]
    assert np.array_equal(data.train.x[:, 0, 0].numpy() * 2.0**16 - 2**15, content["x_train"])
    assert data.train.x.dtype == torch.float32


def test_a_length_ends_waveforms_early_or_continues_them_in_silence(tmp_path: Path) -> None:
    x = arrays()["x_test"]
    assert read(tmp_path, arrays(), length=2).test.x.flatten().tolist() == [0, 0.25]
    assert read(tmp_path, arrays(), length=8).test.x.flatten().tolist()[5:] == [0.5] * 3
    assert of_length(x, 6).tolist() == x.tolist()


@pytest.mark.parametrize(("threat", "eps"), [(Linf, 0.02), (L2, 0.3), (L1, 2.0)])
def test_budgets_for_waveforms_between_minus_one_and_one_halve(threat: Any, eps: float) -> None:
    w = torch.linspace(-0.8, 0.8, 50, dtype=torch.float64)[None]
    change = threat(eps).sample(torch.zeros_like(w) + 0.5, rng=Streams(0, "w", 1)) - 0.5
    z, x = in_unit_interval(w + change), in_unit_interval(w)  # type: ignore[arg-type, operator]
    of_waveforms, of_inputs = threat(eps).distance(change, 0 * change), threat(eps).distance(z, x)
    torch.testing.assert_close(of_inputs, of_waveforms / 2)


def test_variances_of_noise_quarter() -> None:
    w = torch.zeros(1, 1, 1, 4000, dtype=torch.float64)
    noisy = GaussianNoise(0.1, clip=False)(in_unit_interval(w), rng=Streams(0, "n", 1))  # type: ignore[arg-type]
    of_waveforms = 2 * noisy - 1 - w
    torch.testing.assert_close(of_waveforms.var(), 4 * noisy.var())
    assert float(of_waveforms.var()) == pytest.approx(4 * 0.1**2, rel=0.1)


def test_some_speakers_test_and_all_others_train(tmp_path: Path) -> None:
    content = arrays()
    data = read(tmp_path, content, test_speakers=("bob",))
    x = np.concatenate([content["x_train"], content["x_test"]])
    for split, rows in ((data.train, [0, 1, 4]), (data.test, [2, 3])):
        assert split.index.tolist() == rows
        assert np.array_equal(split.x[:, 0, 0].numpy() * 2.0**16 - 2**15, x[rows])
    unnamed = read(tmp_path, arrays(speakers=None), test_speakers=("1",))
    assert unnamed.fingerprint() == data.fingerprint()


@pytest.mark.parametrize(
    ("changes", "fields", "expected"),
    [
        ({"x_test": np.zeros((1, 6), np.uint8)}, {}, r"x_test: expected int16 waveforms \(N, L\), got uint8 \(1, 6\)"),
        ({"x_test": np.zeros((1, 1, 6), np.int16)}, {}, r"got int16 \(1, 1, 6\)"),
        ({"x_test": np.zeros((1, 0), np.int16)}, {}, "expected at least one image"),
        ({"y_test": None}, {}, "expected an array y_test"),
        ({"y_train": np.zeros(4, int)}, {}, "none of class 1"),
        ({}, {"rate": 16000}, "expected 16000 samples per second, got 8000; resample it"),
        ({"rate": None}, {"rate": 8000}, "expected 8000 samples per second, got none"),
        ({}, {"test_speakers": ("evee",)}, "test_speakers: unknown name 'evee'.*Did you mean 'eve'"),
        ({}, {"test_speakers": ("ann", "bob")}, "without ann, bob: expected examples of every class, got none of"),
        ({"speaker_test": None}, {"test_speakers": ("ann",)}, "needs 1 whole numbers in speaker_test, got none"),
        ({"speaker_test": np.array([3])}, {"test_speakers": ("ann",)}, r"expected numbers in 0\.\.2, got 3"),
        ({"speakers": np.zeros(3)}, {"test_speakers": ("ann",)}, "speakers: expected a list of text"),
        ({"x_test": np.zeros((1, 5), np.int16)}, {"test_speakers": ("ann",)}, "waveforms of one length"),
    ],
)
def test_faults_are_one_line(tmp_path: Path, changes: Any, fields: Any, expected: str) -> None:
    with pytest.raises(DataError, match=expected) as caught:
        read(tmp_path, arrays(**changes), **fields)
    assert "a.npz" in str(caught.value)


def test_a_length_beyond_the_budget_is_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of memory"):
        read(tmp_path, arrays(), length=10**13)
    with pytest.raises(DataError, match=r"waveforms\.length: expected at least 1, got 0"):
        Waveforms(path="a.npz", length=0)


def test_the_spoken_digits_when_they_are_here() -> None:
    try:
        data = resolve("spoken_digits")()
    except DataError as error:
        pytest.skip(str(error))
    assert isinstance(data.train, Split)
    assert (len(data.train), len(data.test), data.shape) == (2700, 300, (1, 1, 8000))
