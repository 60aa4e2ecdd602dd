"""RandAugment and TrivialAugment."""

import pytest
import torch

from holdfast.augment import RandAugment, TrivialAugment
from holdfast.augment import randaugment as module
from holdfast.augment.operations import OPERATIONS, Scale
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images

X = images(400, (3, 8, 8), low=0.2, high=0.6)


def test_both_choose_among_all_fourteen_operations():
    assert set(module.SCALES) == set(module.WIDE) == set(OPERATIONS)


def test_applies_so_many_operations_at_the_magnitude(monkeypatch):
    monkeypatch.setattr(module, "SCALES", {"brightness": Scale(1, 0.5), "identity": Scale()})
    z = RandAugment(count=3, magnitude=4.0)(X, rng=Streams(0, "r", 400))
    left = z / X
    applied = left.log() / torch.tensor(0.8).log()  # the brightness is 0.8 to the number of times
    times = applied.flatten(1).mean(1)
    torch.testing.assert_close(times, times.round(), rtol=0, atol=1e-6)
    counts = times.round().int().bincount(minlength=4)
    for seen, share in zip((counts / 400).tolist(), (1 / 8, 3 / 8, 3 / 8, 1 / 8), strict=True):
        assert abs(seen - share) < chance.share_error(400, share)


def test_magnitude_nought_does_nothing_but_stretch_and_equalize():
    z = RandAugment(count=1, magnitude=0.0)(X, rng=Streams(0, "r", 400))
    changed = ((z - X).abs() > 1 / 254).flatten(1).any(1)  # posterize rounds to 8 bits
    assert abs(float(changed.double().mean()) - 2 / 14) < chance.share_error(400, 2 / 14)


def test_trivial_strengths_are_thirty_one_and_equally_likely(monkeypatch):
    monkeypatch.setattr(module, "WIDE", {"brightness": Scale(1, 0)})
    x = images(3100, (1, 1, 1), low=0.2)
    left = (TrivialAugment()(x, rng=Streams(0, "t", 3100)) / x).flatten()
    level = (30 * (1 - left)).round()
    torch.testing.assert_close(30 * (1 - left), level, rtol=0, atol=1e-6)
    counts = level.int().bincount(minlength=31)
    assert len(counts) == 31
    assert float((counts / 3100 - 1 / 31).abs().max()) < chance.share_error(3100, 1 / 31, count=31)


@pytest.mark.parametrize(("side", "farthest"), [(8, 1.0), (64, 0.5)])
def test_trivial_moves_by_thirty_two_pixels_at_most(monkeypatch, side, farthest):
    monkeypatch.setattr(module, "WIDE", {"translate_x": Scale(0, 0, signed=True)})
    z = TrivialAugment()(torch.ones(200, 1, 1, side), rng=Streams(0, "t", 200))
    black = (z == 0).double().mean((1, 2, 3))
    assert float(black.max()) == farthest


@pytest.mark.parametrize("fields", [{"count": 0}, {"magnitude": 11.0}])
def test_refuses_what_cannot_be(fields):
    with pytest.raises(ValueError, match=f"{next(iter(fields))}: expected"):
        RandAugment(**fields)
