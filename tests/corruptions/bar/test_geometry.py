import pytest
import torch

from holdfast.corruptions.bar.geometry import aspect, combined_cover, pixels, sample, side, uniform
from holdfast.rng import Streams
from tests.corruptions.bar.pictures import natural

SHAPES = [(3, 32, 32), (1, 24, 40)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sampling_at_the_pixels_gives_the_image(shape):
    x = natural(3, shape)
    torch.testing.assert_close(sample(x, *pixels(x)), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_whole_pixels_shift_and_bring_in_black(shape):
    x = natural(3, shape)
    rows, columns = pixels(x)
    z = sample(x, rows + 2, columns - 3)
    expected = torch.zeros_like(x)
    expected[..., :-2, 3:] = x[..., 2:, :-3]
    torch.testing.assert_close(z, expected, rtol=0, atol=1e-12)


def test_between_pixels_it_is_linear_also_over_the_edge():
    x = natural(3)
    rows, columns = pixels(x)
    z = sample(x, rows, columns + 0.25)
    torch.testing.assert_close(z[..., :-1], 0.75 * x[..., :-1] + 0.25 * x[..., 1:], rtol=0, atol=1e-12)
    torch.testing.assert_close(z[..., -1], 0.75 * x[..., -1], rtol=0, atol=1e-12)


def test_every_image_can_have_its_own_places():
    x = natural(2)
    rows, columns = pixels(x)
    shift = torch.tensor([0.0, 1.0], dtype=torch.float64).view(2, 1, 1)
    z = sample(x, rows + shift, columns)
    torch.testing.assert_close(z[0], x[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(z[1, :, :-1], x[1, :, 1:], rtol=0, atol=1e-12)


def test_layers_cover_what_none_leaves_clear():
    layers = torch.tensor([0.5, 0.2, 0.0, 0.9])
    assert float(combined_cover(4, lambda i: layers[i].view(1))) == pytest.approx(1 - 0.5 * 0.8 * 0.1)


def test_lengths_go_by_the_shorter_side():
    x = torch.zeros(1, 1, 24, 36)
    assert (side(x), aspect(x)) == (24, 1.5)
    assert (side(x.mT), aspect(x.mT)) == (24, 1.5)


def test_numbers_lie_in_their_band():
    drawn = torch.cat(uniform(Streams(0, "", 500), torch.zeros(500, 1, 8, 8), 3, 2, 5), dim=1)
    assert drawn.shape == (500, 3, 1)
    assert 2 <= float(drawn.min()) < 2.02
    assert 4.98 < float(drawn.max()) < 5
