import math

import pytest
import torch
from scipy.fft import dctn, idctn

from holdfast import frequency
from holdfast.errors import DataError
from holdfast.frequency import (
    LONGEST,
    bands,
    dct,
    dct_1d,
    dct_matrix,
    energy_filter,
    energy_mask,
    fourier_projections,
    fourier_wave,
    inverse_dct,
    inverse_dct_1d,
    low_pass,
    low_pass_mask,
    low_pass_radius,
    radial_rank,
)
from tests.zoo import images

SHAPES = [(8, 8), (5, 7), (1, 6), (28, 28), (1, 1)]


@pytest.mark.parametrize("shape", [*SHAPES[:-1], (3, LONGEST + 1)])
def test_is_the_orthonormal_transform_of_scipy(shape):
    x = images(3, (2, *shape))
    expected = torch.as_tensor(dctn(x.numpy(), axes=(-2, -1), norm="ortho"))
    torch.testing.assert_close(dct(x), expected)
    back = torch.as_tensor(idctn(x.numpy(), axes=(-2, -1), norm="ortho"))
    torch.testing.assert_close(inverse_dct(x), back)
    torch.testing.assert_close(inverse_dct(dct(x)), x)


@pytest.mark.parametrize("length", [1, 2, 31, LONGEST, LONGEST + 1, 2 * LONGEST])
def test_transforms_signals_of_any_length(length):
    x = images(2, (1, 3, length), dtype=torch.float64) - 0.5
    expected = torch.as_tensor(dctn(x.numpy(), axes=(-1,), norm="ortho"))
    torch.testing.assert_close(dct_1d(x), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(inverse_dct_1d(expected), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 9, 32])
def test_the_matrix_is_orthogonal_and_its_rows_are_frequencies(size):
    matrix = dct_matrix(size, torch.empty(0, dtype=torch.float64))
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(size, dtype=torch.float64))
    assert ((matrix[:, 1:] * matrix[:, :-1]) < 0).sum(1).tolist() == list(range(size))  # changes of sign


def test_the_matrix_belongs_to_the_caller():
    like = torch.empty(0, dtype=torch.float64)
    dct_matrix(4, like).zero_()
    assert float(dct_matrix(4, like)[0, 0]) == pytest.approx(0.5)


def test_energy_is_preserved():
    x = images(2, (3, 9, 5), dtype=torch.float64)
    torch.testing.assert_close(dct(x).square().sum(), x.square().sum())  # Parseval


def test_the_inverse_sometimes_printed_is_wrong():
    x = images(1, (8, 8))[0]
    matrix = dct_matrix(8, x)
    assert float((matrix @ dct(x) @ matrix.T - x).abs().max()) > 0.1


def test_follows_the_dtype_and_is_computed_in_float64():
    single = dct_matrix(64, torch.empty(0))
    assert single.dtype == torch.float32
    assert torch.equal(single, dct_matrix(64, torch.empty(0, dtype=torch.float64)).float())
    for width in (8, LONGEST + 1):
        x = images(1, (1, 8, width), dtype=torch.float32)
        assert dct(x).dtype == inverse_dct(x).dtype == torch.float32


def test_squares_are_ordered_by_radius_and_ties_by_index():
    expected = sorted(((i * i + j * j, i * 5 + j) for i in range(5) for j in range(5)), key=lambda pair: pair)
    assert radial_rank(5, 5).flatten().argsort().tolist() == [index for _, index in expected]


@pytest.mark.parametrize(("height", "width"), [(4, 6), (7, 3), (1, 9)])
def test_rectangles_are_ordered_by_radius_relative_to_their_sides(height, width):
    # Whole numbers, so that (i/H)^2 + (j/W)^2 ties where it should, such as (2, 0) and (0, 3) of 4x6.
    pairs = [((i * width) ** 2 + (j * height) ** 2, i * width + j) for i in range(height) for j in range(width)]
    assert radial_rank(height, width).flatten().argsort().tolist() == [index for _, index in sorted(pairs)]


