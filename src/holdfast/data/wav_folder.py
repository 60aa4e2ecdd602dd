"""A directory of WAV files, one directory per class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.budget import require_budget
from holdfast.data.class_folders import ClassFolders, Cut
from holdfast.data.dataset import Dataset, Split, split_validation
from holdfast.data.roots import existing
from holdfast.data.waveforms import PER_VALUE, by_speaker, in_unit_interval, of_length, require_counts
from holdfast.errors import DataError
from holdfast.files.regular import read_regular
from holdfast.rng import permutation
from holdfast.wav import Wav, read_wav

SUFFIXES = (".wav", ".wave")
"""Files with other endings are no recordings and are passed over."""


@dataclass(frozen=True, kw_only=True)
class WavFolder:
    """WAV files in one directory per class, which gives the class its name; labels follow the sorted names.

    Either `path/train/CLASS/...` and `path/test/CLASS/...` (or val, valid, validation), or `path/CLASS/...`. PCM of 8,
    16, 24 or 32 bits; channels are averaged. Inputs are (w + 1) / 2 of waveforms w in [-1, 1], see `waveforms`.

    Args:
        path: the directory, in the current directory or in the data root.
        length: samples to bring all recordings to: silence is added at the end, or the end is cut off; None takes them
            as they are and wants all the same.
        rate: samples per second that all files must have; None takes that of the first. Nothing is resampled.
        holdout: without `train/`, the share of each class to test on, or with `speaker` the share of the speakers; None
            makes all recordings the test split.
        seed: which are held out.
        speaker: which part of a file's name says who speaks, counted from 0 between underscores: 1 in
            `7_jackson_32.wav`, 0 in `0a7c2a8d_nohash_0.wav`.
        test_speakers: the speakers to test on, instead of a share of them.
    """

    path: str
    length: int | None = None
    rate: int | None = None
    holdout: float | None = None
    seed: int = 0
    speaker: int | None = None
    test_speakers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_counts("wav_folder", length=self.length, rate=self.rate)
        if self.speaker is not None and self.speaker < 0:
            raise DataError(f"wav_folder.speaker: expected at least 0, got {self.speaker}")
        if self.test_speakers and (self.speaker is None or self.holdout is not None):
            raise DataError("wav_folder.test_speakers: expected speaker beside it, and no holdout")

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read all recordings into memory."""
        path = existing(self.path, root)
        cut = None if self.holdout is None and not self.test_speakers else self._cut(path)
        return ClassFolders(path, SUFFIXES, "recording", self._stack).read(cut)

    def _cut(self, path: Path) -> Cut:
        def cut(whole: Split, paths: Sequence[Path]) -> tuple[Split, Split]:
            if self.speaker is None:
                return split_validation(whole, self.holdout or 0.0, self.seed)
            speakers = [speaker_of(file, self.speaker) for file in paths]
            test = self.test_speakers or some_of(speakers, self.holdout or 0.0, self.seed)
            classes = sorted({file.relative_to(path).parts[0] for file in paths})
            return by_speaker(whole, speakers, test, classes, str(path))

        return cut

    def _stack(self, paths: Sequence[Path]) -> NDArray[np.float32]:
        """Inputs (N, 1, 1, L) of files of one rate, and of one length unless they are brought to one."""
        first = _read(paths[0])
        length, rate = self.length or len(first.samples), self.rate or first.rate
        require_budget(PER_VALUE * len(paths) * length, f"{paths[0].parent.parent}: {len(paths)} recordings")
        stack = np.empty((len(paths), 1, 1, length), np.float32)
        for i, file in enumerate(paths):
            sound = _read(file)
            if sound.rate != rate:
                as_what = "" if self.rate else f" as {paths[0]}"
                raise DataError(f"{file}: expected {rate} samples per second{as_what}, got {sound.rate}; resample it")
            if self.length is None and len(sound.samples) != length:
                got = len(sound.samples)
                raise DataError(f"{file}: expected {length} samples as {paths[0]}, got {got}; give a length")
            stack[i] = in_unit_interval(of_length(sound.samples, length))
        return stack


def speaker_of(file: Path, part: int) -> str:
    """Who speaks, as the file's name says.

    Raises:
        DataError: if it has no such part.
    """
    parts = file.stem.split("_")
    if part >= len(parts):
        raise DataError(f"{file}: expected the speaker as part {part} of the name, got {len(parts)} parts")
    return parts[part]


def some_of(speakers: Sequence[str], share: float, seed: int) -> list[str]:
    """A share of the speakers, drawn at random: at least one, and not all.

    Raises:
        DataError: for a share that is none, or where there is one speaker only.
    """
    names = sorted(set(speakers))
    count = max(1, round(share * len(names)))
    if not 0 < share < 1 or count >= len(names):
        raise DataError(f"holdout: expected a share that leaves some of {len(names)} speakers, got {share}")
    return [names[i] for i in permutation(len(names), seed, "speakers")[:count].tolist()]


def _read(file: Path) -> Wav:
    return read_wav(read_regular(file, error=DataError, follow=True), str(file))
