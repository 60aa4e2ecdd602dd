"""`holdfast data`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from holdfast.cli.data import app
from holdfast.data import Digits, Folder, Npz, subset
from holdfast.errors import DataError


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def photos(root: Path) -> Path:
    for name in ("cat", "dog"):
        for i in range(3):
            path = root / "photos" / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((9 + i, 12, 3), 40 * i + len(name), np.uint8)).save(path)
    return root / "photos"


def test_list_says_what_is_here_and_what_can_be_fetched(tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist.npz")
    np.savez(tmp_path / "mine.npz")
    rows = {row["name"]: row for row in json.loads(run("list", "--data-root", tmp_path, "--json"))}
    assert rows["mnist"] == {"name": "mnist", "place": str(tmp_path / "mnist.npz"), "download": 11594722}
    assert rows["mine"] == {"name": "mine", "place": str(tmp_path / "mine.npz"), "download": None}
    assert rows["digits"]["place"] == "built in"
    assert rows["svhn"]["place"] is None
    assert "npz" not in rows
    table = run("list", "--data-root", tmp_path)
    assert all(name in table for name in rows)


def test_info_describes_the_digits() -> None:
    facts = json.loads(run("info", "digits", "--json"))
    assert (facts["train"], facts["test"], facts["shape"]) == (1297, 500, [1, 8, 8])
    assert sum(facts["test per class"]) == 500
    assert facts["fingerprint"] == Digits()().fingerprint()
    assert "48 to 51" in run("info", "digits")


def test_info_of_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"unknown name 'digitz'.*Did you mean 'digits'"):
        run("info", "digitz", "--data-root", tmp_path)


def test_make_packs_a_folder_that_reads_back_equal(tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    said = json.loads(run("make", out, "--from", photos(tmp_path), "--size", "8", "--json"))
    assert said == {"file": str(out), "train": 0, "test": 6}
    packed = Npz(path=str(out))()
    assert packed.classes == ("cat", "dog")
    assert packed.fingerprint() == Folder(path=str(tmp_path / "photos"), size=8)().fingerprint()


def test_make_takes_a_subset_of_each_split(tmp_path: Path) -> None:
    run("make", tmp_path / "small.npz", "--from", "digits", "--subset", "100", "--seed", "3")
    small, digits = Npz(path=str(tmp_path / "small.npz"))(), Digits()()
    assert small.train is not None
    assert digits.train is not None
    expected = subset(digits.train, 100, 3)
    assert np.array_equal(small.train.x.numpy(), expected.x.numpy())
    with np.load(tmp_path / "small.npz") as arrays:
        assert arrays["idx_train"].tolist() == expected.index.tolist()
    assert len(small.test) == 100
    run("make", tmp_path / "large.npz", "--from", "digits", "--subset", "600")
    assert len(Npz(path=str(tmp_path / "large.npz"))().test) == 500


def test_make_resizes_only_folders(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^digits: expected an image folder beside size or grey; got digits$"):
        run("make", tmp_path / "a.npz", "--from", "digits", "--size", "4")
    assert list(tmp_path.iterdir()) == []


def test_fetch_of_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fetch: unknown name 'digits'"):
        run("fetch", "digits", "--data-root", tmp_path)


def test_fetch_reports_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast import data

    monkeypatch.setattr(data, "fetch", lambda name, root: iter([data.Progress("a", 1, 2), data.Progress("a", 2, 2)]))
    said = json.loads(run("fetch", "mnist", "--data-root", tmp_path, "--json"))
    assert said == {"name": "mnist", "place": str(tmp_path / "mnist"), "files": {"a": 2}}
    assert str(tmp_path / "mnist") in run("fetch", "mnist", "--data-root", tmp_path).replace("\n", "")


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, holdfast.cli.data; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
