"""Theorems 1 and 2 and the radii of mixed probabilities: values computed apart, and never more than the true radius."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.certify.mixture_radii import margin_mixture_radius
from holdfast.ensembles import GradientRatio, LocalBias, NearestNeighbours
from holdfast.errors import ModelError
from holdfast.models import normalised
from holdfast.theory.mixture_radii import (
    Constants,
    affine_constants,
    gradient_ratio_radius,
    lipschitz_radius,
    local_bias_radius,
    smoothed_radius,
    unchanged_radius,
)
from tests.zoo import generator


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


X = tensor([[0.3, -0.2]])
WG, BG = tensor([[1, 2], [-1, 0.5]]), tensor([0.2, -0.1])
WH, BH = tensor([[0.5, 0.4], [-0.3, 0.6]]), tensor([0, 0.1])


def constants(weight):
    """Of linear logits, for an adversary in linf."""
    steep = weight.abs().sum(1)
    return Constants(steep, torch.zeros_like(steep), steep)


class Squared(torch.nn.Module):
    def forward(self, x):
        return x * x


class Floored(torch.nn.Module):
    def forward(self, x):
        return torch.div(x, 0.1, rounding_mode="floor")


class Named(torch.nn.Module):
    def forward(self, x):
        return torch.mul(x, other=x)


def hooked():
    layer = torch.nn.Linear(2, 2)
    layer.register_forward_hook(lambda _, __, out: out.relu() * out)
    return layer


class Divided(torch.nn.Module):
    def forward(self, x):
        return 1 / x


class Absolute(torch.nn.Module):
    def forward(self, x):
        return x.abs()


def test_theorem_1_of_a_linear_classifier():
    g, oracle, steep = X @ WG.T + BG, tensor([[1, -1]]), WG.abs().sum(1)[None]
    assert local_bias_radius(g, oracle, steep, constants(WG), 0.5).item() == pytest.approx(0.65833333, abs=1e-8)


def test_theorem_2_of_linear_classifiers():
    g, h = X @ WG.T + BG, X @ WH.T + BH
    steep = [weight.abs().sum(1)[None] for weight in (WG, WH)]
    found = gradient_ratio_radius(g, h, *steep, constants(WG), constants(WH), 0.5)
    assert found.item() == pytest.approx(0.13859649, abs=1e-8)


def worst_change(model, x, radius, grid=41):
    """Whether the prediction changes anywhere on a grid over the square of that size."""
    steps = torch.linspace(-1, 1, grid, dtype=torch.float64)
    square = torch.cartesian_prod(steps, steps) * radius
    return bool((model(x + square).argmax(1) != model(x).argmax(1)).any())


class Bent(torch.nn.Module):
    """Logits `W x + b + c sin(V x)` of two numbers, whose constants in linf are known."""

    def __init__(self, seed, classes=3, bend=0.3):
        super().__init__()
        draw = generator(seed)
        self.weight = torch.randn(classes, 2, dtype=torch.float64, generator=draw)
        self.weight = self.weight + self.weight.sign()
        self.bias = torch.randn(classes, dtype=torch.float64, generator=draw)
        self.wave = torch.randn(classes, 2, dtype=torch.float64, generator=draw)
        self.bend = bend

    def forward(self, x):
        return x @ self.weight.T + self.bias + self.bend * torch.sin(x @ self.wave.T)

    def constants(self):
        main, wave = self.weight.abs().sum(1), self.wave.abs().sum(1)
        # The gradient of the wave is c cos(.) V, its Hessian -c sin(.) V V'.
        return Constants(main + self.bend * wave, self.bend * wave.square(), main - self.bend * wave)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 2.0, 10.0]), st.sampled_from([0.0, 0.2, 3.0, 10.0]))
def test_theorem_1_is_below_the_true_radius(seed, strength, bend):
    g, x = Bent(seed, bend=bend), torch.randn(1, 2, dtype=torch.float64, generator=generator(seed + 1))
    oracle = 2 * torch.nn.functional.one_hot(torch.tensor([seed % 3]), 3).double() - 1
    _, steep = GradientRatio().measured(g, x)
    radius = local_bias_radius(g(x), oracle, steep, g.constants(), strength).item()
    mixing = LocalBias()
    assert not worst_change(lambda z: mixing(g, lambda z: oracle.expand(len(z), 3), z, strength), x, 0.999 * radius)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 2.0, 10.0]), st.sampled_from([0.0, 0.2]))
def test_theorem_2_is_below_the_true_radius(seed, strength, bend):
    g, h = Bent(seed, bend=bend), Bent(seed + 77, bend=bend)
    x = torch.randn(1, 2, dtype=torch.float64, generator=generator(seed + 1))
    mixing = GradientRatio(eps_c=0.0)
    (_, steep_g), (_, steep_h) = (mixing.measured(model, x) for model in (g, h))
    radius = gradient_ratio_radius(g(x), h(x), steep_g, steep_h, g.constants(), h.constants(), strength).item()
    assert not worst_change(lambda z: mixing(g, h, z, strength), x, 0.999 * radius)
    if bool((h.constants().least > 0).all()):
        assert radius > 0


def bent_parts():
    """A point, its oracle and two bent classifiers, with everything that the theorems speak of as plain numbers."""
    g, h, x = Bent(3, bend=0.7), Bent(5, bend=0.4), tensor([[0.4, -0.3]])
    oracle = tensor([[1.0, -1.0, -0.5]])
    (zg, sg), (zh, sh) = (GradientRatio(eps_c=0.0).measured(model, x) for model in (g, h))
    return g, h, oracle, zg, zh, sg, sh


@pytest.mark.parametrize("strength", [0.5, 4.0])
def test_theorem_1_of_bent_logits_by_a_loop(strength):
    g, _, oracle, zg, _, sg, _ = bent_parts()
    of = g.constants()
    z = [float(a + strength * s * b) / float(1 + strength * s) for a, b, s in zip(zg[0], oracle[0], sg[0], strict=True)]

    def part(k):
        slope, bend = float(of.slope[k]), float(of.bend[k])
        turn = strength * bend * abs(float(zg[0, k])) / (1 + strength * float(sg[0, k])) + 2 * strength * bend
        return turn + slope / (1 + strength * slope)

    i = max(range(3), key=lambda k: z[k])
    roots = []
    for j in {0, 1, 2} - {i}:
        a, b = float(of.bend[i] + of.bend[j]), part(i) + part(j)
        roots.append((-b + math.sqrt(b * b + 4 * a * (z[i] - z[j]))) / (2 * a))
    assert local_bias_radius(zg, oracle, sg, of, strength).item() == pytest.approx(min(roots), rel=1e-9)


@pytest.mark.parametrize("strength", [0.5, 4.0])
def test_theorem_2_of_bent_logits_by_halving(strength):
    """The largest radius that the printed constants allow, found without solving for it."""
    g, h, _, zg, zh, sg, sh = bent_parts()
    og, oh = g.constants(), h.constants()
    r = (sg / sh)[0]
    z = (zg[0] + strength * r * zh[0]) / (1 + strength * r)

    def grows(k, eps):
        """C1 + alpha C2 of one class within the ball."""
        mg, mh, lg, lh = (float(c[k]) for c in (og.slope, oh.slope, og.bend, oh.bend))
        least_g, least_h, ratio = float(og.least[k]), float(oh.least[k]), float(r[k])
        size_g, size_h = abs(float(zg[0, k])) + mg * eps, abs(float(zh[0, k])) + mh * eps
        turn = lh / least_h * ratio + lg / least_h
        below = (1 + strength * least_g / mh) * (1 + strength * ratio)
        first = mg * (1 + strength * mg / least_h) + strength * size_g * turn
        second = mg * mh / least_h * (1 + strength * ratio) + size_h * turn
        return (first + strength * second) / below

    i = int(z.argmax())
    radii = []
    for j in {0, 1, 2} - {i}:
        low, high = 0.0, 10.0
        for _ in range(200):
            middle = (low + high) / 2
            fits = middle * (grows(i, middle) + grows(j, middle)) <= float(z[i] - z[j])
            low, high = (middle, high) if fits else (low, middle)
        radii.append(low)
    found = gradient_ratio_radius(zg, zh, sg, sh, og, oh, strength).item()
    assert found == pytest.approx(min(radii), rel=1e-9)


def test_a_gradient_that_may_vanish_proves_nothing():
    g, h = X @ WG.T + BG, X @ WH.T + BH
    steep = [weight.abs().sum(1)[None] for weight in (WG, WH)]
    of_h = constants(WH)
    vanishing = Constants(of_h.slope, of_h.bend, tensor([0.0, 0.5]))
    assert gradient_ratio_radius(g, h, *steep, constants(WG), vanishing, 0.5).item() == 0


def test_without_strength_the_first_theorem_is_that_of_the_linear_classifier():
    g, steep = X @ WG.T + BG, WG.abs().sum(1)[None]
    expected = (g[0, 0] - g[0, 1]).abs() / steep.sum()
    found = local_bias_radius(g, tensor([[1, -1]]), steep, constants(WG), 0.0)
    torch.testing.assert_close(found, expected[None])


def test_lipschitz_probabilities():
    assert lipschitz_radius(tensor([0.8, 0.2]), 0.75, 2.0).tolist() == pytest.approx([(0.8 - 1 / 3) / 4, 0.0])
    assert lipschitz_radius(tensor([0.8]), 1.0, 2.0).item() == pytest.approx(0.2)


def test_margins_prove_more_than_lipschitz_probabilities():
    # Softmax probabilities change by at most 1/4 per unit of a logit, in sum by half the margin's growth.
    h, share, growth = tensor([[6.0, 0.0]]), 0.8, 1.0
    p = h.softmax(1)[0]
    assert margin_mixture_radius(h, growth, share) > lipschitz_radius(p[:1] - p[1:], share, growth / 4)


def test_smoothed_probabilities_against_the_printed_form():
    share, sigma, first, second = 0.8, 0.5, tensor([0.95]), tensor([0.03])
    mu = (1 - share) / share
    quantile = torch.special.ndtri
    expected = sigma / 2 * (quantile(first / (1 + mu)) - quantile((second + mu) / (1 + mu)))
    torch.testing.assert_close(smoothed_radius(first, second, share, sigma), expected)
    assert smoothed_radius(tensor([0.5]), tensor([0.5]), share, sigma).item() == 0
    whole = sigma / 2 * (quantile(first) - quantile(second))
    torch.testing.assert_close(smoothed_radius(first, second, 1.0, sigma), whole)


@pytest.mark.parametrize("share", [0.6, 0.9])
@pytest.mark.parametrize("distance", [0.3, 0.7, 1.5])
def test_smoothing_a_half_space_is_sound_and_mixed_with_the_worst(share, distance):
    """h smoothed over a half-space is Phi(d / sigma); the accurate classifier always votes for the other side."""
    sigma = 0.5
    first = torch.special.ndtr(tensor([distance / sigma]))
    radius = smoothed_radius(first, 1 - first, share, sigma).item()
    if radius > 0:
        p = torch.special.ndtr(tensor(distance - radius) / sigma).item()
        assert share * p >= share * (1 - p) + (1 - share) - 1e-12


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_impossible_constants_are_refused(value):
    with pytest.raises(ValueError, match="constant must be positive and finite"):
        lipschitz_radius(tensor([0.5]), 0.9, value)
    with pytest.raises(ValueError, match="sigma must be positive and finite"):
        smoothed_radius(tensor([0.9]), tensor([0.1]), 0.9, value)


class Centred(torch.nn.Module):
    def forward(self, x):
        return x - x.mean(0)


def test_logits_that_depend_on_the_batch_have_no_constants():
    with pytest.raises(ModelError, match="they depend on the whole batch"):
        affine_constants(torch.nn.Sequential(Centred(), torch.nn.Linear(2, 2)).double(), X, "linf")


def test_constants_are_those_of_evaluation_mode():
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(2, 2)).double().train()
    found = affine_constants(model, X, "linf")
    torch.testing.assert_close(found.slope, model[1].weight.detach().abs().sum(1))
    assert model.training


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_shares_are_shares(share):
    for make in (
        lambda: lipschitz_radius(tensor([0.5]), share, 1.0),
        lambda: smoothed_radius(tensor([0.9]), tensor([0.1]), share, 1.0),
    ):
        with pytest.raises(ValueError, match=r"share must lie in \(0, 1\]"):
            make()
    with pytest.raises(ValueError, match="strength must be finite"):
        local_bias_radius(X, X, X, constants(WG), math.inf)


def test_constants_of_affine_networks_are_those_of_their_weights():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 2)).double()
    model[1].weight.data, model[1].bias.data = WG, BG
    for norm, order in (("linf", 1), ("l2", 2), ("l1", math.inf)):
        found = affine_constants(model, X, norm)
        expected = torch.linalg.vector_norm(WG, order, dim=1)
        torch.testing.assert_close(found.slope, expected)
        torch.testing.assert_close(found.least, expected)
        assert not found.bend.any()
    found = affine_constants(model, X, "linf")
    assert local_bias_radius(model(X), tensor([[1, -1]]), found.slope[None], found, 0.5).item() == pytest.approx(
        0.65833333, abs=1e-8
    )


def test_normalisation_pooling_and_convolutions_are_affine_and_keep_their_constants():
    convolution = torch.nn.Conv2d(2, 3, 3, padding=1)
    layers = [convolution, torch.nn.BatchNorm2d(3), torch.nn.AvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, 4)]
    model = normalised(torch.nn.Sequential(*layers), (0.1, 0.2), (0.5, 0.25)).double().eval()
    x = torch.rand(2, 2, 4, 4, dtype=torch.float64, generator=generator(0))
    jacobian = torch.autograd.functional.jacobian(lambda z: model(z[None])[0], x[0])
    torch.testing.assert_close(affine_constants(model, x, "linf").slope, jacobian.flatten(1).abs().sum(1))


@pytest.mark.parametrize(
    ("layer", "named"),
    [
        (torch.nn.ReLU(), "ReLU at 0"),
        (torch.nn.MaxPool1d(1), "MaxPool1d at 0"),
        (torch.nn.BatchNorm1d(2, track_running_stats=False), "BatchNorm1d at 0"),
        (Squared(), "mul is not"),
        (Divided(), "truediv is not"),
        (Absolute(), "abs is not"),
        (Floored(), "div is not"),
        (Named(), "mul is not"),
        (hooked(), "Linear at 0 is not"),
    ],
)
def test_what_is_not_affine_is_named(layer, named):
    with pytest.raises(ModelError, match=rf"theorems 1 and 2: expected logits that are affine in the image; .*{named}"):
        affine_constants(torch.nn.Sequential(layer, torch.nn.Linear(2, 2)), X, "linf")


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 4), st.sampled_from(["linf", "l2", "l1"]))
def test_neighbours_stay_within_the_radius(seed, k, norm):
    draw = generator(seed)
    x = torch.rand(12, 2, 2, dtype=torch.float64, generator=draw) * tensor([1.0, 0.3])[:, None]
    oracle = NearestNeighbours(x, torch.arange(12), 12, k=k)
    point = torch.rand(1, 2, 2, dtype=torch.float64, generator=draw)
    radius = unchanged_radius(oracle, point, norm).item()
    steps = torch.randn(200, 2, 2, dtype=torch.float64, generator=draw)
    order = {"linf": math.inf, "l2": 2, "l1": 1}[norm]
    # Towards the first image that is no neighbour and away from the last that is one, as far as the norm allows.
    apart = ((point - x) / oracle.std).flatten(1).norm(dim=1).sort().indices
    across = (x[apart[k]] - x[apart[k - 1]])[None]
    steps = torch.cat((steps, across, across.sign()))
    steps = 0.999 * radius * steps / torch.linalg.vector_norm(steps.flatten(1), order, dim=1)[:, None, None]
    assert bool((oracle(point + steps) == oracle(point)).all())


def test_on_a_line_of_two_images_the_radius_is_the_distance_to_the_middle():
    oracle = NearestNeighbours(tensor([[0.0], [1.0]]), torch.tensor([0, 1]), 2, k=1)
    assert unchanged_radius(oracle, tensor([[0.2], [0.7]]), "l2").tolist() == pytest.approx([0.3, 0.2])
    corners = NearestNeighbours(tensor([[0.0] * 4, [1.0] * 4]), torch.tensor([0, 1]), 2, k=1)
    for norm, expected in (("linf", 0.2), ("l2", 0.4), ("l1", 0.4)):  # along the diagonal of four dimensions
        assert unchanged_radius(corners, tensor([[0.3] * 4]), norm).item() == pytest.approx(expected)
    both = NearestNeighbours(tensor([[0.0], [1.0]]), torch.tensor([0, 1]), 2, k=2)
    assert unchanged_radius(both, tensor([[0.2]]), "l2").item() == math.inf
    weighted = NearestNeighbours(tensor([[0.0], [1.0]]), torch.tensor([0, 1]), 2, k=1, weights="distance")
    with pytest.raises(ModelError, match="count alike; got weights distance"):
        unchanged_radius(weighted, tensor([[0.2]]), "l2")


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 2.0]))
def test_theorem_1_holds_for_oracles_beyond_one(seed, strength):
    model, draw = Bent(seed, bend=0.2), generator(seed + 1)
    x = torch.rand(1, 2, dtype=torch.float64, generator=draw)
    oracle = 20 * torch.rand(1, 3, dtype=torch.float64, generator=draw) - 10
    steep = GradientRatio().measured(model, x)[1]
    radius = local_bias_radius(model(x), oracle, steep, model.constants(), strength).item()

    def mixture(z):
        g, s = GradientRatio().measured(model, z)
        return (g + strength * s * oracle) / (1 + strength * s)

    assert not worst_change(mixture, x, 0.999 * radius)


def test_a_tie_has_no_radius():
    zero = torch.zeros(1, 2, dtype=torch.float64)
    assert local_bias_radius(zero, zero, zero, Constants(zero[0], zero[0], zero[0]), 1.0).item() == 0
