"""Smoothed margins, probabilities and radii: reference numbers, integrals, and what is true and false about them."""

import math

import pytest
import torch
from scipy import stats

from holdfast.lipschitz import (
    ALPHA,
    Moments,
    OrthogonalDense,
    correct_probability,
    correct_probability_integral,
    margin_radius,
    propagate,
    smoothed_margin,
    smoothed_margin_integral,
    zhen_radius,
)
from holdfast.losses import margin
from holdfast.models import build
from holdfast.models.lipschitz import LipschitzMLP
from tests import chance
from tests.zoo import generator, images


def moments(means, deviations):
    return Moments(torch.tensor([means], dtype=torch.float64), torch.tensor([deviations], dtype=torch.float64) ** 2)


def first(value):
    return float(value[0])


def random_moments(count, classes, seed=0):
    draws = torch.randn(2, count, classes, generator=generator(seed), dtype=torch.float64)
    return Moments(draws[0], (0.1 + draws[1].abs()) ** 2)


Y = torch.tensor([0])

# Computed apart: (mu1, mu2, s1, s2, muc) -> smoothed margin of equation 7.
EQUATION_7 = {
    (1, 0.5, 0.3, 0.4, 2): -0.9583422647,
    (0, 0, 1, 1, 1): -0.4358104165,
    (0.3, 0.25, 0.5, 0.2, 0.2): 0.2907623497,
}


@pytest.mark.parametrize(("given", "expected"), EQUATION_7.items())
def test_equation_7_is_the_reference_value(given, expected):
    mu1, mu2, s1, s2, muc = given
    assert first(smoothed_margin(moments([muc, mu1, mu2], [0.7, s1, s2]), Y)) == pytest.approx(expected, abs=1e-10)
    assert first(smoothed_margin(moments([muc, mu2, mu1], [0.7, s2, s1]), Y)) == pytest.approx(expected, abs=1e-10)


def test_radii_of_the_smoothed_margin_are_the_reference_values():
    value = -first(smoothed_margin(moments([2, 1, 0.5], [0.7, 0.3, 0.4]), Y))
    assert value / ALPHA["l2"] == pytest.approx(0.67765031, abs=1e-8)
    assert value / ALPHA["linf"] == pytest.approx(0.47917113, abs=1e-8)
    assert value / ALPHA["l1"] == pytest.approx(value)


def test_equation_7_leaves_out_classes_and_so_overestimates_the_radius():
    given = moments([2, 1, 0.9, 0.8, 0.7], [0.3] * 5)
    assert first(smoothed_margin(given, Y)) == pytest.approx(-0.87606319, abs=1e-8)
    assert first(smoothed_margin_integral(given, Y)) == pytest.approx(-0.81339071, abs=1e-8)
    many = random_moments(200, 6)
    y = torch.zeros(200, dtype=torch.int64)
    assert bool((smoothed_margin(many, y) <= smoothed_margin_integral(many, y) + 1e-9).all())


def test_equation_13_with_three_classes_is_equation_7():
    given, y = random_moments(100, 3), torch.arange(100) % 3
    torch.testing.assert_close(smoothed_margin_integral(given, y), smoothed_margin(given, y), rtol=0, atol=1e-7)


def test_two_classes_need_no_second_rival():
    given = moments([2, 0.5], [0.3, 0.6])
    assert first(smoothed_margin(given, Y)) == pytest.approx(-1.5)
    assert first(smoothed_margin_integral(given, Y)) == pytest.approx(-1.5)


def test_integrals_agree_with_simulation_and_with_the_printed_sum():
    from scipy.integrate import quad

    means, deviations = [0.4, 0.1, 0.3, -0.2], [0.5, 0.2, 0.7, 0.4]
    given = moments(means, deviations)
    draws = given.mean + given.variance.sqrt() * torch.randn(1_000_000, 4, generator=generator(), dtype=torch.float64)
    expected, wins = margin(draws, torch.zeros(len(draws), dtype=torch.int64)), draws.argmax(1) == 0
    assert chance.has_mean(expected, first(smoothed_margin_integral(given, Y)))
    assert chance.has_mean(wins, first(correct_probability_integral(given, Y)))
    normals = [stats.norm(m, s) for m, s in zip(means, deviations, strict=True)]

    def term(i):
        others = [normals[j] for j in (1, 2, 3) if j != i]
        return quad(lambda t: t * normals[i].pdf(t) * math.prod(o.cdf(t) for o in others), -8, 8, limit=200)[0]

    printed = sum(term(i) for i in (1, 2, 3)) - means[0]
    assert first(smoothed_margin_integral(given, Y)) == pytest.approx(printed, abs=1e-7)


def test_narrow_and_wide_classes_are_integrated_alike():
    given = moments([0.0, 10.0, -50.0, 9.9], [3.0, 0.001, 20.0, 0.002])
    excess = 20 * (stats.norm.pdf(3) - 3 * stats.norm.sf(3))  # of the wide class above 10, where the narrow one is
    assert first(smoothed_margin_integral(given, Y)) == pytest.approx(10 + excess, abs=1e-6)
    assert first(correct_probability_integral(given, Y)) == pytest.approx(
        stats.norm.sf(10 / 3) * stats.norm.cdf(60 / 20), abs=3e-5
    )