# METHODS: of the authors' code, for 32x32 pixels.
PUBLISHED = [
    (0.1, 34.98199, 89.941),
    (0.3, 29.52878, 69.629),
    (0.5, 24.98067, 49.805),
    (0.7, 19.09754, 29.688),
    (0.9, 10.81591, 9.961),
]


@pytest.mark.parametrize(("share", "radius", "kept"), PUBLISHED)
def test_published_low_pass_masks(share, radius, kept):
    assert 32 * low_pass_radius(32, 32, share) == pytest.approx(radius, abs=5e-6)
    mask = low_pass_mask(32, 32, share, "radius")
    assert 100 * float(mask.double().mean()) == pytest.approx(kept, abs=5e-4)
    i, j = torch.arange(32)[:, None], torch.arange(32)
    assert torch.equal(mask, (i**2 + j**2).double().sqrt() < radius)


def test_the_published_search_goes_on_until_less_than_the_rest_is_kept():
    assert int(low_pass_mask(1, 40, 0.5, "radius").sum()) == 19  # exactly 20 would be possible: no radii tie


@pytest.mark.parametrize(("share", "kept"), [(0.1, 0.99), (0.9, 0.96)])
def test_the_mask_printed_for_low_pass_filters_keeps_almost_everything(share, kept):
    i, j = torch.arange(32)[:, None], torch.arange(32)
    printed = i**2 + j**2 > share * math.sqrt(2) * 32
    assert float(printed.double().mean()) == pytest.approx(kept, abs=0.006)
    assert not printed[0, 0]  # and it removes the mean of the image


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.734, 0.9, 0.999])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 28), (5, 7), (1, 40)])
def test_a_share_by_rank_is_exact_to_one_coefficient(height, width, share):
    mask = low_pass_mask(height, width, share)
    removed = int((~mask).sum())
    assert removed == min(round(share * height * width), height * width - 1)
    rank = radial_rank(height, width)
    assert int(rank[mask].max()) == int(mask.sum()) - 1  # those of the lowest ranks


@pytest.mark.parametrize("rule", ["rank", "radius"])
@pytest.mark.parametrize("shape", [(32, 32), (5, 7), (1, 40), (1, 1)])
def test_low_pass_filters_always_keep_the_mean(shape, rule):
    assert bool(low_pass_mask(*shape, 0.9999, rule)[0, 0])


def test_published_bands_of_32_by_32():
    counts = torch.bincount(bands(32, 32, 10, "radius").flatten())
    assert counts.tolist() == [102, 101, 101, 102, 102, 104, 101, 102, 102, 107]


@pytest.mark.parametrize("count", [1, 2, 7, 10])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (28, 28), (8, 8), (5, 7), (1, 40)])
def test_bands_by_rank_differ_by_at_most_one_coefficient_and_rise_in_frequency(height, width, count):
    band = bands(height, width, count)
    counts = torch.bincount(band.flatten(), minlength=count)
    assert int(counts.max() - counts.min()) <= 1
    order = band.flatten()[radial_rank(height, width).flatten().argsort()]
    assert bool((order.diff() >= 0).all())


@pytest.mark.parametrize(("height", "width", "count"), [(28, 28, 10), (32, 32, 9), (32, 16, 10)])
def test_radii_are_published_for_ten_bands_of_32_by_32_only(height, width, count):
    with pytest.raises(DataError, match="expected rule: rank"):
        bands(height, width, count, "radius")


@pytest.mark.parametrize("count", [0, 65])
def test_refuses_more_bands_than_coefficients(count):
    with pytest.raises(DataError, match="expected 1 to 64 bands of 8x8 pixels"):
        bands(8, 8, count)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (2, 5, 7)])
def test_the_energy_mask_keeps_what_reaches_the_quantile(shape, share):
    coefficients = dct(images(4, shape, dtype=torch.float64))
    size = coefficients.abs().mean(1)
    quantile = size.flatten(1).quantile(share, dim=1)  # as in the authors' code
    expected = (size >= quantile[:, None, None])[:, None]
    mask = energy_mask(coefficients, share)
    assert torch.equal(mask, expected)
    removed = (~mask).flatten(1).sum(1)
    assert bool((removed - share * mask[0].numel()).abs().lt(1).all())


