import itertools

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz import OrthogonalDense
from holdfast.lipschitz.lower import lipschitz_lower
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests.cramped import on_a_gpu
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


class Watched(nn.Module):
    """A function of images that keeps what it was asked; copies of it keep it in the same place."""

    def __init__(self, call):
        super().__init__()
        self.seen = seen = []
        self.call = lambda x: seen.append(x.detach().clone()) or call(x)

    def forward(self, x):
        return self.call(x)


def half_square(x):
    """As steep as the image is long, so that the steepest way is outwards."""
    return torch.cat((x.square() / 2, torch.zeros_like(x)), 1)


def pairs(watched, steps):
    """The two points of each pair, (steps, N, 2, ...), which come last."""
    return torch.stack([z.view(-1, 2, *z.shape[1:]) for z in watched.seen[-steps:]])


@pytest.mark.parametrize(("model", "distance"), [(half_square, 0.1), (None, 1e-3)], ids=["function", "network"])
def test_points_of_a_pair_lie_at_a_stated_distance_around_their_centre(model, distance):
    watched, x = Watched(half_square), torch.tensor([[0.5, 0.25]], dtype=torch.float64)
    lipschitz_lower(watched.call if model else watched, x, steps=6)
    both = pairs(watched, 6)
    apart = (both[:, :, 1] - both[:, :, 0]).norm(dim=2)
    torch.testing.assert_close(apart, torch.full_like(apart, distance), rtol=1e-9, atol=0)
    torch.testing.assert_close(both[:3].mean(2), x.expand(3, 1, 2), rtol=0, atol=1e-12)


def test_the_second_half_of_the_steps_goes_half_as_far_again_where_slopes_rise():
    # In one dimension the slope is |x|: every step outwards is steeper than the one before.
    watched, x = Watched(half_square), torch.tensor([[1.0], [-2.0]], dtype=torch.float64)
    found = lipschitz_lower(watched, x, steps=5)
    centres = pairs(watched, 5).mean(2)[:, :, 0].abs()
    reaches = 0.7, 0.7 * 1.5, 0.7 * 1.5**2  # the second look at the start is not steeper
    expected = torch.tensor([[1.0, 2.0]] * 3, dtype=torch.float64)
    torch.testing.assert_close(centres[:3], expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(centres[3:] - centres[2:4], torch.tensor([[r, r] for r in reaches[:2]]).double())
    assert found == pytest.approx(2 + sum(reaches[:2]))


def test_where_nothing_gets_steeper_the_search_stays_near_its_start():
    watched, x = Watched(lambda x: 0 * x), images(1, (4,))
    assert lipschitz_lower(watched, x, steps=8) == 0
    moved = (pairs(watched, 8).mean(2) - x).norm(dim=2)[:, 0]
    expected = [0, 0, 0, 0, 0, *(0.7**k for k in (1, 2, 3))]
    torch.testing.assert_close(moved, torch.tensor(expected, dtype=torch.float64), rtol=1e-6, atol=1e-9)


def test_the_default_is_twenty_steps():
    sizes = []
    for options in ({}, {"steps": 20}):
        watched = Watched(half_square)
        lipschitz_lower(watched, images(3, (2,)), **options)
        sizes.append([len(z) for z in watched.seen])
    assert sizes[0] == sizes[1]
    assert sizes[0][:2] == [1, 1]  # one image shows the precision, one the number of logits
    assert sizes[0][-20:] == [6] * 20


@pytest.mark.parametrize(("classes", "exact"), [(100, True), (101, False)])
def test_up_to_a_hundred_logits_have_their_jacobian_computed(classes, exact):
    model = linear(classes)
    truth = matrix_norm(model.weight, "l2").item()
    assert (lipschitz_lower(model, images(1), steps=1) > (1 - 1e-9) * truth) == exact


@pytest.mark.parametrize("norm", NORMS)
def test_64_machine_epsilons_of_the_logits_are_taken_off_in_float32(norm):
    weight, offset = linear(4).weight.detach().float(), 30.0
    found = lipschitz_lower(lambda x: x.flatten(1) @ weight.mT + offset, 0 * images(1).float(), norm=norm, steps=1)
    both = torch.full((8,), offset, dtype=torch.float64)  # two points of four logits
    taken_off = 64 * 2.0**-23 * torch.linalg.vector_norm(both, ORDERS[norm]) / 0.1
    truth = matrix_norm(weight.double(), norm)
    assert found == pytest.approx(float(truth - taken_off), abs=0.05 * float(taken_off))


def test_a_lack_of_memory_is_no_lack_of_float64():
    class Large(nn.Module):
        def forward(self, x):
            if x.dtype == torch.float64:
                on_a_gpu()
            return x.flatten(1)

    with pytest.raises(torch.OutOfMemoryError):
        lipschitz_lower(Large(), images(2, dtype=torch.float32))


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"lipschitz_lower: norm: unknown name 'l3'; known: l1, l2, linf"):
        lipschitz_lower(linear(2), images(1), norm="l3")
    with pytest.raises(ValueError, match="lipschitz_lower: steps must be at least 1, got 0"):
        lipschitz_lower(linear(2), images(1), steps=0)


def test_outputs_that_are_no_logits_are_refused():
    with pytest.raises(ModelError, match=r"expected logits of shape \(1, classes\); got \(1, 1, 4, 4\)"):
        lipschitz_lower(torch.nn.Identity(), images(2))
