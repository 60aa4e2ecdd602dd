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