def test_equal_magnitudes_are_decided_by_index_and_not_by_rounding():
    x = images(2, (1, 6, 6), dtype=torch.float64)
    x = x + x.mT  # coefficients (i, j) and (j, i) are equal
    coefficients = dct(x)
    for share in torch.linspace(0.1, 0.9, 20).tolist():
        mask = energy_mask(coefficients, share)
        assert torch.equal(mask, energy_mask(coefficients.mT.contiguous(), share))
        lower, upper = mask.tril(), mask.mT.tril()
        assert bool((lower >= upper).all())  # what comes first is removed first


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 5, 7), (1, 1, 600)])
def test_filters_are_idempotent(shape, share):
    x = images(4, shape, dtype=torch.float64)
    for change in (low_pass, energy_filter, lambda x, share: low_pass(x, share, "radius")):
        z = change(x, share)
        assert float((z - x).abs().max()) > 1e-3
        torch.testing.assert_close(change(z, share), z, rtol=0, atol=1e-12)
    z = energy_filter(x, share)
    assert torch.equal(energy_mask(dct(z), share), energy_mask(dct(x), share))


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_filters_remove_what_their_masks_say_and_nothing_else(share):
    x = images(3, (3, 9, 6), dtype=torch.float64)
    coefficients = dct(x)
    for z, mask in (
        (low_pass(x, share), low_pass_mask(9, 6, share)),
        (energy_filter(x, share), energy_mask(coefficients, share)),
    ):
        torch.testing.assert_close(dct(z), coefficients * mask, rtol=0, atol=1e-13)


def test_filters_compute_in_float64_and_round_once():
    x = images(3, (3, 32, 32), dtype=torch.float32)
    for change in (low_pass, energy_filter):
        assert torch.equal(change(x, 0.6), change(x.double(), 0.6).float())


@pytest.mark.parametrize("shape", [*SHAPES, (6, 9), (32, 32)])
def test_waves_have_length_1_and_one_frequency_with_its_opposite(shape):
    height, width = shape
    for i, j in {
        (0, 0),
        (0, width // 2),
        (height // 2, width // 2),
        (height - 1, width - 1),
        (height // 3, width // 4),
    }:
        wave = fourier_wave(*shape, i, j)
        assert float(wave.square().sum()) == pytest.approx(1)
        assert torch.equal(wave, fourier_wave(*shape, -i % height, -j % width))
        assert float(wave[0, 0]) == float(wave.max())  # phase 0
        spectrum = torch.fft.fft2(wave).abs()
        expected = torch.zeros(shape, dtype=torch.float64)
        expected[i, j] += 1
        expected[-i % height, -j % width] += 1
        expected *= float(spectrum.square().sum().sqrt() / expected.norm())
        torch.testing.assert_close(spectrum, expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("shape", [*SHAPES, (6, 9), (9, 4)])
def test_projections_are_inner_products_with_every_wave(shape):
    x = images(2, (3, *shape))
    projections = fourier_projections(x)
    assert projections.shape == x.shape
    for i in range(shape[0]):
        for j in range(shape[1]):
            expected = (x * fourier_wave(*shape, i, j)).sum((-2, -1))
            torch.testing.assert_close(projections[..., i, j], expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("mode", [lambda: torch.device("meta"), torch.inference_mode], ids=["meta", "inference"])
def test_what_is_kept_does_not_depend_on_the_mode_of_the_first_call(mode):
    size, long = (9, 11), LONGEST + 3  # of no other test
    x = images(2, (1, *size)).requires_grad_()
    _forget()
    with mode():
        kept = (
            dct_matrix(size[0], x.detach()), radial_rank(*size), low_pass_mask(*size, 0.5), bands(*size, 3),
            low_pass_mask(*size, 0.5, "radius"), dct(x.detach()), dct_1d(torch.zeros(long, device="cpu")),
        )  # fmt: skip
    assert {tensor.device.type for tensor in kept} == {"cpu"}
    low_pass(x, 0.5).sum().backward()
    assert x.grad is not None


def _forget():
    for function in (frequency._dct_matrix, radial_rank, low_pass_mask, bands):
        function.cache_clear()
