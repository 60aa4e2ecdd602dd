"""What every network promises; tests/models has what is particular to each."""

import pytest
import torch

from holdfast.models import MODELS, build
from holdfast.testing.untouched import same_module, same_random_states
from tests.contracts import cheap
from tests.zoo import images

SHAPE = (3, 16, 16)
NAMES = [name for name in MODELS if name not in cheap.EXTERNAL]


def network(name, classes=5):
    return build(cheap.cheap(cheap.CHEAP_MODELS, name, "MODELS"), SHAPE, classes, mean=[0.5] * 3, std=[0.2] * 3)


@pytest.mark.parametrize("name", NAMES)
def test_eval_mode_answers_each_image_alone(name):
    model, x = network(name).double().eval(), images(5, SHAPE)
    with torch.no_grad(), same_random_states(), same_module(model):
        whole = model(x)
        order = torch.tensor([3, 0, 4, 2, 1])
        torch.testing.assert_close(model(x[order]), whole[order], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(model(x[2:3]), whole[2:3], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_the_head_of_the_features(name):
    model, x = network(name).double().eval(), images(2, SHAPE)
    with torch.no_grad():
        assert model(x).shape == (2, 5)
        assert model.features(x).dim() == 2
        assert torch.equal(model.head(model.features(x)), model(x))


@pytest.mark.parametrize("name", NAMES)
def test_weights_depend_on_the_seed_alone(name):
    torch.rand(3)
    with same_random_states():
        first = network(name).state_dict()
    torch.rand(3)
    assert all(torch.equal(value, first[key]) for key, value in network(name).state_dict().items())
