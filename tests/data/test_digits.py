"""Facts about the digits that everybody has."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from holdfast.data import Digits


def test_the_digits_are_those_of_scikit_learn_in_a_fixed_split() -> None:
    digits = Digits()()
    assert digits.train is not None
    assert (len(digits.train), len(digits.test), digits.shape) == (1297, 500, (1, 8, 8))
    assert digits.classes == tuple("0123456789")
    pixels, y = load_digits(return_X_y=True)
    for split in (digits.train, digits.test):
        assert torch.equal(split.x.flatten(1) * 16, torch.tensor(pixels[split.index], dtype=torch.float32))
        assert split.y.tolist() == y[split.index].tolist()
    assert set(digits.train.index.tolist()).isdisjoint(digits.test.index.tolist())
    assert torch.bincount(digits.test.y).tolist() == [50, 51, 49, 51, 50, 51, 50, 50, 48, 50]


def test_the_split_is_the_same_in_every_version() -> None:
    digits = Digits()()
    assert digits.fingerprint() == Digits()().fingerprint()
    assert digits.fingerprint().startswith("e89028abdb1994e5")