def test_zhen_and_equation_8_are_the_reference_values():
    given = moments([2.0, 1.0, -3.0], [0.2, 0.3, 1.0])
    assert first(correct_probability(given, Y)) == pytest.approx(0.99722717, abs=1e-8)
    assert first(zhen_radius(given, Y, 0.25)) == pytest.approx(0.69337525, abs=1e-8)
    assert first(correct_probability(given, Y)) >= first(correct_probability_integral(given, Y)) - 1e-12


@pytest.mark.parametrize("sigma", [0.01, 0.1, 1.0])
def test_for_a_linear_classifier_with_orthonormal_rows_all_radii_are_the_distance(sigma):
    # Margin 0.6 gives 0.42426407 for every sigma.
    layer = OrthogonalDense(2, 2).double()
    with torch.no_grad():
        layer.matrix.weight.copy_(torch.eye(2))
    x = torch.tensor([[0.9, 0.3]], dtype=torch.float64)
    radius, prediction = margin_radius(layer(x).detach(), ALPHA["l2"])
    assert (first(radius), first(prediction)) == pytest.approx((0.42426407, 0), abs=1e-8)
    with torch.no_grad():
        given = propagate(layer, x, sigma)
    assert first(zhen_radius(given, Y, sigma)) == pytest.approx(0.42426407, abs=1e-8)
    assert -first(smoothed_margin(given, Y)) / ALPHA["l2"] == pytest.approx(0.42426407, abs=1e-8)


def test_without_noise_the_smoothed_margin_is_the_margin():
    torch.manual_seed(0)
    layer, x = OrthogonalDense(6, 4).double(), images(20, (6,))
    y = torch.arange(20) % 4
    with torch.no_grad():
        quiet = smoothed_margin(propagate(layer, x, 1e-9), y)
        torch.testing.assert_close(quiet, margin(layer(x), y), rtol=0, atol=1e-8)


def test_a_negative_smoothed_margin_means_a_majority_for_gaussian_logits_correlated_or_not():
    # Proposition 3 where it is true: the mean of a maximum of Gaussians is at least its median.
    rng, sizes = torch.Generator().manual_seed(0), chance.deviations(80)
    for _ in range(40):
        mean = torch.randn(4, generator=rng, dtype=torch.float64)
        root = torch.randn(4, 4, generator=rng, dtype=torch.float64)
        draws = mean + torch.randn(20_000, 4, generator=rng, dtype=torch.float64) @ root
        margins = margin(draws, torch.zeros(len(draws), dtype=torch.int64))
        error = float(margins.std()) / math.sqrt(len(draws))
        if float(margins.mean()) < -sizes * error:
            assert float((margins < 0).double().mean()) > 0.5 - sizes * 0.5 / math.sqrt(len(draws))


def test_symmetric_marginals_alone_do_not_suffice():
    # Proposition 3 as printed is false; here with three independent symmetric logits, jittered.
    rng = torch.Generator().manual_seed(0)
    count = 400_000
    right = 2.0 * torch.randint(2, (count,), generator=rng) - 1
    first = torch.tensor([-0.75, -1.05])[torch.randint(2, (count,), generator=rng)]
    places = torch.multinomial(torch.tensor([0.4, 0.2, 0.4]), count, replacement=True, generator=rng)
    second = torch.tensor([1.05, -5.0, -11.05])[places]
    logits = torch.stack((right, first, second), 1) + 0.001 * torch.randn(count, 3, generator=rng)
    margins = margin(logits, torch.zeros(count, dtype=torch.int64))
    assert chance.has_mean(margins, -0.12)
    assert chance.has_mean(margins < 0, 0.45)


@pytest.mark.parametrize("activation", ["relu", "maxmin", "householder"])
def test_averaging_over_noise_keeps_the_constant_of_the_margin(activation):
    # Propositions 5 and 6: any average over shifts, here of eight draws, is as Lipschitz as the margin.
    network = build(LipschitzMLP(hidden=(40, 40), activation=activation), (1, 5, 5), 6).double().eval()
    x, z = images(300, (1, 5, 5)), images(300, (1, 5, 5), seed=1)
    noise = torch.randn(8, 1, 1, 5, 5, generator=generator(), dtype=torch.float64)
    for share in (1.0, 0.01):
        near = x + share * (z - x)
        with torch.no_grad():
            one, other = (
                torch.stack([margin(network(points + shift), torch.arange(300) % 6) for shift in noise]).mean(0)
                for points in (x, near)
            )
        slopes = (one - other).abs() / (x - near).flatten(1).norm(dim=1)
        assert float(slopes.max()) <= ALPHA["l2"] + 1e-9
        assert float(slopes.max()) > 0.1


@pytest.mark.parametrize(("norm", "power"), [("l1", 1.0), ("l2", 2.0), ("linf", math.inf)])
def test_the_margin_changes_by_at_most_alpha_per_unit_of_logits_and_no_less(norm, power):
    one, other = torch.randn(2, 5000, 4, generator=generator(), dtype=torch.float64)
    y = torch.zeros(5000, dtype=torch.int64)
    apart = torch.linalg.vector_norm(one - other, ord=power, dim=1)
    slopes = (margin(one, y) - margin(other, y)).abs() / apart
    assert float(slopes.max()) <= ALPHA[norm] + 1e-12
    change = torch.tensor([[-1.0, 0.0 if norm == "l1" else 1.0, 0.0, 0.0]], dtype=torch.float64)
    zero = torch.zeros(1, 4).double()
    size = float(torch.linalg.vector_norm(change, ord=power))
    assert float(margin(change, y[:1]) - margin(zero, y[:1])) / size == pytest.approx(ALPHA[norm])
