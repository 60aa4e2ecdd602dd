"""What a network computes tells it from another with equal weights."""

import math

import pytest
import torch
from torch import nn

from holdfast.data import Digits
from holdfast.runs import outputs_of
from holdfast.wrappers import BPDA
from tests.training.tiny import network

TEST = Digits()().test


class Edited(nn.Module):
    """The same weights in another forward pass."""

    def __init__(self, change):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            self.layer = nn.Linear(64, 10)
        self.change = change

    def forward(self, x):
        return self.change(self.layer(x.flatten(1)))


def recorded(change=lambda z: z):
    return outputs_of(Edited(change), TEST).facts()


CHANGES = {
    "sign": lambda z: -z,
    "scale": lambda z: z * 1.0001,
    "two classes": lambda z: z[:, [1, 0, *range(2, 10)]],
    "one class": lambda z: torch.cat((z[:, :9], z[:, 9:] + 1e-4), 1),
    "shift": lambda z: z + 0.01,
    "not finite": lambda z: z * math.nan,
    "random": lambda z: z + torch.rand_like(z),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_equal_weights_with_another_forward_pass_differ(change):
    assert outputs_of(Edited(change), TEST).differs_from(recorded()) is not None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_network_is_itself(change):
    assert outputs_of(Edited(change), TEST).differs_from(recorded(change)) is None


def test_a_change_that_only_odd_images_show_is_seen():
    """Pixels of the digits are multiples of 1/16."""
    odd = Edited(lambda z: z)
    forward = odd.forward
    odd.forward = lambda x: forward(x) + ((x * 16) % 1 != 0).any().double()
    assert outputs_of(odd, TEST).differs_from(recorded()) is not None


def test_rounding_to_float32_is_no_difference_where_float64_is_impossible():
    def single(z):
        return z.float() if z.dtype == torch.float64 else z

    model = Edited(single)
    outputs = outputs_of(model, TEST)
    assert outputs.precision == "float32"
    assert outputs.differs_from(recorded()) is None
    assert outputs_of(Edited(lambda z: single(z) * 1.1), TEST).differs_from(outputs.facts()) is not None


class OnlySingle(nn.Module):
    """Refuses float64 and to be copied."""

    def __init__(self):
        super().__init__()
        self.layer = Edited(lambda z: z).layer

    def __deepcopy__(self, memo):
        raise RuntimeError("one of a kind")

    def forward(self, x):
        return self.layer(x.flatten(1))


def test_a_network_that_cannot_be_copied_is_asked_in_its_own_precision():
    outputs = outputs_of(OnlySingle(), TEST)
    assert outputs.precision == "float32"
    assert outputs.differs_from(recorded()) is None


def test_what_a_wrapper_does_counts():
    model = Edited(lambda z: z).float()
    plain, rounded = (outputs_of(BPDA(model, step), TEST) for step in (lambda x: x, lambda x: x.round()))
    assert plain.precision == "float32"
    assert plain.differs_from(recorded()) is None
    assert rounded.differs_from(plain.facts()) is not None


def test_randomness_that_no_seed_reaches_leaves_no_values():
    source = torch.Generator().manual_seed(1)
    model = Edited(lambda z: z + torch.rand(z.shape, generator=source))
    outputs = outputs_of(lambda x: model(x), TEST)
    assert outputs.values == ()
    assert outputs.differs_from(outputs.facts()) is None
    assert outputs.differs_from(recorded()) is not None


def test_nothing_of_the_network_or_the_global_randomness_changes():
    model = network().train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    generator = torch.get_rng_state()
    outputs = outputs_of(model, TEST)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert {tensor.dtype for tensor in model.parameters()} == {torch.float32}
    assert outputs_of(model.eval(), TEST) == outputs  # dropout is off


def test_a_digest_tells_networks_apart_and_survives_rounding():
    same, other = (outputs_of(Edited(change), TEST).digest() for change in (lambda z: z * (1 + 1e-13), CHANGES["sign"]))
    assert same == outputs_of(Edited(lambda z: z), TEST).digest() != other
