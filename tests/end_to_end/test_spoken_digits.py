"""The walk through spoken digits: on tones in the same layout, and on the recordings where they are."""

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from holdfast.data import data_root
from holdfast.wav import read_wav

ROOT = Path(__file__).parent.parent.parent
FILE = "free_spoken_digits_8khz.npz"


def walk(monkeypatch, *arguments):
    spec = importlib.util.spec_from_file_location("spoken_digits", ROOT / "examples" / "spoken_digits.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", ["spoken_digits.py", *map(str, arguments)])
    module.main()


def write_tones(path):
    """Ten tones, each 'spoken' four times by two speakers, in the layout of the recordings."""
    rng, time_of = np.random.default_rng(0), np.arange(400) / 8000
    y = np.tile(np.arange(10, dtype=np.uint8), 8)
    tones = np.sin(2 * np.pi * 100 * (2 + y[:, None]) * time_of + rng.uniform(0, 6, (80, 1)))
    x, speaker = np.int16(3000 * tones), np.repeat(np.array([0, 1], np.uint8), 40)
    tests = np.arange(80) // 10 % 4 == 3  # the last time of four
    parts = {"train": ~tests, "test": tests}
    arrays = {
        f"{kind}_{part}": values[rows]
        for part, rows in parts.items()
        for kind, values in (("x", x), ("y", y), ("speaker", speaker))
    }
    np.savez(path, rate=np.array(8000), speakers=np.array(["george", "jackson"]), **arrays)


def test_the_example_trains_attacks_and_writes_sounds(tmp_path, monkeypatch, capsys):
    write_tones(tmp_path / FILE)
    walk(
        monkeypatch, "--out", tmp_path / "runs", "--data-root", tmp_path, "--epochs", 1, "--recordings", 20,
        "--variants", "standard", "new-speaker",
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert "spoken_digits/standard/seed-0" in printed
    assert "pgd linf eps=0.0005 steps=20" in printed
    sounds = sorted((tmp_path / "runs/sounds/spoken_digits-new-speaker-seed-0").iterdir())
    assert {read_wav(file.read_bytes(), file.name).rate for file in sounds} == {8000}
    assert {len(read_wav(file.read_bytes(), file.name).samples) for file in sounds} == {400}
    assert any("pgd_linf" in file.name and "changed" in file.name for file in sounds)
    assert "data:image/png;base64" in (tmp_path / "runs/spoken_digits/report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not (data_root() / FILE).exists(), reason=f"{FILE} is not in the data root")
def test_the_walk_takes_less_than_three_minutes(tmp_path, monkeypatch):
    started = time.process_time()
    walk(monkeypatch, "--out", tmp_path / "runs")
    assert time.process_time() - started < 180
    assert (tmp_path / "runs/spoken_digits/report.html").exists()
