"""The first layer in another basis: gradient descent does not notice, methods that treat coordinates apart do."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.errors import RecipeError
from holdfast.models import MODELS, build
from holdfast.models.basis import Cosines, InBasis, first_layer
from holdfast.models.cnn import CNN
from holdfast.models.external import Python
from holdfast.models.m5 import M5
from holdfast.models.mlp import MLP
from holdfast.optim import SGD, Adam, RMSProp, SignSGD
from holdfast.runs import load_model, resolved
from holdfast.runs.networks import new_network
from tests.training.tiny import outcome, recipe, train

SHAPES = {"cnn": (2, 8, 8), "mlp": (2, 6, 5), "m5": (1, 1, 400)}
NETWORKS = {"cnn": CNN(blocks=((6,),), feature_dim=None), "mlp": MLP(hidden=(12,)), "m5": M5(width=0.04)}


def pair(name, dtype):
    """The network and the same in the other basis."""
    architectures = NETWORKS[name], InBasis(network=NETWORKS[name])
    model, other = (build(one, SHAPES[name], 4, seed=3).to(dtype) for one in architectures)
    here, there = (first_layer(network, math.prod(SHAPES[name])) for network in (model, other))
    torch.testing.assert_close(there.weight, here.weight, rtol=1e-5, atol=1e-6)
    there.weight = here.weight.detach()  # once more in this precision: they were made in single
    return model, other


def images(name, dtype, count=40):
    return torch.rand(count, *SHAPES[name], generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def trained(model, optimizer, x, steps=100):
    """Logits after so many steps on batches of ten."""
    y, steps_of = torch.arange(len(x)) % 4, optimizer(model.parameters())
    for step in range(steps):
        rows = slice(10 * (step % 4), 10 * (step % 4) + 10)
        steps_of.zero_grad()
        F.cross_entropy(model.train()(x[rows]), y[rows]).backward()
        steps_of.step()
    with torch.no_grad():
        return model.eval()(x)


DESCENTS = {"plain": SGD(lr=0.05, momentum=0, nesterov=False), "with all": SGD(lr=0.02, weight_decay=1e-3)}


@pytest.mark.parametrize("optimizer", DESCENTS.values(), ids=DESCENTS)
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["double", "single"])
@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_gradient_descent_gives_the_same_function_after_100_steps(name, dtype, error, optimizer):
    model, other = pair(name, dtype)
    x = images(name, dtype)
    before = model.eval()(x).detach()
    first, second = trained(model, optimizer, x), trained(other, optimizer, x)
    assert float((first - second).abs().max()) < error
    assert float((first - before).abs().max()) > 0.1  # it did train


@pytest.mark.parametrize("optimizer", [SignSGD(lr=1e-3), Adam(lr=1e-3), RMSProp(lr=1e-3)], ids=["sign", "adam", "rms"])
@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_methods_that_treat_coordinates_apart_give_another_function(name, optimizer):
    model, other = pair(name, torch.float64)
    x = images(name, torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(x), other.eval()(x))
    assert float((trained(model, optimizer, x) - trained(other, optimizer, x)).abs().max()) > 0.01


@pytest.mark.parametrize("name", NETWORKS)
def test_only_the_first_layer_has_other_numbers_and_their_transform_is_orthonormal(name):
    model, other = (network.state_dict() for network in pair(name, torch.float64))
    (changed,) = set(other) - set(model)
    assert changed.endswith("parametrizations.weight.original")
    (weight,) = set(model) - set(other)
    assert all(torch.equal(model[key], other[key]) for key in set(model) & set(other))
    assert not torch.allclose(model[weight], other[changed], atol=1e-2)
    torch.testing.assert_close(model[weight].flatten(1).norm(dim=1), other[changed].flatten(1).norm(dim=1))


def test_coefficients_of_a_constant_kernel_are_one():
    coefficients = Cosines((1, 1, 3, 5)).right_inverse(torch.ones(1, 1, 3, 5, dtype=torch.float64))
    assert float(coefficients[0, 0, 0, 0]) == pytest.approx(15**0.5)
    assert float(coefficients.flatten()[1:].abs().max()) < 1e-12


def test_pixels_leave_the_network_as_it_is_and_copies_are_apart():
    plain = build(InBasis(network=NETWORKS["mlp"], basis="pixels"), SHAPES["mlp"], 4, seed=3).state_dict()
    assert plain.keys() == build(NETWORKS["mlp"], SHAPES["mlp"], 4, seed=3).state_dict().keys()
    _, other = pair("cnn", torch.float64)
    copied = copy.deepcopy(other)
    with torch.no_grad():
        next(copied.body[0][0].parametrizations.weight.parameters()).zero_()
    assert float(other.body[0][0].weight.detach().abs().max()) > 0


def test_what_has_no_such_layer_is_refused():
    with pytest.raises(ValueError, match="begins with a convolution or dense layer, got Network"):
        InBasis(network=MODELS["lipschitz-mlp"])((1, 8, 8), 3)
    with pytest.raises(ValueError, match="begins with a convolution or dense layer, got Sequential"):
        InBasis(network=lambda shape, classes: nn.Sequential(nn.Flatten(2), nn.Linear(64, classes)))((3, 8, 8), 3)
    with pytest.raises(ValueError, match=r"in_basis\.basis: unknown name 'dtc'.*Did you mean 'dct'"):
        InBasis(network=MLP(), basis="dtc")
    for network in (Python(factory="os:getcwd"), InBasis(network=MLP())):
        with pytest.raises(ValueError, match=r"in_basis\.network: expected a network of ours, got"):
            InBasis(network=network)
    with pytest.raises(RecipeError, match="expected a network of ours, got python"):
        resolved(recipe("model={in_basis: {network: {python: {factory: 'os:getcwd'}}}}"), trust=True)


def test_a_transform_beyond_the_budget_is_refused_before_it_is_made():
    with pytest.raises(RecipeError, match="the cosine transform of the first layer: needs 32 TB of memory"):
        new_network(InBasis(network=MODELS["linear"]), (1, 1, 10**6), 2)


def test_a_recipe_trains_resumes_and_loads_it(tmp_path):
    of = recipe("model={in_basis: {network: {mlp: {hidden: [8]}}}}")
    train(of, tmp_path / "whole")
    train(of, tmp_path / "part", 3)
    train(of, tmp_path / "part")
    assert outcome(tmp_path / "part") == outcome(tmp_path / "whole")
    assert load_model(tmp_path / "whole").model(torch.zeros(1, 1, 8, 8)).shape == (1, 10)
