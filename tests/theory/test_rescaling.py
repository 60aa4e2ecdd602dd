"""Proposition 5.3: margins and dispersions scale, classes stay, and probabilities do not (which is printed wrong)."""

import pytest
import torch

from holdfast.errors import ModelError
from holdfast.models.cnn import CNN
from holdfast.models.linear import Linear
from holdfast.models.mlp import MLP
from holdfast.models.mobilenet import MobileNetV3Small
from holdfast.models.resnet import ResNet
from holdfast.questions.classes.measurement import geometry_of
from holdfast.theory.rescaling import rescaled
from tests.zoo import images, labels, seeded

SHAPE = (1, 12, 12)
MAKES = {
    "a neck": MLP(hidden=(8,), feature_dim=5),
    "a hidden layer and ReLU": MLP(hidden=(8,)),
    "a convolution, ReLU and pooling": CNN(blocks=((4,), (4,)), pool=2, feature_dim=None),
    "a normalisation and ReLU": CNN(blocks=((4,),), pool=2, norm="batch", feature_dim=None),
    "a residual network with a neck": ResNet(blocks=(1, 1, 1, 1), width=0.1, feature_dim=6),
}


def network(architecture):
    made = seeded(lambda: architecture(SHAPE, 4)).double().eval()
    with torch.no_grad():
        made.head.bias.copy_(torch.tensor([0.5, -0.2, 0.1, 0.0]))
    return made


@pytest.mark.parametrize("nu", [0.25, 3.0])
@pytest.mark.parametrize("architecture", MAKES.values(), ids=MAKES)
def test_features_logits_margins_and_dispersions_scale_and_classes_stay(architecture, nu):
    model, x, y = network(architecture), images(12, SHAPE), labels(12, 4)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    other = rescaled(model, nu)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    with torch.no_grad():
        torch.testing.assert_close(other.features(x), nu * model.features(x))
        torch.testing.assert_close(other(x), nu * model(x))
        assert torch.equal(other(x).argmax(1), model(x).argmax(1))
        here, there = (geometry_of(one.features(x), y, one.head.weight, one.head.bias) for one in (model, other))
    torch.testing.assert_close(there.margin, nu * here.margin)
    torch.testing.assert_close(there.dispersion, nu * here.dispersion)


def test_the_printed_claim_that_outputs_stay_is_wrong_for_probabilities():
    model, x = network(MAKES["a neck"]), images(6, SHAPE)
    with torch.no_grad():
        here, there = model(x).softmax(1), rescaled(model, 3.0)(x).softmax(1)
    assert torch.equal(here.argmax(1), there.argmax(1))
    assert float((here - there).abs().max()) > 0.01


def test_the_parameters_move_on_a_line():
    """Statement 3: the change is (nu - 1) times a vector that does not depend on nu."""
    model = network(MAKES["a neck"])
    changes = [
        torch.cat(
            [
                (a - b).detach().flatten()
                for a, b in zip(rescaled(model, nu).parameters(), model.parameters(), strict=True)
            ]
        )
        for nu in (0.5, 3.0)
    ]
    torch.testing.assert_close(changes[0] / -0.5, changes[1] / 2)
    assert float(changes[0].abs().max()) > 0


@pytest.mark.parametrize(
    ("architecture", "says"),
    [
        (Linear(), "got none; a network with a feature_dim has one"),
        (ResNet(blocks=(1, 1, 1, 1), width=0.1), "got Residual; a network with a feature_dim has one"),
        (MobileNetV3Small(width=0.125), "got HardSwish; a network with a feature_dim has one"),
    ],
)
def test_networks_without_such_a_layer_are_one_line(architecture, says):
    with pytest.raises(ModelError, match=says):
        rescaled(network(architecture), 2.0)


def test_the_scale_is_positive():
    with pytest.raises(ValueError, match="nu must be positive and finite, got 0"):
        rescaled(network(Linear(feature_dim=3)), 0)


def test_networks_from_elsewhere_are_one_line():
    with pytest.raises(ModelError, match="expected one of holdfast's networks, got Linear"):
        rescaled(torch.nn.Linear(2, 2), 2.0)
