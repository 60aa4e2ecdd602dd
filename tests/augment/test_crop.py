"""Random translations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from holdfast.augment import AUGMENTATIONS, RandomCrop
from holdfast.rng import Streams
from tests import chance

X = torch.rand(64, 3, 6, 5, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("reflect", [False, True])
def test_each_image_is_a_window_of_its_padded_self(reflect: bool) -> None:
    z = RandomCrop(padding=2, reflect=reflect)(X, rng=Streams(1, "crop", len(X)))
    padded = F.pad(X, (2, 2, 2, 2), mode="reflect" if reflect else "constant")
    windows = padded.unfold(2, 6, 1).unfold(3, 5, 1)  # (N, C, 5, 5, 6, 5)
    equal = (windows == z[:, :, None, None]).all(5).all(4).all(1)  # (N, 5, 5)
    assert (equal.flatten(1).sum(1) == 1).all()
    assert len(equal.nonzero()[:, 1:].unique(dim=0)) > 15


def test_all_places_are_equally_likely() -> None:
    x = torch.zeros(9000, 1, 3, 3)
    x[:, 0, 1, 1] = 1
    seen = RandomCrop(padding=1)(x, rng=Streams(0, "", 9000)).sum((0, 1)).flatten()
    assert seen.sum() == 9000
    assert (seen / 9000 - 1 / 9).abs().max() < chance.share_error(9000, 1 / 9, count=9)


def test_no_padding_changes_nothing_and_reflection_invents_no_black() -> None:
    assert torch.equal(RandomCrop(padding=0)(X), X)
    assert (RandomCrop(padding=3, reflect=True)(X + 1e-6) > 0).all()
    with pytest.raises(ValueError, match="padding"):
        RandomCrop(padding=-1)


@pytest.mark.parametrize("name", ["horizontal_flip", "random_crop"])
def test_moves_pixels_whatever_the_batch_and_the_dtype(name: str) -> None:
    augmentation, before, state = AUGMENTATIONS[name], X.clone(), torch.get_rng_state()
    whole = augmentation(X, rng=Streams(3, "a", 64))
    parts = [augmentation(X[i : i + 7], rng=Streams(3, "a", list(range(64))[i : i + 7])) for i in range(0, 64, 7)]
    assert torch.equal(whole, torch.cat(parts))
    assert not torch.equal(whole, augmentation(X, rng=Streams(4, "a", 64)))
    assert torch.equal(augmentation(X), augmentation(X))
    assert torch.equal(X, before)
    assert torch.equal(state, torch.get_rng_state())
    double = augmentation(X.double(), rng=Streams(3, "a", 64))
    assert double.dtype == torch.float64
    assert torch.equal(double.float(), whole)
