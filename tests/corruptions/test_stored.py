"""Stored corruptions in place of the test images."""

import numpy as np
import pytest
import torch

import holdfast
from holdfast.corruptions.stored import Stored
from holdfast.errors import DataError
from holdfast.recipe import parse_recipes
from tests.zoo import linear


@pytest.fixture
def place(tmp_path):
    random = np.random.default_rng(0)
    np.save(tmp_path / "fog.npy", random.integers(0, 256, (20, 4, 4, 1), dtype=np.uint8))
    np.save(tmp_path / "labels.npy", np.tile(np.array([0, 2, 1, 2]), 5))
    return tmp_path


def test_examples_are_found_by_index_and_severity(place):
    x, y = torch.zeros(2, 1, 4, 4, dtype=torch.float64), torch.tensor([2, 0])
    found = Stored(path=str(place), kind="fog", severity=2).take(torch.tensor([3, 0]), x, y)
    stored = np.load(place / "fog.npy")
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy()[:, 0] * 255, stored[[7, 4], ..., 0], atol=1e-4)


def test_an_evaluation_shows_the_model_the_stored_images(place):
    x, y = torch.zeros(4, 1, 4, 4), torch.tensor([0, 2, 1, 2])
    model = linear(3, (1, 4, 4), dtype=torch.float32)
    checks = [Stored(path=str(place), kind="fog", severity=s) for s in (1, 5)]
    rows = holdfast.evaluate(model, x, y, checks).rows
    stored = torch.from_numpy(np.load(place / "fog.npy")).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        expected = model(torch.cat((stored[:4], stored[16:]))).argmax(1)
    assert rows["prediction"].to_list() == expected.tolist()
    assert rows["method"].unique().to_list() == ["stored"]


def test_a_recipe_can_name_it(place):
    text = f"name: a\ndata: digits\nmodel: linear\nchecks: [{{stored: {{path: '{place}', kind: fog, severity: 3}}}}]\n"
    (recipe,) = parse_recipes(text)
    assert recipe.checks == (Stored(path=str(place), kind="fog", severity=3),)


def test_other_data_is_refused(place):
    one, x = Stored(path=str(place), kind="fog", severity=1), torch.zeros(1, 1, 4, 4)
    with pytest.raises(DataError, match="expected the labels of the test set, got others"):
        one.take(torch.tensor([0]), x, torch.tensor([1]))
    with pytest.raises(DataError, match="expected an image for example 4, has 4 of each severity"):
        one.take(torch.tensor([4]), x, torch.tensor([1]))
    with pytest.raises(DataError, match=r"expected images of shape \(3, 4, 4\), got \(1, 4, 4\)"):
        one.take(torch.tensor([0]), torch.zeros(1, 3, 4, 4), torch.tensor([0]))
    with pytest.raises(DataError, match=r"snow\.npy: not found"):
        Stored(path=str(place), kind="snow", severity=1).take(torch.tensor([0]), x, torch.tensor([0]))
    for fields in ({"kind": "fog", "severity": 0}, {"kind": "../fog", "severity": 1}):
        with pytest.raises(ValueError, match=r"severity: expected 1 to 5|kind: expected the name of a file"):
            Stored(path=".", **fields)
