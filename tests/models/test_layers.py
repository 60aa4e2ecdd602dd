import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from holdfast.models.layers import convolution, groups, normalisation, quiet, scaled


@given(st.integers(1, 4096))
def test_groups_always_divide_the_channels(channels):
    count = groups(channels)
    assert channels % count == 0
    assert 1 <= count <= 32
    assert count == 1 or channels // count >= 8


def test_groups_of_usual_widths():
    assert [groups(channels) for channels in (4, 16, 64, 160, 256, 512, 640)] == [1, 2, 8, 20, 32, 32, 32]


@given(st.integers(1, 1000), st.floats(0.001, 10))
def test_scaled_channels_are_at_least_four(channels, width):
    assert scaled(channels, width) >= 4


def test_group_normalisation_survives_maps_of_one_pixel():
    x = torch.randn(2, 16, 1, 1, generator=torch.Generator().manual_seed(0))
    assert normalisation("group", 16)(x).abs().sum() > 1


def test_layer_normalisation_is_over_all_channels_and_places_of_an_image():
    x = torch.randn(2, 16, 3, 5, generator=torch.Generator().manual_seed(0)) * 3 + 1
    mean, variance = (of((1, 2, 3), keepdim=True) for of in (x.mean, lambda *a, **k: x.var(*a, **k, correction=0)))
    torch.testing.assert_close(normalisation("layer", 16)(x), (x - mean) / (variance + 1e-5).sqrt())


def test_weights_keep_the_scale_of_relu_activations():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.randn(4, 64, 16, 16)
        layers = [layer for _ in range(12) for layer in (convolution(64, 64, 1), nn.ReLU())]
        assert 0.2 < nn.Sequential(*layers)(x).square().mean() / x.relu().square().mean() < 5


def test_a_quiet_branch_starts_at_zero_and_shrinks_its_other_layers():
    with torch.random.fork_rng(devices=[]):
        branch = nn.Sequential(convolution(4, 4), nn.ReLU(), convolution(4, 4))
    first = branch[0].weight.detach().clone()
    quiet(branch, 16)
    assert branch(torch.rand(1, 4, 5, 5)).abs().max() == 0
    torch.testing.assert_close(branch[0].weight, first / 4)
