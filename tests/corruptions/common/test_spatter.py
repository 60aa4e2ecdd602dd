import numpy as np
import torch
from scipy import ndimage

from holdfast.corruptions.common import spatter as module
from holdfast.corruptions.common.filters import smooth
from holdfast.corruptions.common.spatter import MUD, WATER, spatter
from holdfast.rng import Streams
from tests.zoo import images

X = images(3, (3, 24, 40))
WET = (0.65, 0.3, 1.0, 0.69, 0.5, 0)
DIRTY = (0.65, 0.3, 1.0, 0.65, 0, 1.5)


def test_mud_covers_where_there_is_much_liquid():
    z = spatter(X, DIRTY, Streams(0, "", 3))
    liquid = smooth(Streams(0, "", 3).normal(X[:, :1]) * 0.3 + 0.65, 1.0)
    cover = smooth((liquid > 0.65).double(), 1.5)
    cover = torch.where(cover < 0.8, 0, cover)
    assert 0.01 < float((cover > 0).double().mean()) < 0.5
    torch.testing.assert_close(z, X * (1 - cover) + cover * torch.tensor(MUD)[:, None, None] / 255)


def test_water_only_brightens_in_its_colour_and_up_to_its_strength():
    black = torch.zeros(8, 3, 32, 32, dtype=torch.float64)
    z = spatter(black, WET, Streams(0, "", 8))
    assert z.amax((2, 3)).allclose(torch.tensor(WATER).double() / 255 * 0.5)
    torch.testing.assert_close(z[:, 0] * 238, z[:, 1] * 175)
    assert 0.05 < float((z > 0).double().mean()) < 0.7


def test_without_liquid_nothing_changes():
    dry = (0.0, 0.01, 1.0, 0.69, 0.5, 0)
    assert torch.equal(spatter(X, dry, Streams(0, "", 3)), X)


def test_distances_are_euclidean_up_to_twenty():
    edge = images(2, (1, 50, 60)) > 0.998
    expected = np.stack([ndimage.distance_transform_edt(~plane[0].numpy()) for plane in edge])
    found = module._distance(edge)[:, 0].clamp(max=20)
    np.testing.assert_allclose(found.numpy(), expected.clip(max=20), rtol=1e-6)


def test_edges_lie_around_the_liquid_and_weak_ones_need_a_strong_neighbour():
    depth = torch.zeros(1, 1, 20, 40)
    depth[..., 5:15, 5:15] = 200
    depth[..., 5:15, 25:35] = 20  # gradient 80: above 50, never above 150
    edge = module._edges(depth)[0, 0]
    assert not bool(edge[:, 20:].any())
    assert bool(edge[4:16, 4:16].any())
    assert not bool(edge[7:13, 7:13].any())
    depth[..., 5:15, 15:35] = 20  # now the weak edge hangs together with the strong one
    assert bool(module._edges(depth)[0, 0, :, 20:].any())


def test_equalised_levels_are_spread_evenly():
    level = torch.arange(16.0).repeat_interleave(4).view(1, 1, 8, 8)
    found = module._equalised(level)
    assert found.unique().tolist() == [17.0 * k for k in range(16)]
    assert torch.equal(module._equalised(torch.full((1, 1, 4, 4), 7.0)), torch.full((1, 1, 4, 4), 7.0))
    lonely = torch.tensor([3.0, 10.0, 10.0, 20.0]).view(1, 1, 2, 2)  # one pixel is the darkest level, too
    assert module._equalised(lonely).flatten().tolist() == [0.0, 170.0, 170.0, 255.0]


def test_distance_counts_up_to_the_published_twenty_pixels():
    assert module.FAR == 20
    nothing = torch.zeros(1, 1, 8, 30, dtype=torch.bool)
    assert bool((module._distance(nothing) > 20).all())


def test_an_edge_is_one_pixel_wide_and_lies_before_the_step():
    # Both sides of a step have the same gradient; Canny as the reference has it keeps the first along the axis.
    across = torch.zeros(1, 1, 9, 12)
    across[..., 6:] = 200
    assert module._edges(across)[0, 0].any(0).nonzero().flatten().tolist() == [5]
    assert module._edges(across.flip(-1))[0, 0].any(0).nonzero().flatten().tolist() == [5]
    down = across.transpose(-1, -2)
    assert module._edges(down)[0, 0].any(1).nonzero().flatten().tolist() == [5]


def test_the_ridge_of_a_slanted_gradient_is_above_both_its_neighbours():
    size = torch.zeros(1, 1, 5, 5)
    size[0, 0, 2, 2] = 4
    one = torch.ones_like(size)
    for neighbours, down in ((((1, 1), (3, 3)), one), (((1, 3), (3, 1)), -one)):
        assert bool(module._is_ridge(size, one, down)[0, 0, 2, 2])
        for y, x in neighbours:
            tied = size.clone()
            tied[0, 0, y, x] = 4
            assert not bool(module._is_ridge(tied, one, down)[0, 0, 2, 2])
            other = size.clone()
            other[0, 0, y, 4 - x] = 9  # beside the gradient, not along it
            assert bool(module._is_ridge(other, one, down)[0, 0, 2, 2])


def test_directions_change_at_22_and_a_half_and_67_and_a_half_degrees():
    size = torch.zeros(1, 1, 3, 3)
    size[0, 0, 1] = torch.tensor([9.0, 4.0, 9.0])  # larger to the left and to the right
    size[0, 0, 0, 0] = 1
    for degrees, ridge in ((22, False), (23, True), (67, True), (68, True), (90, True)):
        angle = torch.full_like(size, np.deg2rad(degrees))
        assert bool(module._is_ridge(size, angle.cos(), angle.sin())[0, 0, 1, 1]) is ridge
    tall = size.transpose(-1, -2)
    for degrees, ridge in ((0, True), (22, True), (67, True), (68, False), (90, False)):
        angle = torch.full_like(size, np.deg2rad(degrees))
        assert bool(module._is_ridge(tall, angle.cos(), angle.sin())[0, 0, 1, 1]) is ridge


def test_gradients_count_from_their_thresholds_on():
    def edge_pixels(step):
        depth = torch.zeros(1, 1, 7, 8)
        depth[..., 4:] = step
        return int(module._edges(depth).sum())

    assert edge_pixels(37.0) == 0  # 4 * 37 = 148 is no strong edge
    assert edge_pixels(38.0) == 7
    for weak, rows in ((12, 21), (13, 40)):  # gradients of 48 and 52 beside one of 160
        depth = torch.zeros(1, 1, 40, 8)
        depth[..., :20, 4:], depth[..., 20:, 4:] = weak, 40
        assert abs(int(module._edges(depth)[0, 0].any(1).sum()) - rows) <= 1


def test_light_comes_from_one_side_and_is_whole_numbers():
    depth = torch.zeros(1, 1, 24, 24)
    depth[..., 8:16, 8:16] = 200
    lit = module._lit_rim(depth)
    assert torch.equal(lit, lit.round())
    assert 0 <= float(lit.min()) < float(lit.max()) <= 255
    assert float(lit[..., 16:, 16:].mean()) > 2 * float(lit[..., :8, :8].mean())
