"""Random mirror images."""

from __future__ import annotations

import pytest
import torch

from holdfast.augment import HorizontalFlip
from holdfast.rng import Streams
from tests import chance

X = torch.rand(2000, 1, 2, 3, generator=torch.Generator().manual_seed(0))


def test_each_image_is_itself_or_its_mirror_image() -> None:
    z = HorizontalFlip()(X, rng=Streams(0, "flip", len(X)))
    mirrored = (z == X[..., [2, 1, 0]]).flatten(1).all(1)
    assert (mirrored | (z == X).flatten(1).all(1)).all()
    assert abs(float(mirrored.double().mean()) - 0.5) < chance.share_error(2000, 0.5)


def test_probability_nought_and_one_are_certain() -> None:
    assert torch.equal(HorizontalFlip(probability=0.0)(X), X)
    assert torch.equal(HorizontalFlip(probability=1.0)(X), X.flip(3))
    with pytest.raises(ValueError, match="probability"):
        HorizontalFlip(probability=1.1)
