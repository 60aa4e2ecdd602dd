"""AugMix."""

import pytest
import torch

from holdfast.augment import AugMix
from holdfast.augment import augmix as module
from holdfast.augment.operations import Scale
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images

X = images(300, (3, 6, 6), low=0.2, high=0.6)


def only(monkeypatch, **scales):
    monkeypatch.setattr(module, "SCALES", scales)


def test_chains_that_do_nothing_give_the_image_back(monkeypatch):
    only(monkeypatch, identity=Scale(), brightness=Scale(1, 1))
    torch.testing.assert_close(AugMix()(X), X)


def test_mixes_the_image_with_its_chains(monkeypatch):
    # All operations invert, so that every chain is x or 1 - x by the parity of its depth.
    only(monkeypatch, solarize=Scale(0, 0))
    for depth, other in ((1, 1 - X), (2, X)):
        z = AugMix(depth=depth)(X, rng=Streams(0, "m", 300))
        share = ((z - X) / (other - X)).flatten(1) if depth == 1 else (z - X).flatten(1)
        torch.testing.assert_close(share, share[:, :1].expand_as(share), rtol=0, atol=1e-9)  # the same for all pixels
        if depth == 1:  # m is uniform for alpha = 1
            assert abs(float(share[:, 0].mean()) - 0.5) < chance.deviations() / (12 * 300) ** 0.5
            nearest = 1 - chance.level(2) ** (1 / 300)  # none of 300 values is nearer to an end
            assert float(share.min()) < nearest
            assert float(share.max()) > 1 - nearest


def test_depths_are_one_two_and_three_with_equal_chances(monkeypatch):
    only(monkeypatch, brightness=Scale(0.5, 0.5))  # a chain of n leaves 2^-n of the brightness
    z = AugMix(width=1, alpha=1e5)(X, rng=Streams(0, "d", 300))  # with weights 1/2 and 1/2
    left = (z / X).flatten(1).mean(1)
    counts = torch.stack([(left - (0.5 + 0.5**n / 2)).abs() < 0.02 for n in (1, 2, 3)]).sum(1)
    assert int(counts.sum()) == 300
    assert float((counts / 300 - 1 / 3).abs().max()) < chance.share_error(300, 1 / 3, count=3)


def test_strength_grows_with_severity_and_nothing_moves_at_nought():
    x = images(64, (1, 8, 8), dtype=torch.float32)
    moves = {"rotate", "shear_x", "shear_y", "translate_x", "translate_y"}
    change = []
    for severity in (0.0, 1.0, 3.0, 10.0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "SCALES", {name: module.SCALES[name] for name in sorted(moves)})
            change.append(float((AugMix(severity=severity)(x) - x).square().mean()))
    assert change[0] < 1e-10
    assert change == sorted(change)
    assert change[3] > 2 * change[1]


def test_leaves_out_what_corruptions_do_unless_told():
    assert not set(module.SCALES) & {"colour", "contrast", "brightness", "sharpness"}
    assert len(module.SCALES | module.CORRUPTING) == 13
    assert not torch.equal(AugMix()(X), AugMix(all_ops=True)(X))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"width": 0}, "width: expected at least 1, got 0"),
        ({"depth": 0}, "depth: expected at least 1, or -1 for 1 to 3, got 0"),
        ({"severity": 11.0}, r"severity: expected a number in \[0, 10\], got 11.0"),
        ({"alpha": 0.0}, "alpha: expected a number in"),
    ],
)
def test_refuses_what_cannot_be(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        AugMix(**fields)
