"""PixMix and its pictures."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

from holdfast.augment import PixMix, pixmix
from holdfast.augment.pictures import from_folder, generated
from holdfast.augment.pixmix import added, multiplied, weights
from holdfast.errors import DataError
from holdfast.rng import Streams
from holdfast.testing.untouched import same_random_states
from tests import chance
from tests.zoo import images

X = images(200, (3, 8, 8), dtype=torch.float32)


def test_mixes_are_the_formulas_and_grey_is_neutral():
    z, u = torch.full((1, 1, 1, 1), 0.6), torch.full((1, 1, 1, 1), 0.3)
    a, b = torch.tensor([0.8]), torch.tensor([0.25])
    assert float(added(z, u, a, b)) == pytest.approx((0.8 * 0.2 + 0.25 * -0.4 + 1) / 2)
    assert float(multiplied(z, u, a, b)) == pytest.approx(1.2**0.8 * 0.6**0.25 / 2)
    one, grey = torch.ones(1), torch.full_like(z, 0.5)
    assert float(added(z, grey, one, b)) == pytest.approx(0.6)
    assert float(multiplied(z, grey, one, b)) == pytest.approx(0.6)


def test_black_pictures_and_negative_powers_stay_finite():
    black, white, a = torch.zeros(1, 1, 2, 2), torch.ones(1, 1, 2, 2), torch.tensor([2.0])
    assert multiplied(white, black, a, -torch.ones(1)).unique().tolist() == [1]
    assert multiplied(black, black, a, -torch.ones(1)).unique().tolist() == [0]


def test_weights_follow_their_law():
    a, b = (t.numpy() for t in weights(Streams(0, "w", 6000), torch.empty(6000, dtype=torch.float64), 3.0))
    inside = b > 0
    assert abs(inside.mean() - 0.5) < chance.share_error(6000, 0.5)
    for values, law in (
        (a[inside], stats.beta(3, 1)),
        (b[inside], stats.beta(1, 3)),
        (a[~inside] - 1, stats.beta(1, 3)),
        (-b[~inside], stats.beta(1, 3)),
    ):
        assert chance.follows(values, law.cdf)
    assert abs(np.corrcoef(a[inside], b[inside])[0, 1]) < chance.deviations() / inside.sum() ** 0.5


def test_without_mixes_and_strength_half_of_the_images_stay():
    z = PixMix(k=0, severity=0.0)(X, rng=Streams(1, "k", 200))
    same = (z == X).flatten(1).all(1)
    # Half are not changed at all, and of the operations rotation and the like do nothing at strength 0.
    assert 0.5 - chance.share_error(200, 0.5) < float(same.double().mean()) < 1


def test_more_mixes_and_a_lower_beta_change_more():
    change = {
        (k, beta): float((PixMix(k=k, beta=beta, pictures=16)(X) - X).square().mean())
        for k, beta in ((0, 3.0), (1, 3.0), (4, 3.0), (4, 1.0))
    }
    assert list(change.values()) == sorted(change.values())


def test_each_mix_draws_numbers_of_its_own(monkeypatch):
    seen = []

    def remembered(rng, like, beta):
        seen.append(set(weights(rng, like, beta)[0].tolist()))
        return weights(rng, like, beta)

    monkeypatch.setattr(pixmix, "weights", remembered)
    PixMix(k=2)(torch.rand(64, 3, 8, 8))
    first, second = seen
    assert len(second) > 10
    assert not first & second


def test_pictures_are_made_alike_every_time_differ_and_have_structure():
    with same_random_states():
        made = generated(12, 16, 16, 1)
    generated.cache_clear()
    assert torch.equal(generated(12, 16, 16, 1), made)
    assert made.shape == (12, 3, 16, 16)
    assert made.min() >= 0
    assert made.max() <= 1
    assert not torch.equal(generated(12, 16, 16, 2), made)
    assert len(made.flatten(1).unique(dim=0)) == 12
    assert float(made.flatten(1).std(1).min()) > 0.02
    # Neighbours are alike: half of the mean square of differences is well below the variance, unlike in noise.
    rough = (made.diff(dim=3).square().mean((1, 2, 3)) / 2 / made.var(3).mean((1, 2)).clamp_min(1e-6)).median()
    assert float(rough) < 0.5


def test_large_pictures_are_enlarged_small_ones():
    made = generated(2, 100, 70)
    assert made.shape == (2, 3, 100, 70)
    assert made.min() >= 0
    assert made.max() <= 1


def test_a_folder_may_take_the_place_of_made_pictures(tmp_path):
    Image.new("RGB", (20, 30), (255, 0, 0)).save(tmp_path / "red.png")
    (tmp_path / "more").mkdir()
    Image.new("L", (9, 9), 51).save(tmp_path / "more" / "grey.png")
    pictures = from_folder(str(tmp_path), 8, 6)
    assert pictures.shape == (2, 3, 8, 6)
    assert pictures[0].unique().tolist() == pytest.approx([0.2])
    assert pictures[1].flatten(1).unique(dim=1).flatten().tolist() == [1, 0, 0]
    # Images without colour get it only from the pictures, and these have as much green as blue.
    z = PixMix(mixing=str(tmp_path))(X[:, :1].expand(-1, 3, -1, -1))
    torch.testing.assert_close(z[:, 1], z[:, 2])
    assert float((z[:, 0] - z[:, 1]).abs().mean()) > 0.02


def test_refuses_folders_without_pictures(tmp_path):
    with pytest.raises(DataError, match="expected a directory of images to mix, got none"):
        PixMix(mixing=str(tmp_path))(X)
    (tmp_path / "broken.png").write_text("no image")
    with pytest.raises(DataError, match=r"broken\.png: expected an image, cannot be read"):
        PixMix(mixing=str(tmp_path))(X)


@pytest.mark.parametrize("fields", [{"k": -1}, {"beta": 0.0}, {"severity": -1.0}, {"pictures": 0}])
def test_refuses_what_cannot_be(fields):
    with pytest.raises(ValueError, match=f"{next(iter(fields))}: expected"):
        PixMix(**fields)
