"""Tensors and map-style data sets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from holdfast.data import Memory
from holdfast.errors import DataError
from tests.data.layouts import pixels

X = torch.rand(4, 3, 5, 6, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 1, 0])


def test_tensors_and_their_data_set_are_the_same() -> None:
    tensors = Memory(train=(X, Y), test=(X[:2], Y[:2]), classes=("a", "b"))()
    mapped = Memory(train=TensorDataset(X, Y), test=TensorDataset(X[:2], Y[:2]), classes=("a", "b"))()
    assert tensors.fingerprint() == mapped.fingerprint()
    assert torch.equal(tensors.test.x, X[:2])
    assert Memory(test=(X, Y))().train is None
    assert Memory(test=(X, Y))().classes == ("0", "1")


def test_pil_images_become_channels_first() -> None:
    colour, grey = pixels(5, 6, 3), pixels(5, 6)
    data = Memory(test=[(Image.fromarray(colour), 0)])()
    assert data.test.x[0].numpy().tolist() == colour.transpose(2, 0, 1).tolist()
    assert Memory(test=[(Image.fromarray(grey), 0)])().test.x[0, 0].numpy().tolist() == grey.tolist()


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ([], "expected at least one example"),
        ([(X[0], 0), (X[0, :, 1:], 0)], r"expected images of shape \(3, 5, 6\), got \(3, 4, 6\) at index 1"),
        ([(X[0], 0), (X[0], 0.5)], r"index 1: expected an integer label, got 0\.5"),
        ([(X[0], True)], "index 0: expected an integer label, got True"),
        ([(X[0].numpy(), 0)], "index 0: expected a tensor or a PIL image, got ndarray"),
        ([X[0, 0, 0, 0]], "index 0: expected an image and a label, got Tensor"),
        ([(X[0] * 2 - 1, 0)], r"expected float images in \[0, 1\]"),
        ((X, [0, 1, 1, 0]), "expected a pair of tensors"),
        ((X, Y - 1), r"expected labels in 0\.\.0, got -1 at index 0"),
        ((X, Y[:3]), "expected one label for each of 4 images, got 3"),
    ],
)
def test_what_is_wrong_is_named(test: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^mine: test: {message}"):
        Memory(test=test, name="mine")()
