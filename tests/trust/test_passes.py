"""Whether the images reach the network, and its layers, as they should."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.models.network import Normalised
from holdfast.modes import evaluating
from holdfast.trust.passes import RESCALED, UNTRAINED, input_range, scaling, train_mode
from tests import zoo


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (torch.tensor([[0.0, 1.0]]), "pass"),
        (torch.tensor([[-0.01, 1.0]]), "fail"),
        (torch.tensor([[0.0, 1.01]]), "fail"),
        (torch.tensor([[0.5, torch.nan]]), "fail"),
        (torch.tensor([[0.0, 1 / 255]]), "warn"),
    ],
)
def test_images_must_lie_in_the_box_and_use_it(x, expected):
    assert input_range(x).level == expected


class Layers(nn.Module):
    """A layer in a plain list, where `eval()` does not reach it."""

    def __init__(self, layer):
        super().__init__()
        self.hidden = [layer]

    def forward(self, x):
        return self.hidden[0](x)


@pytest.mark.parametrize(
    ("model", "calls"),
    [
        (nn.Dropout(0.5), 0),
        (nn.BatchNorm2d(1), 0),
        (nn.BatchNorm2d(1, track_running_stats=False), 1),
        (Layers(nn.Dropout(0.5)), 1),
        (Layers(nn.Dropout(0.0)), 0),
        (Layers(nn.BatchNorm2d(1)), 1),
        (Layers(nn.Conv2d(1, 1, 3)), 0),
        (lambda x: F.dropout2d(F.dropout(x)), 2),
        (lambda x: F.dropout(x, 0.5, False), 0),
        (lambda x: F.batch_norm(x, None, None, training=True), 1),
        (lambda x: F.rrelu(x, training=True), 1),
    ],
)
def test_calls_in_train_mode_are_seen_wherever_they_come_from(model, calls):
    x, _ = zoo.digits()
    with evaluating(model):
        verdict = train_mode(model, x[:4])
    assert verdict.value == calls
    assert verdict.level == ("fail" if calls else "pass")


def recorded(mean=0.5, std=0.25, layer=nn.BatchNorm2d):
    """A network that has seen all digits, normalised like this, and nothing else."""
    x, _ = zoo.digits()
    shape = (1, 8, 8) if layer is nn.BatchNorm2d else (64,)
    model = nn.Sequential(nn.Flatten(), nn.Unflatten(1, shape), layer(shape[0], momentum=None), nn.Flatten())
    model.train()((x - mean) / std)
    return model.eval()


@pytest.mark.parametrize("layer", [nn.BatchNorm2d, nn.BatchNorm1d])
def test_the_variance_is_compared_with_the_recorded_one(layer):
    x, _ = zoo.digits()
    model = recorded(layer=layer)
    right = scaling(Normalised(model, [0.5], [0.25]), x)
    assert (right.level, right.remedy) == ("pass", "")
    assert right.value == pytest.approx(1, abs=0.01)
    forgotten = scaling(model, x)
    assert (forgotten.level, forgotten.remedy) == ("fail", RESCALED)
    assert forgotten.value == pytest.approx(1 / 16, rel=0.01)
    assert scaling(Normalised(model, [0.5], [0.25 / 16]), x).level == "fail"  # 255 instead of 16 levels, say


@pytest.mark.parametrize(("std", "level"), [(0.13, "pass"), (0.12, "fail"), (0.49, "pass"), (0.51, "fail")])
def test_half_and_twice_the_scale_are_the_limits(std, level):
    x, _ = zoo.digits()
    assert scaling(Normalised(recorded(), [0.5], [std]), x).level == level


def test_a_network_without_its_weights_is_told_so():
    x, _ = zoo.digits()
    verdict = scaling(nn.Sequential(nn.BatchNorm2d(1), nn.Flatten()).eval(), x / 10)
    assert (verdict.level, verdict.remedy) == ("fail", UNTRAINED)


def test_the_first_layer_counts_and_channels_that_never_vary_do_not_decide():
    x, _ = zoo.digits()
    later = nn.BatchNorm1d(64).eval()
    assert scaling(nn.Sequential(*recorded(), nn.Flatten(), later).eval(), (x - 0.5) / 0.25).level == "pass"
    dead = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64)).eval()
    dead[1].running_var.copy_(x.flatten(1).var(0, correction=0))
    assert scaling(dead, x).value == pytest.approx(1)  # some pixels of the digits are always 0


def test_without_recorded_statistics_nothing_is_said():
    x, _ = zoo.digits()
    for model in (zoo.digits_mlp(), nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten()).eval()):
        assert scaling(model, 1000 * x).level == "pass"


def test_functions_are_seen_as_layers_are():
    x, _ = zoo.digits()

    def model(x):
        return F.batch_norm(x, torch.zeros(1), torch.full((1,), 100.0)).flatten(1)

    assert scaling(model, x).remedy == RESCALED
