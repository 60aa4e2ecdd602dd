"""The handwritten digits that come with scikit-learn: real data that needs no download."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from holdfast.data.dataset import Dataset, Split, checked, split_validation

DIGITS = tuple("0123456789")
"""Class names of every data set of digits."""

TEST_SIZE = 500


@dataclass(frozen=True, kw_only=True)
class Digits:
    """1,797 grey 8x8 digits, values 0..16 divided by 16: 1,297 to train, 500 to test, the same ones every time.

    Reference:
        Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998.
    """

    def __call__(self, root: Path | None = None) -> Dataset:
        """Read the digits; `root` is not used."""
        from sklearn.datasets import load_digits

        pixels, y = load_digits(return_X_y=True)
        x = (pixels / 16).astype(np.float32).reshape(-1, 8, 8)
        whole = checked(x, y, DIGITS, "digits", complete=True)
        train, test = split_validation(whole, TEST_SIZE / len(whole), 0)
        return Dataset("digits", DIGITS, _numbered(train), _numbered(test))


def _numbered(split: Split) -> Split:
    """The split with its own numbering: the digits have no official test set with known positions."""
    return replace(split, index=torch.arange(len(split)))
