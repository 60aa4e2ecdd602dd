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
    given = sorted((*row, label) for row, label in zip(pixels.tolist(), y.tolist(), strict=True))
    splits = (digits.train, digits.test)
    ours = [
        (*row, label) for s in splits for row, label in zip((s.x.flatten(1) * 16).tolist(), s.y.tolist(), strict=True)
    ]
    assert sorted(ours) == given  # all of them, each once
    assert all(split.index.tolist() == list(range(len(split))) for split in splits)
    assert torch.bincount(digits.test.y).tolist() == [50, 51, 49, 51, 50, 51, 50, 50, 48, 50]


def test_the_split_is_the_same_in_every_version() -> None:
    digits = Digits()()
    assert digits.fingerprint() == Digits()().fingerprint()
    assert digits.fingerprint().startswith("e89028abdb1994e5")
