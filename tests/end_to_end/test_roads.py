"""The example of a folder of pictures: what it writes is what its recipe reads."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from holdfast.data.folder import Folder
from holdfast.objectives import Discriminative
from holdfast.recipe import load_recipes

ROOT = Path(__file__).parent.parent.parent


def roads():
    spec = importlib.util.spec_from_file_location("roads", ROOT / "examples" / "roads.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_folder_is_read_by_its_recipe(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["roads.py", str(tmp_path / "roads"), "--scale", "0.006"])
    roads().main()
    assert "{'dry': 3, 'wet': 3, 'icy': 6}" in capsys.readouterr().out
    with Image.open(tmp_path / "roads" / "icy" / "0000.png") as picture:
        assert picture.size == (500, 400)
    standard, discriminative = load_recipes(ROOT / "examples" / "roads.yaml")
    assert standard.data.source == Folder(path="roads", size=64, resize="stretch", holdout=0.2)
    assert isinstance(discriminative.train.objective, Discriminative)
    monkeypatch.chdir(tmp_path)
    data = standard.data.source()
    assert data.classes == ("dry", "icy", "wet")
    assert data.shape == (3, 64, 64)
    assert len(data.train) + len(data.test) == 12


def test_a_picture_depends_on_its_seed_alone():
    one, same, other = (np.asarray(roads().picture("wet", np.random.default_rng(seed))) for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
