"""Directories of WAV files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from holdfast.data import WavFolder
from holdfast.errors import DataError
from holdfast.wav import Wav, write_wav


def save(path: Path, seed: int = 0, length: int = 6, rate: int = 8000) -> np.ndarray:
    """Write a random recording of 16 bits and return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.random.default_rng(seed).integers(-(2**15), 2**15, length) / 2**15
    write_wav(path, Wav(samples, rate))
    return samples


def test_train_and_test_directories(tmp_path: Path) -> None:
    no, yes = save(tmp_path / "train/no/a_0.wav", 1), save(tmp_path / "train/yes/b_0.WAV", 2)
    other = save(tmp_path / "test/yes/b_1.wav", 3)
    (tmp_path / "train/no/notes.txt").write_text("no sound")
    data = WavFolder(path=str(tmp_path))()
    assert data.train is not None
    assert (data.classes, data.shape) == (("no", "yes"), (1, 1, 6))
    assert np.array_equal(2.0 * data.train.x[:, 0, 0].numpy() - 1, [no, yes])
    assert np.array_equal(2.0 * data.test.x[:, 0, 0].numpy() - 1, [other])
    assert data.test.y.tolist() == [1]
    with pytest.raises(DataError, match="expected no holdout"):
        WavFolder(path=str(tmp_path), holdout=0.5)()


def test_lengths_differ_only_where_one_is_given(tmp_path: Path) -> None:
    save(tmp_path / "a/1.wav", length=4)
    long = save(tmp_path / "b/2.wav", length=7)
    with pytest.raises(DataError, match=r"2\.wav: expected 4 samples as .*1\.wav, got 7; give a length$"):
        WavFolder(path=str(tmp_path))()
    x = WavFolder(path=str(tmp_path), length=5)().test.x[:, 0, 0].numpy()
    assert x[0, 4] == 0.5
    assert np.array_equal(2.0 * x[1] - 1, long[:5])


def test_rates_are_compared_and_never_changed(tmp_path: Path) -> None:
    save(tmp_path / "a/1.wav")
    assert len(WavFolder(path=str(tmp_path), rate=8000)().test) == 1
    with pytest.raises(DataError, match=r"1\.wav: expected 16000 samples per second, got 8000; resample it$"):
        WavFolder(path=str(tmp_path), rate=16000)()
    save(tmp_path / "b/2.wav", rate=44100)
    with pytest.raises(DataError, match=r"2\.wav: expected 8000 samples per second as .*1\.wav, got 44100"):
        WavFolder(path=str(tmp_path))()


def conversation(place: Path) -> None:
    """Four speakers say two words twice."""
    for word in ("no", "yes"):
        for number, name in enumerate(("ann", "bob", "eve", "joe")):
            for take in (0, 1):
                save(place / word / f"{word}_{name}_{take}.wav", seed=10 * number + 2 * take + (word == "no"))


def test_a_share_is_held_out_at_random_or_by_speaker(tmp_path: Path) -> None:
    conversation(tmp_path)
    cut = WavFolder(path=str(tmp_path), holdout=0.25)()
    assert np.bincount(cut.test.y).tolist() == [2, 2]
    seen = set()
    for seed in range(6):
        data = WavFolder(path=str(tmp_path), holdout=0.25, seed=seed, speaker=1)()
        names = [speakers(tmp_path)[row] for row in data.test.index]
        assert len(set(names)) == 1
        assert len(names) == 4
        assert data.train is not None
        assert names[0] not in [speakers(tmp_path)[row] for row in data.train.index]
        seen.add(names[0])
    assert len(seen) > 1
    named = WavFolder(path=str(tmp_path), speaker=1, test_speakers=("bob", "joe"))()
    assert {speakers(tmp_path)[row] for row in named.test.index} == {"bob", "joe"}
    assert len(named.test) == 8


def speakers(place: Path) -> list[str]:
    """In the order of the files."""
    return [file.stem.split("_")[1] for word in ("no", "yes") for file in sorted((place / word).iterdir())]


def test_speakers_that_there_are_not_are_named(tmp_path: Path) -> None:
    conversation(tmp_path)
    with pytest.raises(DataError, match=r"test_speakers: unknown name 'bop'.*Did you mean 'bob'"):
        WavFolder(path=str(tmp_path), speaker=1, test_speakers=("bop",))()
    with pytest.raises(DataError, match=r"\.wav: expected the speaker as part 3 of the name, got 3 parts"):
        WavFolder(path=str(tmp_path), speaker=3, holdout=0.5)()
    with pytest.raises(DataError, match=r"expected a share that leaves some of 4 speakers, got 0.9"):
        WavFolder(path=str(tmp_path), speaker=1, holdout=0.9)()
    with pytest.raises(DataError, match="expected speaker beside it, and no holdout"):
        WavFolder(path="x", test_speakers=("bob",))
    with pytest.raises(DataError, match=r"wav_folder\.speaker: expected at least 0, got -1"):
        WavFolder(path="x", speaker=-1)


def test_damaged_missing_and_large_recordings_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected one directory of recordings per class, got none"):
        WavFolder(path=str(tmp_path))()
    save(tmp_path / "a/1.wav")
    (tmp_path / "a/2.wav").write_bytes((tmp_path / "a/1.wav").read_bytes()[:50])
    with pytest.raises(DataError, match=r"2\.wav: expected a WAV file"):
        WavFolder(path=str(tmp_path))()
    with pytest.raises(DataError, match=r"2 recordings: needs .* of memory"):
        WavFolder(path=str(tmp_path), length=10**13)()
    (tmp_path / "a/2.wav").unlink()
    (tmp_path / "a/3.wav").symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="expected a recording file, got a link that leads out of the directory"):
        WavFolder(path=str(tmp_path))()
