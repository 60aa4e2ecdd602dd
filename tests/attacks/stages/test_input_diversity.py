import pytest
import torch
import torch.nn.functional as F

from holdfast.attacks.search import Aim
from holdfast.attacks.stages import Climb, InputDiversity
from holdfast.attacks.stages.input_diversity import _framed, interpolation, resized_side
from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.threat import Linf
from tests.zoo import images, labels, smooth


def climb(model, x, y):
    return Climb(model, Aim.of(cross_entropy, y, None), Linf(0.1), 0.01, 10, x)


@pytest.mark.parametrize(("size", "new"), [(32, 29), (32, 35), (7, 8), (5, 5), (1, 3), (3, 1)])
def test_interpolates_as_torch_does(size, new):
    x = images(2, (3, size, size))
    ours = interpolation(size, new) @ x @ interpolation(size, new).mT
    theirs = F.interpolate(x, size=[new, new], mode="bilinear", align_corners=False)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_an_image_is_shrunk_into_a_frame_of_zeros_or_enlarged_and_shrunk_again():
    x = images(1, (1, 20, 20))
    small = F.pad(F.interpolate(x, size=[17, 17], mode="bilinear"), (1, 2, 3, 0))
    rows, columns = _framed(20, 17, 3, 20), _framed(20, 17, 1, 20)
    torch.testing.assert_close(rows @ x @ columns.mT, small, rtol=0, atol=1e-12)
    large = F.pad(F.interpolate(x, size=[21, 21], mode="bilinear"), (0, 1, 1, 0))
    rows, columns = _framed(20, 21, 1, 22), _framed(20, 21, 0, 22)
    shrunk = F.interpolate(large, size=[20, 20], mode="bilinear")
    torch.testing.assert_close(rows @ x @ columns.mT, shrunk, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rate", [0.7, 1.3])
def test_the_slope_is_the_gradient_through_the_change(rate):
    model, x, y = smooth(shape=(2, 10, 12)), images(5, (2, 10, 12)), labels(5, 5)
    stage, seen = InputDiversity(rate=rate), []
    made = climb(model, x, y)

    def slope(z):
        seen.append(z)
        return made.gradient_of(model)(z)

    result = stage(slope, made, Streams(3, "a", 5))(x)
    rows, columns = stage._draw(x, Streams(3, "a", 5))
    z = x.clone().requires_grad_()
    changed = rows @ z @ columns.mT
    assert torch.equal(seen[0], changed)
    (expected,) = torch.autograd.grad(cross_entropy(model(changed), y).sum(), z)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
    assert not torch.equal(seen[0], x)


def drawn(rate, count=400, side=20, probability=1.0):
    """Sides, and places from above and left, of images of ones, with how large the frame is."""
    x = torch.ones(count, 1, side, side, dtype=torch.float64)
    rows, columns = InputDiversity(rate=rate, probability=probability)._draw(x, Streams(0, "d", count))
    return (rows @ x @ columns.mT)[:, 0], x


def test_each_example_has_a_size_and_a_place_of_its_own_that_reach_every_edge():
    z, _ = drawn(0.8)
    inside = z > 0.5
    heights, widths = inside.any(2).sum(1), inside.any(1).sum(1)
    assert set(heights.tolist()) == set(widths.tolist()) == {16, 17, 18, 19}
    assert torch.equal(heights, widths)
    for edge in (inside[:, 0].any(1), inside[:, -1].any(1), inside[:, :, 0].any(1), inside[:, :, -1].any(1)):
        assert 40 < int(edge.sum()) < 360  # the frame's lower and right edges, too


def test_half_of_the_images_stay_as_they_are():
    z, x = drawn(0.8, probability=0.5)
    same = int((z == x[:, 0]).flatten(1).all(1).sum())
    assert 140 < same < 260
    z, x = drawn(0.8, probability=0.0)
    assert torch.equal(z, x[:, 0])


@pytest.mark.parametrize("rate", [0.9, 1.1, 0.99, 1.01])
def test_a_small_image_changes_by_one_pixel_at_least(rate):
    # TransferAttack asks for a number between 8 and 8 here, which is an error.
    z, x = drawn(rate, side=8)
    assert bool((z != x[:, 0]).flatten(1).any(1).all())


def test_a_line_of_pixels_keeps_its_one_row():
    assert [resized_side(1, rate) for rate in (0.5, 1.0, 1.5)] == [1, 1, 1]
    assert [resized_side(8, rate) for rate in (0.5, 0.99, 1.0, 1.01, 1.5)] == [4, 7, 8, 9, 12]


@pytest.mark.parametrize("fields", [{"rate": 0.0}, {"rate": 2.5}, {"probability": 1.1}, {"probability": -0.1}])
def test_impossible_fields_are_refused(fields):
    with pytest.raises(ValueError, match="rate must lie in"):
        InputDiversity(**fields)
