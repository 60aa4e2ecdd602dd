"""Patches, stripes and lost detail: how much is hidden, and where."""

import pytest
import torch

from holdfast.corruptions import DownUp, Occlusion, Stripes
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images

BRIGHT = torch.full((400, 1, 12, 10), 0.5)


def test_defaults_are_the_published_numbers():
    assert (Occlusion(size=70).count, Stripes(thickness=6).count, DownUp().factor) == (20, 10, 3)


def test_one_patch_hides_its_area_anywhere_inside_equally_often():
    many = BRIGHT[:1].expand(4000, -1, -1, -1)
    hidden = Occlusion(count=1, size=3)(many, rng=Streams(0, "", 4000)) == 0
    assert (hidden.flatten(1).sum(1) == 9).all()
    corners = hidden[:, 0].int().flatten(1).argmax(1)  # the first hidden pixel is the corner of the patch
    rows, columns = corners // 10, corners % 10
    assert rows.unique().tolist() == list(range(10))
    assert columns.unique().tolist() == list(range(8))
    assert (rows.bincount() / 4000 - 0.1).abs().max() < chance.share_error(4000, 0.1, count=10)
    assert (columns.bincount() / 4000 - 0.125).abs().max() < chance.share_error(4000, 0.125, count=8)


def test_patches_are_squares_and_overlap_only_by_chance():
    many = BRIGHT[:1].expand(4000, -1, -1, -1)
    hidden = Occlusion(count=2, size=3)(many, rng=Streams(1, "", 4000)) == 0
    covered = hidden.flatten(1).sum(1)
    assert covered.max() == 18
    assert covered.min() >= 9
    # two random 3x3 squares of 12 x 10 share this much on average
    shared = 1.0
    for side in (12, 10):
        places = range(side - 2)
        shared *= sum(max(0, 3 - abs(a - b)) for a in places for b in places) / len(places) ** 2
    assert chance.has_mean(covered, 18 - shared)


def test_stripes_are_whole_columns():
    hidden = Stripes(count=1, thickness=4)(BRIGHT, rng=Streams(0, "", 400)) == 0
    columns = hidden[:, 0].all(1)
    assert (columns.sum(1) == 4).all()
    assert torch.equal(hidden[:, 0].any(1), columns)


def test_what_is_larger_than_the_image_covers_it():
    assert (Occlusion(count=1, size=50, value=1.0)(BRIGHT) == 1).all()
    assert (Stripes(count=1, thickness=50)(BRIGHT) == 0).all()


def test_channels_are_hidden_together():
    x = images(5, (3, 8, 8))
    for corruption in (Occlusion(count=2, size=3, value=0.25), Stripes(count=2, thickness=2, value=0.25)):
        hidden = corruption(x) == 0.25
        assert torch.equal(hidden[:, 0], hidden[:, 2])
        assert torch.equal(corruption(x)[~hidden], x[~hidden])


BOARD = ((torch.arange(12)[:, None] + torch.arange(12)) % 2).float().expand(1, 1, 12, 12)


@pytest.mark.parametrize("antialias", [False, True])
def test_what_is_coarser_than_the_sampling_stays(antialias):
    ramp = torch.linspace(0, 1, 12).expand(1, 1, 12, 12)
    down_up = DownUp(factor=3, antialias=antialias)
    torch.testing.assert_close(down_up(ramp)[..., 1:-1], ramp[..., 1:-1], atol=1e-6, rtol=0)
    assert float((down_up(ramp) - ramp).abs().max()) < 0.1
    torch.testing.assert_close(DownUp(factor=1, antialias=antialias)(BOARD), BOARD)


def test_finer_detail_is_lost_with_antialiasing_and_becomes_a_pattern_without():
    assert float((DownUp(factor=3, antialias=True)(BOARD) - 0.5).abs().max()) < 0.06
    torch.testing.assert_close(DownUp(factor=100, antialias=True)(BOARD), torch.full_like(BOARD, 0.5))
    # With a factor of 3 the sampling points are the pixels 1, 4, 7, 10: every third one is the board again.
    small = BOARD[..., 1::3, 1::3]
    expected = torch.nn.functional.interpolate(small, (12, 12), mode="bilinear", align_corners=False)
    torch.testing.assert_close(DownUp(factor=3)(BOARD), expected)
    assert float((expected - 0.5).abs().max()) == 0.5


def test_sampling_without_antialiasing_by_hand():
    # Eight pixels to int(8 / 3) = 2: points 1.5 and 5.5, so (x1 + x2) / 2 and (x5 + x6) / 2; back at (2i - 3) / 8.
    x = torch.tensor([0.9, 0.2, 0.4, 0.9, 0.9, 0.5, 0.7, 0.9], dtype=torch.float64).view(1, 1, 1, 8)
    low, high = 0.3, 0.6
    between = [low + (high - low) * (i + 0.5 - 2) / 4 for i in range(2, 6)]
    expected = torch.tensor([low, low, *between, high, high], dtype=torch.float64).view(1, 1, 1, 8)
    torch.testing.assert_close(DownUp(factor=3)(x), expected)
    # With antialiasing 8 / 3 is rounded to 3 pixels, means over pixels 0 to 2, 2 to 5 and 5 to 7.
    means = torch.tensor([0.5, 0.675, 0.7], dtype=torch.float64).view(1, 1, 1, 3)
    expected = torch.nn.functional.interpolate(means, (1, 8), mode="bilinear", align_corners=False)
    torch.testing.assert_close(DownUp(factor=3, antialias=True)(x), expected)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Occlusion(count=0, size=3), "count and size must be at least 1, got 0 and 3"),
        (lambda: Occlusion(size=0), "count and size must be at least 1"),
        (lambda: Stripes(thickness=0), "count and thickness must be at least 1, got 10 and 0"),
        (lambda: Stripes(thickness=1, value=2.0), r"value must lie in \[0, 1\], got 2"),
        (lambda: DownUp(factor=0.5), "factor must be at least 1, got 0.5"),
    ],
)
def test_bad_arguments_are_one_line(make, says):
    with pytest.raises(ValueError, match=says):
        make()
