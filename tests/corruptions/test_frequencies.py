import pytest
import torch

from holdfast.corruptions import BandNoise, EnergyFilter, LowPass
from holdfast.corruptions.frequencies import in_each_band
from holdfast.frequency import bands, dct, energy_filter, low_pass
from holdfast.rng import Streams
from holdfast.training import Epoch
from tests.training import tiny
from tests.zoo import images

SHAPES = [(3, 32, 32), (1, 8, 8), (2, 5, 7), (1, 1, 600)]


def noise_of(check, x, rng=None):
    """What the check adds."""
    return check(x, rng=rng) - x


@pytest.mark.parametrize("shape", SHAPES)
def test_noise_has_no_energy_outside_its_band(shape):
    x = images(5, shape, dtype=torch.float64)
    for band in (0, 3, 9):
        inside = bands(*shape[1:]) == band
        energy = dct(noise_of(BandNoise(band=band), x)).square()
        assert float(energy[..., ~inside].sum()) < 1e-10
        assert float(energy[..., inside].sum()) > 0.01


def test_published_bands_are_those_of_the_noise():
    x = images(2, (3, 32, 32), dtype=torch.float64)
    energy = dct(noise_of(BandNoise(band=9, rule="radius"), x)).square().sum((0, 1))
    assert int((energy > 1e-10).sum()) == 107


def test_clipping_moves_energy_out_of_the_band():
    x = images(2, (1, 8, 8), dtype=torch.float64)
    z = BandNoise(band=4, variance=0.1, clip=True)(x)
    assert float(z.min()) == 0
    assert torch.equal(z, BandNoise(band=4, variance=0.1)(x).clamp(0, 1))
    assert float(dct(z - x)[..., bands(8, 8) != 4].square().sum()) > 0.01


def test_bands_by_rank_have_the_same_expected_norm_within_one_coefficient():
    x, variance, count = torch.zeros(4000, 1, 8, 8, dtype=torch.float64), 0.25, 64 // 10
    for band in (0, 4, 9):
        energy = noise_of(BandNoise(band=band, variance=variance), x).square().flatten(1).sum(1)
        size = int((bands(8, 8) == band).sum())
        assert size in (count, count + 1)
        error = variance * (2 * size / len(x)) ** 0.5  # of the mean of chi-squared values
        assert float(energy.mean()) == pytest.approx(variance * size, abs=4 * error)


def test_the_bands_of_a_draw_are_orthogonal_and_add_up_to_white_noise():
    x = torch.zeros(3, 2, 8, 8, dtype=torch.float64)
    noises = torch.stack([noise_of(BandNoise(band=band, bands=4), x) for band in range(4)])
    products = noises.flatten(1) @ noises.flatten(1).T
    torch.testing.assert_close(products, products.diag().diag(), rtol=0, atol=1e-13)
    white = BandNoise(band=0, bands=1)(x)
    torch.testing.assert_close(noises.sum(0), white, rtol=0, atol=1e-13)


@pytest.mark.parametrize("clip", [False, True])
def test_all_bands_of_a_draw_at_once_are_those_of_the_check(clip):
    x, rng = images(5, (2, 8, 8)), Streams(4, "", 5)
    at_once = list(in_each_band(BandNoise(band=2, bands=4, draw=3, clip=clip), x, rng=rng))
    each = [BandNoise(band=band, bands=4, draw=3, clip=clip)(x, rng=rng) for band in range(4)]
    assert torch.equal(torch.stack(at_once), torch.stack(each))


def test_draws_are_independent_and_examples_have_noise_of_their_own():
    x = torch.zeros(2000, 1, 8, 8, dtype=torch.float64)
    one, other = (noise_of(BandNoise(band=2, variance=1.0, draw=draw), x).flatten(1) for draw in (0, 1))
    inner = (one * other).sum(1) / 6.4
    assert abs(float(inner.mean())) < 0.03  # about 1 if they were the same, 0 with deviation 0.009
    assert len(one.unique(dim=0)) == len(x)


@pytest.mark.parametrize("check", [LowPass(share=0.4), EnergyFilter(share=0.4), BandNoise(band=1), BandNoise(band=8)])
@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 33, 17), (1, 1, 600)])
def test_images_are_the_same_to_the_bit_in_any_batch(check, shape):
    x = images(23, shape, dtype=torch.float32)  # float64 differs by its rounding
    whole = check(x, rng=Streams(1, "", 23))
    for rows in (torch.tensor([7]), torch.arange(3, 14), torch.arange(22, -1, -1)):
        assert torch.equal(check(x[rows], rng=Streams(1, "", rows)), whole[rows])


@pytest.mark.parametrize(
    ("clipped", "plain"),
    [
        (LowPass(share=0.6, rule="radius"), lambda x: low_pass(x, 0.6, "radius")),
        (EnergyFilter(share=0.6), lambda x: energy_filter(x, 0.6)),
    ],
    ids=["low pass", "energy"],
)
def test_filters_cut_to_the_box_unless_told_not_to(clipped, plain):
    x = images(6, (1, 8, 8)).round()  # black and white, so that filters overshoot
    z = plain(x)
    assert float(z.min()) < 0
    assert float(z.max()) > 1
    assert torch.equal(clipped(x), z.clamp(0, 1))
    free = type(clipped)(**{**vars(clipped), "clip": False})
    assert torch.equal(free(x), z)


def test_training_on_filtered_images_leaves_validation_and_test_images_alone(tmp_path):
    still = "train.optimizer={sgd: {lr: 1.0e-30}}"  # so that both have the same network
    plain = tiny.recipe(still)
    filtered = tiny.recipe(still, "data.augment=[{low_pass: {share: 0.9}}]")
    one, other = (
        [record for record in tiny.train(recipe, tmp_path / name) if isinstance(record, Epoch)]
        for name, recipe in (("plain", plain), ("filtered", filtered))
    )
    assert [epoch.validation for epoch in one] == [epoch.validation for epoch in other]
    assert all(a.train["total"] != b.train["total"] for a, b in zip(one, other, strict=True))
    assert torch.equal(tiny.splits(plain).test.x, tiny.splits(filtered).test.x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LowPass(share=0.0), "share: expected a number between 0 and 1, got 0.0"),
        (lambda: EnergyFilter(share=1.0), "share: expected a number between 0 and 1, got 1.0"),
        (lambda: EnergyFilter(share=float("nan")), "share: expected a number between 0 and 1, got nan"),
        (lambda: LowPass(rule="best"), "rule: expected one of rank, radius, got 'best'"),
        (lambda: BandNoise(band=0, rule="best"), "rule: expected one of rank, radius, got 'best'"),
        (lambda: BandNoise(band=10), "band: expected 0 to bands - 1 = 9, got 10"),
        (lambda: BandNoise(band=-1), "band: expected 0 to bands - 1 = 9, got -1"),
        (lambda: BandNoise(band=0, variance=-1.0), "variance: expected a finite number, not negative, got -1.0"),
    ],
)
def test_refuses_settings_that_make_no_sense(make, message):
    with pytest.raises(ValueError, match=message):
        make()
