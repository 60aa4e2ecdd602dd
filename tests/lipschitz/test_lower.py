import itertools

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz import OrthogonalDense
from holdfast.lipschitz.lower import lipschitz_lower
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests.zoo import images, linear, normed, piecewise, seeded, smooth

NORMS = ["l1", "l2", "linf"]
ORDERS = {"l1": 1, "l2": 2, "linf": torch.inf}


def matrix_norm(matrix, norm):
    return torch.linalg.matrix_norm(matrix, ORDERS[norm])


@pytest.mark.parametrize("norm", NORMS)
def test_a_linear_network_is_as_steep_as_its_matrix(norm):
    model = linear(4)
    truth = matrix_norm(model.weight, norm).item()
    assert lipschitz_lower(model, images(3), norm=norm, steps=1) == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("norm", NORMS)
def test_many_classes_are_searched_by_the_power_method(norm, monkeypatch):
    monkeypatch.setattr("holdfast.lipschitz.lower.CLASSES", 0)
    model = linear(4)
    truth = matrix_norm(model.weight, norm).item()
    found = lipschitz_lower(model, images(8), norm=norm, steps=100)
    assert found <= truth * (1 + 1e-9)
    assert found == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(3))
def test_never_above_the_steepest_piece_nor_below_the_pieces_at_the_images(norm, seed):
    model, x = piecewise(seed=seed), images(6, (2,))
    patterns = [torch.tensor(p, dtype=torch.float64) for p in itertools.product((0.0, 1.0), repeat=len(model.bias))]
    steepest = max(matrix_norm((model.head * on) @ model.weight, norm) for on in patterns)
    with torch.no_grad():
        here = max(matrix_norm((model.head * on) @ model.weight, norm) for on in (x @ model.weight.mT > -model.bias))
    found = lipschitz_lower(model, x, norm=norm, steps=10)
    assert (1 - 1e-9) * here <= found <= (1 + 1e-9) * steepest


def test_moving_the_pairs_finds_steeper_slopes():
    model, x = smooth(), images(4)
    at_the_images = lipschitz_lower(model, x, steps=2)
    assert lipschitz_lower(model, x, steps=60) > 1.2 * at_the_images


@pytest.mark.parametrize("norm", NORMS)
def test_a_function_in_float32_is_measured_with_its_rounding_taken_off(norm):
    model = linear(4)
    weight, offset = model.weight.detach().float(), 1e4

    def rounded(x):
        return x.flatten(1) @ weight.mT + offset  # logits of 10^4 are rounded to 10^-3

    truth = matrix_norm(weight.double(), norm).item()
    found = lipschitz_lower(rounded, images(3, dtype=torch.float32), norm=norm, steps=8)
    assert found <= truth
    exact = lipschitz_lower(lambda x: x.flatten(1) @ weight.mT, images(3, dtype=torch.float32), norm=norm, steps=8)
    assert exact == pytest.approx(truth, rel=1e-2)


def test_orthogonal_layers_keep_their_weights_in_float64():
    model = seeded(lambda: OrthogonalDense(8, 8)).eval()
    truth = matrix_norm(model.weight.detach().double(), "l2").item()
    assert 1e-9 < abs(truth - 1) < 1e-5  # orthogonal in float32, but not in float64
    with same_random_states():
        found = lipschitz_lower(model, images(2, (8,), dtype=torch.float32), steps=20)
    assert found == pytest.approx(truth, rel=1e-10)


def test_a_constant_network_has_slope_zero():
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
    with torch.no_grad():
        model[1].weight.zero_()
    assert lipschitz_lower(model, images(2), steps=4) == 0


def test_leaves_the_network_and_the_random_states_alone():
    model = normed(dropout=0.5).train()
    x = images(3)
    with same_module(model), same_random_states(), same_tensors(x):
        first = lipschitz_lower(model, x, steps=4, rng=Streams(1, "", 3))
    assert lipschitz_lower(model, x, steps=4, rng=Streams(1, "", 3)) == first
    with torch.no_grad():
        assert lipschitz_lower(model, x, steps=4, rng=Streams(1, "", 3)) == first


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"lipschitz_lower: norm: unknown name 'l3'; known: l1, l2, linf"):
        lipschitz_lower(linear(2), images(1), norm="l3")
    with pytest.raises(ValueError, match="lipschitz_lower: steps must be at least 1, got 0"):
        lipschitz_lower(linear(2), images(1), steps=0)


def test_outputs_that_are_no_logits_are_refused():
    with pytest.raises(ModelError, match=r"expected logits of shape \(1, classes\); got \(1, 1, 4, 4\)"):
        lipschitz_lower(torch.nn.Identity(), images(2))
