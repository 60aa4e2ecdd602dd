"""Orthogonal dense and convolution layers, downsampling and activations."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz import (
    Downsampling,
    GroupSort,
    Householder,
    OrthogonalConvolution,
    OrthogonalDense,
    export,
    orthogonalise,
)
from holdfast.lipschitz.convolution import compose, wrap
from holdfast.lipschitz.dense import OrthogonalMatrices
from holdfast.models import MODELS, build
from tests.zoo import generator, images

KERNELS = [1, 2, 3, 4, 5, 6, 7]
CHANNELS = [(1, 1), (1, 3), (3, 1), (4, 4), (3, 8), (8, 3), (5, 4)]


def trained(layer, steps=3, shape=None):
    """The layer after a few steps that move its weights far from where they began."""
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    x = torch.randn(*shape, generator=generator(5), dtype=next(layer.parameters()).dtype)
    for _ in range(steps):
        optimizer.zero_grad()
        (layer(x).square().sum() + layer(x)[:, 0].sum()).backward()
        optimizer.step()
    return layer.eval()


def transfer_values(weight, size):
    """Singular values of a cyclic convolution, from the matrix of each frequency."""
    spectrum = torch.fft.fft2(weight.double(), s=(size, size)).permute(2, 3, 0, 1)
    return torch.linalg.svdvals(spectrum)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("inputs", "outputs"), CHANNELS)
def test_all_singular_values_of_a_convolution_are_one(inputs, outputs, kernel):
    torch.manual_seed(0)
    layer = trained(OrthogonalConvolution(inputs, outputs, kernel), shape=(2, inputs, 9, 9))
    with torch.no_grad():
        weight = layer.weight
    assert weight.shape == (outputs, inputs, kernel, kernel)
    assert float((transfer_values(weight, 9) - 1).abs().max()) < 1e-5


@pytest.mark.parametrize(("inputs", "outputs"), [(6, 6), (6, 20), (20, 6), (1, 4), (512, 10)])
def test_all_singular_values_of_a_dense_layer_are_one(inputs, outputs):
    torch.manual_seed(0)
    layer = trained(OrthogonalDense(inputs, outputs), shape=(3, inputs))
    with torch.no_grad():
        assert float((torch.linalg.svdvals(layer.weight.double()) - 1).abs().max()) < 1e-5


@pytest.mark.parametrize("kernel", [2, 3, 5])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_the_convolution_is_an_orthogonal_matrix_whatever_the_image_size(kernel, size):
    torch.manual_seed(0)
    layer = OrthogonalConvolution(2, 2, kernel).double().eval()
    basis = torch.eye(2 * size * size, dtype=torch.float64).view(-1, 2, size, size)
    with torch.no_grad():
        operator = layer(basis).flatten(1)
    torch.testing.assert_close(operator @ operator.mT, torch.eye(len(operator)).double(), rtol=0, atol=1e-10)


def test_a_convolution_of_size_one_kernel_is_the_dense_layer():
    torch.manual_seed(0)
    layer, x = OrthogonalConvolution(3, 5, 1), images(2, (3, 4, 4))
    with torch.no_grad():
        assert torch.equal(layer.weight[:, :, 0, 0], layer.matrix())
    assert [type(part) for part in layer.plain()] == [nn.Identity, nn.Conv2d]
    assert wrap(x, 1) is x


@pytest.mark.parametrize(("channels", "half"), [(1, 1), (2, 1), (3, 1), (6, 3), (7, 3)])
def test_projectors_are_on_half_of_the_channels(channels, half):
    assert OrthogonalConvolution(channels, 1, 4).projectors.weight.shape == (6, channels, half)
    assert OrthogonalConvolution(1, channels, 4).projectors.weight.shape == (6, channels, half)
    assert OrthogonalConvolution(channels, channels, 1).projectors is None


@pytest.mark.parametrize(("inputs", "outputs"), [(4, 3), (4, 4), (3, 4)])
def test_a_kernel_of_size_two_is_made_of_the_blocks_of_two_projectors(inputs, outputs):
    # The projectors act on the inputs, or on the outputs where these are more.
    wide = outputs <= inputs
    matrix = orthogonalise(torch.randn(outputs, inputs, generator=generator()).double())
    halves = orthogonalise(torch.randn(2, max(inputs, outputs), 2, generator=generator(1)).double())
    p, q = halves @ halves.mT
    one = torch.eye(len(p)).double()
    blocks = [[p @ q, p @ (one - q)], [(one - p) @ q, (one - p) @ (one - q)]]
    kernel = compose(matrix, halves)
    for row in range(2):
        for column in range(2):
            expected = matrix @ blocks[row][column] if wide else (matrix.mT @ blocks[row][column]).mT
            torch.testing.assert_close(kernel[:, :, row, column], expected)


@pytest.mark.parametrize(
    ("kernel", "size", "by_torch"),
    [
        (5, (2, 2), True),
        (5, (8, 8), True),
        (5, (1, 8), False),
        (5, (8, 1), False),
        (4, (1, 1), False),
        (2, (1, 1), True),
    ],
)
def test_margins_wider_than_an_image_go_around_it_more_than_once(kernel, size, by_torch, monkeypatch):
    calls, pad, x = [], F.pad, images(2, (1, *size))
    monkeypatch.setattr(F, "pad", lambda *args, **kwargs: calls.append(args) or pad(*args, **kwargs))
    found = wrap(x, kernel)
    assert bool(calls) == by_torch  # which copies faster, but only once around
    before, after = kernel // 2, (kernel - 1) // 2
    rows, columns = (torch.arange(-before, side + after) % side for side in size)
    assert torch.equal(found, x[:, :, rows][:, :, :, columns])


@pytest.mark.parametrize("size", [(1, 6), (6, 1), (6, 6), (2, 2)])
def test_images_without_a_batch_are_convolved_and_downsampled_alike(size):
    torch.manual_seed(0)
    x = images(3, (2, *size))
    with torch.no_grad():
        for layer in (OrthogonalConvolution(2, 3, 5).double(), Downsampling()):
            torch.testing.assert_close(torch.stack([layer(image) for image in x]), layer(x))


def test_new_layers_are_orthogonal_and_shift_nothing():
    torch.manual_seed(0)
    free = OrthogonalMatrices(2, 4, 6).weight.detach()
    torch.testing.assert_close(free @ free.mT, torch.eye(4).expand(2, 4, 4), rtol=0, atol=1e-5)
    assert not torch.allclose(free[0], free[1], atol=0.1)
    for make in (lambda **bias: OrthogonalDense(3, 2, **bias), lambda **bias: OrthogonalConvolution(3, 2, 3, **bias)):
        assert make().bias is None
        assert make(bias=True).bias.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (lambda: OrthogonalDense(6, 6), (4, 6)),
        (lambda: OrthogonalDense(6, 9, bias=True), (4, 6)),
        (lambda: OrthogonalConvolution(3, 3, 3), (4, 3, 5, 5)),
        (lambda: OrthogonalConvolution(3, 5, 2, bias=True), (4, 3, 6, 6)),
        (lambda: Downsampling(), (4, 3, 6, 5)),
        (lambda: GroupSort(2), (4, 6)),
        (lambda: GroupSort(3), (4, 7, 2, 2)),
        (lambda: Householder(7), (4, 7, 2, 2)),
    ],
)
def test_norms_of_differences_and_of_gradients_are_kept(layer, shape):
    torch.manual_seed(0)
    module = layer().double()
    x = torch.randn(*shape, generator=generator(), dtype=torch.float64).requires_grad_()
    direction = 1e-6 * torch.randn(*shape, generator=generator(1), dtype=torch.float64)
    moved = (module(x + direction) - module(x)).flatten(1).norm(dim=1)
    torch.testing.assert_close(moved, direction.flatten(1).norm(dim=1), rtol=1e-6, atol=0)
    out = module(x)
    back = torch.randn(out.shape, generator=generator(2), dtype=torch.float64)
    (grad,) = torch.autograd.grad(out, x, back)
    if out.numel() == x.numel():
        torch.testing.assert_close(grad.flatten(1).norm(dim=1), back.flatten(1).norm(dim=1))
    else:  # more outputs than inputs: what lies in the range comes back
        assert bool((grad.flatten(1).norm(dim=1) <= back.flatten(1).norm(dim=1) + 1e-9).all())


def test_sorting_orders_neighbours_and_leaves_the_rest():
    x = torch.tensor([[3.0, 1.0, -2.0, 5.0, 0.5]])
    assert GroupSort()(x).tolist() == [[1.0, 3.0, -2.0, 5.0, 0.5]]
    assert GroupSort(4)(x).tolist() == [[-2.0, 1.0, 3.0, 5.0, 0.5]]
    with pytest.raises(ValueError, match="size must be at least 2, got 1"):
        GroupSort(1)


def test_householder_starts_by_putting_the_larger_first_and_reflects_at_its_angle():
    layer = Householder(4)
    with torch.no_grad():
        torch.testing.assert_close(layer(torch.tensor([[3.0, 1.0, -2.0, 5.0]])), torch.tensor([[3.0, 1.0, 5.0, -2.0]]))
        layer.angle.fill_(math.pi)  # v = (1, 0): the absolute value of the first
        torch.testing.assert_close(layer(torch.tensor([[-3.0, 1.0, 2.0, -5.0]])), torch.tensor([[3.0, 1.0, 2.0, -5.0]]))


def test_downsampling_is_pixel_unshuffle_and_pads_odd_sides_with_zeros():
    x = images(2, (3, 6, 4))
    assert torch.equal(Downsampling()(x), F.pixel_unshuffle(x, 2))
    odd = images(2, (3, 5, 3))
    assert Downsampling()(odd).shape == (2, 12, 3, 2)
    torch.testing.assert_close(Downsampling()(odd).square().sum(), odd.square().sum())


def test_weights_are_made_anew_when_the_parameter_changes_and_only_then(monkeypatch):
    from holdfast.lipschitz import dense

    calls = []
    monkeypatch.setattr(dense, "orthogonalise", lambda a, made=dense.orthogonalise: calls.append(1) or made(a))
    torch.manual_seed(0)
    layer, x = OrthogonalDense(5, 5).eval(), torch.rand(2, 5)
    with torch.no_grad():
        first = layer(x)
        layer(x)
        assert len(calls) == 1
        layer.matrix.weight.add_(0.3 * torch.rand(5, 5))
        assert not torch.equal(layer(x), first)
    assert len(calls) == 2
    layer.load_state_dict(OrthogonalDense(5, 5).state_dict())
    layer(x)
    assert len(calls) == 3
    layer.double()(x.double())
    copy.deepcopy(layer)(x.double())
    assert len(calls) == 5


@pytest.mark.parametrize("training", [True, False])
def test_a_change_behind_autograds_back_is_seen(training):
    torch.manual_seed(0)
    layer, x = OrthogonalDense(6, 4).train(training), torch.rand(3, 6)
    before = layer(x).detach()
    layer.matrix.weight.data.mul_(3)
    torch.testing.assert_close(layer(x).detach(), before)
    assert float((torch.linalg.svdvals(layer.weight.detach()) - 1).abs().max()) < 1e-5
    layer.matrix.weight.data = torch.rand(4, 6)
    assert not torch.allclose(layer(x).detach(), before, atol=1e-2)
    assert float((torch.linalg.svdvals(layer.weight.detach()) - 1).abs().max()) < 1e-5


def test_validation_in_inference_mode_does_not_spoil_training():
    torch.manual_seed(0)
    layer, x = OrthogonalDense(6, 4), torch.rand(3, 6)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    for _ in range(2):
        layer.train()(x).square()[:, 0].sum().backward()
        optimizer.step()
        with torch.inference_mode():
            layer.eval()(x)
    optimizer.zero_grad()
    layer.train()(x).square()[:, 0].sum().backward()  # raised where the factor was made in inference mode
    assert float(layer.matrix.weight.grad.abs().max()) > 0


def test_functions_of_functions_work():
    torch.manual_seed(0)
    layer, x = OrthogonalDense(5, 3).double().eval(), torch.rand(4, 5, dtype=torch.float64)
    names = {name: value.detach() for name, value in layer.named_parameters()}

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,)).square()[..., 0].sum()

    found = torch.func.grad(loss)(names, x)["matrix.weight"]
    loss_of = layer(x).square()[:, 0].sum()
    loss_of.backward()
    torch.testing.assert_close(found, layer.matrix.weight.grad)
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(names, x[:, None])["matrix.weight"]
    torch.testing.assert_close(each.sum(0), found)


def test_a_layer_that_stands_twice_is_exported_once():
    torch.manual_seed(0)
    layer = OrthogonalDense(6, 6)
    model = nn.Sequential(layer, nn.ReLU(), layer).eval()
    plain = export(model)
    assert plain[0] is plain[2]
    assert isinstance(plain[0], nn.Linear)
    x = torch.rand(3, 6)
    assert torch.equal(plain(x), model(x))


def test_weights_that_are_not_finite_are_named():
    layer = OrthogonalDense(3, 3)
    with torch.no_grad():
        layer.matrix.weight[0, 0] = torch.nan
    with pytest.raises(ModelError, match="expected finite weights"):
        layer(torch.rand(2, 3))


def test_training_puts_the_factor_in_the_parameters_place_and_changes_no_output():
    torch.manual_seed(0)
    layer, x = OrthogonalDense(6, 4).double(), torch.rand(3, 6, dtype=torch.float64)
    with torch.no_grad():
        layer.matrix.weight.add_(0.2 * torch.rand(4, 6).double())
    raw = layer.matrix.weight.detach().clone()
    quiet = layer.eval()(x).detach()
    assert torch.equal(layer.matrix.weight, raw)
    torch.testing.assert_close(copy.deepcopy(layer).train()(x).detach(), quiet, rtol=0, atol=1e-12)
    noisy = layer.train()(x).detach()
    assert torch.equal(noisy, quiet)  # known already, so nothing moves
    with torch.no_grad():
        layer.matrix.weight.add_(0.2 * torch.rand(4, 6).double())
    layer(x)
    torch.testing.assert_close(layer.matrix.weight @ layer.matrix.weight.mT, torch.eye(4).double(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("training", [True, False])
def test_weight_gradients_are_those_of_the_exact_factor(training):
    torch.manual_seed(0)
    layer, x = OrthogonalDense(4, 3).double().train(training), torch.rand(5, 4, dtype=torch.float64)
    with torch.no_grad():
        layer.matrix.weight.add_(0.3 * torch.rand(3, 4).double())
    layer(x).square()[:, 0].sum().backward()
    a = layer.matrix.weight.detach()

    def loss(change):
        return F.linear(x, orthogonalise(a + change)).square()[:, 0].sum()

    for place in range(12):
        step = torch.zeros(12, dtype=torch.float64)
        step[place] = 1e-5
        slope = (loss(step.view(3, 4)) - loss(-step.view(3, 4))) / 2e-5
        assert float(layer.matrix.weight.grad.flatten()[place]) == pytest.approx(float(slope), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("activation", ["relu", "maxmin", "groupsort", "householder"])
@pytest.mark.parametrize(("name", "shape"), [("lipschitz-mlp", (1, 8, 8)), ("lipschitz-cnn", (3, 12, 10))])
@pytest.mark.parametrize("training", [True, False])
def test_export_gives_ordinary_layers_with_the_same_outputs(name, shape, activation, training):
    from dataclasses import replace

    torch.manual_seed(0)
    made = build(replace(MODELS[name], width=0.1, activation=activation, bias=training), shape, 5).train(training)
    x = images(6, shape).float()
    before = made(x).detach()
    plain = export(made)
    assert not any(isinstance(module, (OrthogonalDense, OrthogonalConvolution)) for module in plain.modules())
    assert any(isinstance(module, nn.Linear) for module in plain.modules())
    assert torch.equal(plain(x), before)
    assert plain.training is training
    assert isinstance(export(OrthogonalDense(3, 2)), nn.Linear)


@pytest.mark.parametrize(("name", "shape"), [("lipschitz-mlp", (1, 28, 28)), ("lipschitz-cnn", (3, 32, 32))])
def test_published_sizes(name, shape):
    torch.manual_seed(0)
    network = build(MODELS[name], shape, 10)
    layers = [m for m in network.modules() if isinstance(m, (OrthogonalDense, OrthogonalConvolution))]
    with torch.no_grad():
        sizes = [tuple(layer.weight.shape) for layer in layers]
    if name == "lipschitz-mlp":
        assert sizes == [(512, 784), (512, 512), (512, 512), (10, 512)]
    else:
        convolutions = [(8, 12, 2, 2), (8, 8, 3, 3), (16, 32, 2, 2), (16, 16, 3, 3)]
        assert sizes == [*convolutions, (512, 1024), (10, 512)]
    assert not any(parameter.dim() == 1 for parameter in network.parameters())  # no biases


@pytest.mark.parametrize("activation", ["relu", "maxmin"])
@pytest.mark.parametrize("name", ["lipschitz-mlp", "lipschitz-cnn"])
def test_networks_never_stretch_a_distance(name, activation):
    from dataclasses import replace

    shape = (1, 9, 9)
    network = build(replace(MODELS[name], width=0.2, activation=activation), shape, 4, mean=[0.5], std=[0.2]).double()
    x, z = images(20, shape), images(20, shape, seed=1)
    with torch.no_grad():
        apart = (network(x) - network(z)).norm(dim=1)
    assert bool((apart <= (x - z).flatten(1).norm(dim=1) + 1e-12).all())
