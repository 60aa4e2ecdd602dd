"""Moments under noise: closed forms, the paper's identities, and simulation."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz import GroupSort, Moments, OrthogonalConvolution, OrthogonalDense, propagate
from holdfast.lipschitz.moments import larger_moments, normal_cdf, normal_density, relu_moments
from holdfast.models import MODELS, build
from holdfast.wrappers import BPDA, Counted
from tests import chance
from tests.zoo import generator, images

# Computed apart: (mean, deviation) -> (mean, variance) behind a ReLU.
RELU = {
    (0, 1): (0.3989422804, 0.3408450569),
    (1, 1): (1.0833154706, 0.7510878078),
    (-1, 0.5): (0.0042453513, 0.0014241587),
    (0.5, 2): (1.0726893964, 1.7805074597),
    (3, 1): (3.0003821543, 0.9975034930),
}


def tensor(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("given", "expected"), RELU.items())
def test_relu_moments_are_the_reference_values(given, expected):
    mean, variance = relu_moments(tensor(given[0]), tensor(given[1] ** 2))
    assert (float(mean), float(variance)) == pytest.approx(expected, abs=1e-10)


def test_derivatives_are_the_identities_of_the_closed_form():
    mean, variance = torch.randn(2, 50, generator=generator(), dtype=torch.float64)
    variance = variance.abs() + 0.1
    mean.requires_grad_(), variance.requires_grad_()
    h, v = relu_moments(mean, variance)
    ratio = (mean / variance.sqrt()).detach()
    by_mean, by_variance = torch.autograd.grad(h.sum(), (mean, variance), retain_graph=True)
    torch.testing.assert_close(by_mean, normal_cdf(ratio))
    torch.testing.assert_close(by_variance, normal_density(ratio) / (2 * variance.detach().sqrt()))
    (slope,) = torch.autograd.grad(v.sum(), mean)
    torch.testing.assert_close(slope, 2 * (1 - normal_cdf(ratio)) * h.detach())


def test_no_noise_gives_the_activation_itself_and_finite_gradients():
    mean = tensor(-1.0, 0.0, 2.0).requires_grad_()
    h, v = relu_moments(mean, torch.zeros(3, dtype=torch.float64))
    assert h.tolist() == pytest.approx([0.0, 0.0, 2.0], abs=1e-150)
    assert v.tolist() == [0.0, 0.0, 0.0]
    (grad,) = torch.autograd.grad(h.sum(), mean)
    assert bool(grad.isfinite().all())


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_a_large_mean_keeps_the_variance(dtype, tolerance):
    # Where the unit is always on, s^2 Phi - h (h - mu) as printed loses all digits of a small variance.
    _, variance = relu_moments(torch.tensor([20.0], dtype=dtype), torch.tensor([1e-4], dtype=dtype))
    assert float(variance) == pytest.approx(1e-4, rel=tolerance)


def test_the_larger_of_two_against_simulation():
    torch.manual_seed(0)
    means, deviations = tensor(0.3, -1.0, 5.0, 0.0), tensor(1.0, 0.2, 0.5, 2.0)
    others, spreads = tensor(0.1, 2.0, 4.0, 0.0), tensor(0.5, 0.3, 2.0, 2.0)
    draws = torch.randn(2, 400_000, 4, generator=generator(), dtype=torch.float64)
    larger = torch.maximum(means + deviations * draws[0], others + spreads * draws[1])
    mean, variance = larger_moments(Moments(means, deviations**2), Moments(others, spreads**2))
    for drawn, centre, spread in zip(larger.T, mean, variance, strict=True):
        assert chance.has_mean(drawn, float(centre))
        assert chance.has_mean((drawn - centre).square(), float(spread))


def test_the_tiny_network_of_the_reference():
    # Computed apart: x = (.2, .5, -.1), W1, ReLU, W2 a rotation by 0.3.
    first, second = nn.Linear(3, 2, bias=False).double(), nn.Linear(2, 2, bias=False).double()
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1, 0, 0], [0, 0.6, 0.8]]))
        second.weight.copy_(torch.tensor([[math.cos(0.3), -math.sin(0.3)], [math.sin(0.3), math.cos(0.3)]]).double())
    x = tensor(0.2, 0.5, -0.1)[None]
    hidden = propagate(nn.Sequential(first, nn.ReLU()), x, 0.2)
    out = propagate(nn.Sequential(first, nn.ReLU(), second), x, 0.2)
    torch.testing.assert_close(hidden.mean[0], tensor(0.21666309, 0.2337239), rtol=0, atol=5e-8)
    torch.testing.assert_close(hidden.variance[0], tensor(0.03004351, 0.03136575), rtol=0, atol=5e-8)
    torch.testing.assert_close(out.mean[0], tensor(0.13791602, 0.28731329), rtol=0, atol=5e-8)
    torch.testing.assert_close(out.variance[0], tensor(0.03015899, 0.03125028), rtol=0, atol=5e-8)


def test_the_first_layer_is_exact_and_has_the_input_variance_with_orthonormal_rows():
    torch.manual_seed(0)
    layer = OrthogonalDense(30, 12).double()
    moments = propagate(layer, images(4, (30,)), 0.25)
    torch.testing.assert_close(moments.variance, torch.full_like(moments.variance, 0.0625), rtol=0, atol=1e-12)
    torch.testing.assert_close(moments.mean, layer(images(4, (30,))), rtol=0, atol=0)
    narrow = OrthogonalConvolution(4, 3, 3).double()  # fewer outputs than inputs: rows are orthonormal as well
    spread = propagate(narrow, images(2, (4, 6, 6)), 0.25).variance
    torch.testing.assert_close(spread, torch.full_like(spread, 0.0625), rtol=0, atol=1e-12)


def test_convolutions_are_dense_layers_of_their_matrix():
    torch.manual_seed(0)
    layer = OrthogonalConvolution(2, 3, 3, bias=True).double()
    with torch.no_grad():
        layer.bias.copy_(torch.rand(3))
    basis = torch.eye(2 * 5 * 5, dtype=torch.float64).view(-1, 2, 5, 5)
    given = Moments(images(3, (2, 5, 5)), images(3, (2, 5, 5), seed=1))
    with torch.no_grad():
        matrix = (layer(basis) - layer(torch.zeros_like(basis))).flatten(1).mT
        from holdfast.lipschitz.moments import through

        moments, plain = through([layer], given), through([layer.plain()], given)
        torch.testing.assert_close(moments.mean, layer(given.mean))
        torch.testing.assert_close(moments.variance.flatten(1), given.variance.flatten(1) @ (matrix**2).mT)
        torch.testing.assert_close(plain, moments)


@pytest.mark.parametrize("activation", ["relu", "maxmin"])
@pytest.mark.parametrize(("name", "shape"), [("lipschitz-mlp", (1, 12, 12)), ("lipschitz-cnn", (1, 12, 12))])
def test_wide_networks_agree_with_simulation(name, shape, activation):
    # Exact only behind the first layer; behind the others, correlations that are left out move means by less than a
    # tenth of a deviation here, and deviations by up to a third.
    torch.manual_seed(0)
    network = build(replace(MODELS[name], activation=activation), shape, 5).double().eval()
    x, sigma = images(1, shape), 0.3
    with torch.no_grad():
        moments = propagate(network, x, sigma)
        noise = torch.randn(4000, *shape, generator=generator(1), dtype=torch.float64)
        logits = network(x + sigma * noise)
    deviation = logits.std(0)
    assert float(((moments.mean[0] - logits.mean(0)) / deviation).abs().max()) < 0.1
    assert float((moments.variance[0].sqrt() / deviation - 1).abs().max()) < 0.4
    assert float((moments.variance[0].sqrt() / deviation).mean()) == pytest.approx(1, abs=0.12)


def test_a_channel_without_a_partner_is_not_sorted():
    x = images(4, (5,))
    pairs, whole = (propagate(GroupSort(2), part, 0.3) for part in (x[:, :4], x))
    for moment, others in ((whole.mean, pairs.mean), (whole.variance, pairs.variance)):
        torch.testing.assert_close(moment[:, :4], others)
    torch.testing.assert_close(whole.mean[:, 4], x[:, 4])
    torch.testing.assert_close(whole.variance[:, 4], torch.full((4,), 0.09, dtype=x.dtype))


def test_moments_are_differentiable_in_weights_and_images():
    torch.manual_seed(0)
    network = build(replace(MODELS["lipschitz-mlp"], width=0.02), (1, 4, 4), 3).double()
    x = images(3).requires_grad_()
    moments = propagate(network, x, 0.2)
    grads = torch.autograd.grad(moments.mean.sum() + moments.variance.square().sum(), [x, *network.parameters()])
    assert all(bool(grad.isfinite().all()) and float(grad.abs().max()) > 0 for grad in grads)


def test_networks_that_normalise_spread_the_noise_accordingly():
    network = build(MODELS["linear"], (2, 3, 3), 4, mean=[0.1, 0.2], std=[0.5, 0.25]).double()
    x = images(3, (2, 3, 3))
    moments = propagate(network, x, 0.1)
    weight = network.head.weight.detach().view(4, 2, 9) / torch.tensor([0.5, 0.25]).double().view(1, 2, 1)
    expected = (weight**2).sum((1, 2)) * 0.01
    torch.testing.assert_close(moments.variance, expected.expand(3, 4))
    torch.testing.assert_close(moments.mean, network(x))


def test_unknown_layers_are_named():
    with pytest.raises(ModelError, match=r"moments: expected layers of .*ReLU.*; got MaxPool2d"):
        propagate(nn.Sequential(nn.MaxPool2d(2)), images(2), 0.1)
    with pytest.raises(ModelError, match="expected groups of 2 to be sorted; got groups of 4"):
        propagate(nn.Sequential(nn.Flatten(), GroupSort(4)), images(2), 0.1)


def test_wrappers_that_watch_are_looked_through_and_those_that_compute_are_refused():
    model, x = build(MODELS["lipschitz-mlp"], (1, 8, 8), 4).double(), images(3, (1, 8, 8))
    expected = propagate(model, x, 0.1)
    watched = propagate(Counted(model, torch.zeros(3, dtype=torch.int64)), x, 0.1)
    torch.testing.assert_close(watched.mean, expected.mean)
    with pytest.raises(ModelError, match="moments: expected a network of torch; got BPDA"):
        propagate(BPDA(model, torch.round), x, 0.1)
