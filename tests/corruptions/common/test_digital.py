import colorsys
import io

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from holdfast.corruptions.common import digital
from holdfast.corruptions.common.digital import contrast, elastic_transform, jpeg_compression, pixelate, saturate
from holdfast.corruptions.common.draws import symmetric
from holdfast.corruptions.common.filters import smooth
from holdfast.rng import Streams
from tests.corruptions.common.pictures import pictures
from tests.zoo import images

X = images(3, (3, 24, 31))
RNG = Streams(0, "", 3)


def test_contrast_shrinks_distances_from_the_mean_of_each_channel():
    mean = X.mean((2, 3), keepdim=True)
    torch.testing.assert_close(contrast(X, (0.3,), RNG), mean + 0.3 * (X - mean))


@pytest.mark.parametrize("parameters", [(0.3, 0), (2, 0), (5, 0.1), (30, 0.2)])
def test_saturate_changes_the_saturation_of_hsv(parameters):
    x = images(1, (3, 4, 4)).round(decimals=2)
    x[0, :, 0, 0], x[0, :, 0, 1] = 0, 0.4
    z = saturate(x, parameters, Streams())
    for row in range(4):
        for column in range(4):
            hue, saturation, value = colorsys.rgb_to_hsv(*x[0, :, row, column].tolist())
            target = min(parameters[0] * saturation + parameters[1], 1)
            expected = colorsys.hsv_to_rgb(hue, target, value)
            assert z[0, :, row, column].tolist() == pytest.approx(expected, abs=1e-6)


def test_grey_images_have_no_saturation():
    assert torch.equal(saturate(X[:, :1], (5, 0.1), RNG), X[:, :1])


@pytest.mark.parametrize(
    ("size", "share"), [((32, 32), 0.95), ((32, 32), 0.65), ((31, 24), 0.3), ((8, 8), 0.75), ((8, 9), 0.1)]
)
def test_pixels_are_those_of_pillow(size, share):
    x = images(1, (3, *size)).mul(255).round()
    picture = Image.fromarray(x[0].permute(1, 2, 0).byte().numpy())
    small = picture.resize((max(1, int(size[1] * share)), max(1, int(size[0] * share))), Image.Resampling.BOX)
    expected = np.asarray(small.resize((size[1], size[0]), Image.Resampling.NEAREST)).transpose(2, 0, 1)
    z = pixelate(x / 255, (share,), Streams()) * 255
    assert float((z[0] - torch.from_numpy(expected.copy())).abs().max()) <= 1 + 1e-9  # Pillow rounds twice


@pytest.mark.parametrize("quality", [80, 25, 7])
def test_jpeg_is_that_of_a_real_encoder(quality):
    x = pictures(2, 32)
    z = jpeg_compression(x, (quality,), Streams(0, "", 2))
    for image, result in zip(x, z, strict=True):
        file = io.BytesIO()
        Image.fromarray(image.mul(255).round().byte().permute(1, 2, 0).numpy()).save(file, "JPEG", quality=quality)
        assert np.array_equal(np.asarray(Image.open(file)).transpose(2, 0, 1), result.mul(255).round().byte().numpy())


def test_jpeg_results_have_8_bits_and_grey_stays_grey():
    x = pictures(2, 32).double()
    z = jpeg_compression(x[:, :1], (40,), Streams(0, "", 2)) * 255
    torch.testing.assert_close(z, z.round())
    assert z.shape == (2, 1, 32, 32)
    assert 0 < float((z - x[:, :1] * 255).abs().mean()) < 10


def test_elastic_without_displacement_and_movement_changes_nothing():
    assert torch.equal(elastic_transform(X, (0, 0, 0), RNG), X)


def test_displacements_are_smoothed_noise_and_interpolation_is_that_of_scipy():
    z = elastic_transform(X, (4.0, 1.5, 0), Streams(1, "e", 3))
    noise = symmetric(Streams(1, "e", 3), X.new_empty(3, 2, 24, 31))
    shift = smooth(noise, 1.5, truncate=3, border="reflect").numpy() * 4
    rows, columns = np.mgrid[:24, :31]
    for image, move, result in zip(X.numpy(), shift, z.numpy(), strict=True):
        for channel, plane in zip(image, result, strict=True):
            place = (rows + move[1], columns + move[0])
            np.testing.assert_allclose(
                plane, ndimage.map_coordinates(channel, place, order=1, mode="reflect"), atol=1e-9
            )


def test_the_affine_map_takes_three_points_where_they_were_moved():
    height, width = 30, 40
    x = images(5, (1, height, width))
    grid = digital._affine_grid(x, 4.0, Streams(3, "a", 5))
    place = (grid + 1) / 2 * torch.tensor([width - 1, height - 1])  # pixels, (x, y)
    moves = symmetric(Streams(3, "a", 5), x.new_empty(5, 3, 2)) * 4
    points = torch.tensor([[30, 25], [30, 5], [10, 5]]).double()
    # The grid is affine: recover it from three pixels and look where the moved points come from.
    origin, right, down = place[:, 0, 0], place[:, 0, 1] - place[:, 0, 0], place[:, 1, 0] - place[:, 0, 0]
    moved = points + moves
    found = origin[:, None] + moved[..., :1] * right[:, None] + moved[..., 1:] * down[:, None]
    torch.testing.assert_close(found, points.expand(5, 3, 2))


def test_the_affine_map_mirrors_what_lies_outside():
    x = torch.full((4, 3, 16, 16), 0.37, dtype=torch.float64)
    torch.testing.assert_close(elastic_transform(x, (0, 0, 6.0), Streams(0, "", 4)), x)
