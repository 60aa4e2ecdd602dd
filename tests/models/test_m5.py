"""The network of raw waveforms."""

import pytest
import torch
from torch import nn

from holdfast.models import MODELS
from holdfast.models.m5 import M5


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_has_the_parameters_of_the_tutorial_but_for_biases_before_normalisations():
    # 26,915 is what the tutorial prints for 35 classes; its four convolutions have 32 + 32 + 64 + 64 biases.
    tutorial = M5(channels=(32, 32, 64, 64), stride=16)
    assert parameters(tutorial((1, 1, 8000), 35)) == 26_915 - 192


def test_lengths_shrink_by_the_stride_and_by_four_each_time():
    # 32,000 samples, as in the paper: the first layer and its pool reduce them by 16.
    with torch.no_grad():
        maps = [
            tuple(stage.shape[1:]) for stage in M5(width=0.125)((1, 1, 32000), 10).stages(torch.rand(1, 1, 1, 32000))
        ]
    assert maps == [(16, 1, 2000), (16, 1, 500), (32, 1, 125), (64, 1, 32)]


def test_sees_along_the_signal_only():
    model = M5(width=0.1)((1, 3, 64), 4).eval()
    kernels = [module.kernel_size for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert kernels == [(1, 80), (1, 3), (1, 3), (1, 3)]
    x = torch.rand(2, 1, 3, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(model(x), model(x.flip(2)))
        assert not torch.allclose(model(x), model(x.flip(3)))


def test_sizes_that_are_none_are_refused():
    for fields in ({"channels": ()}, {"stride": 0}, {"pool": 0}, {"kernel": 0}):
        with pytest.raises(ValueError, match="m5: channels, kernel, stride, pool: expected numbers of at least 1"):
            M5(**fields)
    assert isinstance(MODELS["m5"], M5)
