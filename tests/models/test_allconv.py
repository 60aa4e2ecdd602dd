"""The AllConvNet of the AugMix code against the same layers written out."""

import pytest
import torch
from torch import nn

from holdfast.models import MODELS, build
from holdfast.models.allconv import AllConvAugMix


def written_out(width=24, twice=48):
    """The layers of the published network in its order, for 32x32 images (with the exact GELU)."""

    def convolution(inputs, outputs, kernel, padding):
        return [nn.Conv2d(inputs, outputs, kernel, padding=padding), nn.BatchNorm2d(outputs), nn.GELU()]

    pool = [nn.MaxPool2d(kernel_size=2, stride=2), nn.Dropout(p=0.5)]
    first = convolution(3, width, 3, 1) + convolution(width, width, 3, 1) + convolution(width, width, 3, 1)
    second = convolution(width, twice, 3, 1) + convolution(twice, twice, 3, 1) + convolution(twice, twice, 3, 1)
    third = convolution(twice, twice, 3, 0) + convolution(twice, twice, 1, 1) + convolution(twice, twice, 1, 1)
    return nn.Sequential(*first, *pool, *second, *pool, *third, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(twice, 10))


@pytest.mark.parametrize("training", [False, True])
def test_computes_what_the_published_layers_do(training):
    ours, theirs = build(AllConvAugMix(width=0.25), (3, 32, 32), 10), written_out()
    state = {name: tensor for name, tensor in ours.state_dict().items() if not name.startswith("normalise")}
    theirs.load_state_dict(dict(zip(theirs.state_dict(), state.values(), strict=True)))
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    results = []
    for model in (ours.train(training), theirs.train(training)):
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(3)  # dropout draws the same
            results.append(model(x))
    torch.testing.assert_close(*results)


def test_dropout_is_an_option_and_must_be_a_probability():
    assert [
        module.p for module in MODELS["allconv-augmix"]((3, 32, 32), 10).modules() if isinstance(module, nn.Dropout)
    ] == [
        0.5,
        0.5,
    ]
    with pytest.raises(ValueError, match=r"dropout: expected a probability below 1, got 1\.0"):
        AllConvAugMix(dropout=1.0)
