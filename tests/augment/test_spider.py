"""SPIDER: lengths, directions and labels."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.augment import Spider, soften
from holdfast.augment.spider import constant_confidence, exponential_confidence, geometric_confidence
from holdfast.errors import RecipeError
from holdfast.rng import Streams
from holdfast.threat.l2 import rescale
from tests import chance
from tests.zoo import generator, images


def one(x, direction, radius):
    """Factor and length reached for a single point in float64."""
    x, direction = (torch.tensor([values], dtype=torch.float64) for values in (x, direction))
    eta = rescale(x, direction, torch.tensor([radius], dtype=torch.float64))
    return float(eta), (x + eta[:, None] * direction).clamp(0, 1) - x


def length(z, x):
    return (z - x).flatten(1).double().norm(dim=1)


# Computed independently in float64: classes, tau, xi, r, exponential, geometric, other classes under the exponential.
NUMBERS = [
    (10, 5.0, 0.4, 0.0, 1.0, 1.0, 0.0),
    (10, 5.0, 0.4, 1.0, 0.86525470, 0.87055056, 0.01497170),
    (10, 5.0, 0.4, 2.5, 0.70, 0.70710678, 0.03333333),
    (10, 5.0, 0.4, 5.0, 0.50, 0.5, 0.05555556),
    (10, 5.0, 0.4, 10.0, 0.27777778, 0.25, 0.08024691),
    (100, 8.0, 0.49, 4.0, 0.70649121, 0.70710678, 0.00296474),
    (100, 8.0, 0.49, 8.0, 0.5, 0.5, 0.00505051),
    (100, 8.0, 0.49, 16.0, 0.25252525, 0.25, 0.00755025),
]


@pytest.mark.parametrize(("classes", "tau", "xi", "r", "falling", "geometric", "other"), NUMBERS)
def test_confidence_has_the_reference_numbers(classes, tau, xi, r, falling, geometric, other):
    r = torch.tensor([r], dtype=torch.float64)
    s = exponential_confidence(r, tau, xi, classes)
    assert float(s) == pytest.approx(falling, abs=5e-9)
    assert float(geometric_confidence(r, tau, xi, classes)) == pytest.approx(geometric, abs=5e-9)
    label = soften(torch.tensor([2]), s, classes)
    assert float(label[0, 2]) == pytest.approx(falling, abs=5e-9)
    assert label[0, [0, 1, *range(3, classes)]].tolist() == pytest.approx([other] * (classes - 1), abs=5e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 200), st.floats(0.1, 30), st.floats(0, 1))
def test_confidence_starts_at_one_goes_through_its_point_at_tau_and_never_falls_below_chance(classes, tau, share):
    xi = share * (1 - 1 / classes)
    r = torch.linspace(0, 3 * tau, 31, dtype=torch.float64)
    for smoothing in (exponential_confidence, geometric_confidence):
        s = smoothing(r, tau, xi, classes)
        assert float(s[0]) == pytest.approx(1)
        assert float(s[10]) == pytest.approx(1 / classes + xi)
        assert bool((s.diff() <= 1e-12).all())
    falling = exponential_confidence(r, tau, xi, classes)
    assert bool((falling >= 1 / classes - 1e-12).all())
    # Convex, which the theorem on boundary thickness needs.
    assert xi == 0 or bool((falling.diff().diff() >= -1e-12).all())


def test_ends_of_xi_are_no_smoothing_and_chance():
    r = torch.tensor([0.0, 0.3, 2.0], dtype=torch.float64)
    assert exponential_confidence(r, 1.0, 0.9, 10).tolist() == [1, 1, 1]
    assert exponential_confidence(r, 1.0, 0.0, 10).tolist() == pytest.approx([1, 0.1, 0.1])
    assert constant_confidence(r, 1.0, 0.25, 4).tolist() == [0.5, 0.5, 0.5]


# x, d, r, eta: computed independently in float64; the naive factor would reach only 3.39593 in the last.
def test_rescaling_has_the_reference_numbers():
    x, d = [0.2, 0.9, 0.5], [1.0, 1.0, -1.0]
    eta, step = one(x, d, 0.5)
    assert eta == pytest.approx(0.3464101615, abs=1e-10)
    assert (step[0] + torch.tensor(x, dtype=torch.float64)).tolist() == pytest.approx(
        [0.54641016, 1, 0.15358984], abs=1e-8
    )
    assert one(x, d, 0.9)[0] == pytest.approx(0.7416198487, abs=1e-10)
    eta, step = one(x, d, 1.5)
    assert eta == pytest.approx(0.8)
    assert float(step.norm()) == pytest.approx(0.9486832981, abs=1e-10)
    assert one([0.5, 0.5], [3.0, 4.0], 0.4)[0] == pytest.approx(0.08)
    numbers = np.random.RandomState(22)
    x, d = numbers.rand(784).tolist(), numbers.randn(784).tolist()
    eta, step = one(x, d, 3.6)
    assert eta == pytest.approx(0.1377253480, abs=1e-10)
    assert float(step.norm()) == pytest.approx(3.6, abs=1e-12)
    naive = torch.tensor(x) + torch.tensor(d) * 3.6 / torch.tensor(d).norm()
    assert float((naive.clamp(0, 1) - torch.tensor(x)).norm()) == pytest.approx(3.39593, abs=1e-5)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0]) | st.floats(0, 1), st.floats(-9, 9) | st.just(0.0)),
        min_size=1,
        max_size=8,
    ),
    st.floats(0, 4),
)
def test_rescaling_reaches_the_length_or_the_corner(coordinates, radius):
    x, d = [c for c, _ in coordinates], [m if abs(m) > 1e-6 else 0.0 for _, m in coordinates]
    eta, step = one(x, d, radius)
    room = [(1 - c if m > 0 else c) for c, m in zip(x, d, strict=True) if m]
    corner = math.hypot(*room) if room else 0.0
    assert math.isfinite(eta)
    assert float(step.norm()) == pytest.approx(min(radius, corner), abs=1e-9)
    if radius > corner + 1e-9:  # the smallest factor that does it
        assert eta == pytest.approx(max([r / abs(m) for r, m in zip(room, filter(None, d), strict=True)], default=0))


def by_sorting(x, direction, radius):
    """The factor from the knots of the piecewise linear length, in order: another way to the same number."""
    slope, towards = direction.flatten(1) ** 2, torch.where(direction > 0, 1 - x, x).flatten(1)
    found = []
    for d, w, r in zip(slope, towards, radius, strict=True):
        knots, order = (w[d > 0] ** 2 / d[d > 0]).sort()
        left = d[d > 0][order].flip(0).cumsum(0).flip(0)
        lengths = (left * knots.diff(prepend=knots.new_zeros(1))).cumsum(0)
        k = int((lengths < r**2).sum())
        found.append(knots[-1] if k == len(knots) else knots[k] - (lengths[k] - r**2) / left[k])
    return torch.stack(found).sqrt()


def test_rescaling_agrees_with_the_sorted_solution_and_rows_do_not_see_each_other():
    x, rng = images(40, (3, 10, 10)).round(decimals=1), generator(3)
    direction = torch.randn(40, 3, 10, 10, generator=rng, dtype=torch.float64)
    direction[:, :, 0] = 0
    radius = torch.rand(40, generator=rng, dtype=torch.float64) * 14  # some beyond the cube
    eta = rescale(x, direction, radius)
    reached = (x + eta.view(-1, 1, 1, 1) * direction).clamp(0, 1)
    torch.testing.assert_close(eta, by_sorting(x, direction, radius), rtol=1e-10, atol=0)
    assert bool((length(reached, x) < radius - 0.1).any())
    alone = torch.cat([rescale(x[i : i + 1], direction[i : i + 1], radius[i : i + 1]) for i in range(40)])
    assert torch.equal(alone, eta)


@pytest.mark.parametrize("radius", [1e-4, 0.1, 3.0, 20.0, 30.0])
@pytest.mark.parametrize("kind", ["uniform", "black and white", "nearly white"])
def test_float32_reaches_the_length_to_six_digits(kind, radius):
    x = images(64, (3, 32, 32), dtype=torch.float32)
    x = {"uniform": x, "black and white": x.round(), "nearly white": 1 - 1e-3 * x}[kind]
    direction = torch.randn(x.shape, generator=generator(5))
    wanted = torch.full((64,), radius)
    eta = rescale(x, direction, wanted)
    exact = rescale(x.double(), direction.double(), wanted.double())
    torch.testing.assert_close(eta.double(), exact, rtol=2e-6, atol=0)
    # In float64 from here, so that only the factor is judged: float32 cannot add 1e-6 to a white pixel.
    reached = length((x + eta.view(-1, 1, 1, 1) * direction.double()).clamp(0, 1), x)
    torch.testing.assert_close(reached, wanted.double(), rtol=1e-6, atol=0)


def test_nothing_to_move_and_nowhere_to_go_give_zero():
    x, none, some = torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2, 3)
    assert rescale(x, none, torch.ones(2)).tolist() == [0, 0]
    assert rescale(x, -some, torch.ones(2)).tolist() == [0, 0]
    assert rescale(x, some, torch.zeros(2)).tolist() == [0, 0]


def kolmogorov(values, distribution):
    """Largest distance of the empirical distribution function."""
    levels, count = distribution(values.sort().values), len(values)
    steps = torch.arange(count + 1, dtype=values.dtype) / count
    return max(float((steps[1:] - levels).max()), float((levels - steps[:-1]).max()))


LAWS = {
    "uniform": lambda r: r / 2,
    "half_normal": lambda r: torch.erf(r / 2 / math.sqrt(2)),
    "exponential": lambda r: 1 - torch.exp(-r / 2),
}


@pytest.mark.parametrize("law", LAWS)
def test_lengths_follow_their_law_and_are_reached_in_spite_of_clipping(law):
    x = images(2000, (3, 16, 16))  # the corner is about 16 away, so that no length is out of reach
    z = Spider(tau=2.0, radius=law)(x, rng=Streams(4, "law", 2000))
    assert kolmogorov(length(z, x), LAWS[law]) < chance.cdf_error(2000)
    assert bool((z == 0).any() | (z == 1).any())


def test_fixed_lengths_are_all_alike():
    x = images(50, (3, 16, 16))
    torch.testing.assert_close(
        length(Spider(tau=3.0, radius="fixed")(x), x), torch.full((50,), 3.0, dtype=torch.float64)
    )


def test_directions_are_uniform_on_the_sphere_and_independent_of_lengths():
    x = torch.full((4000, 1, 1, 3), 0.5, dtype=torch.float64)
    step = (Spider(tau=0.4)(x, rng=Streams(1, "d", 4000)) - x).flatten(1)
    r = step.norm(dim=1, keepdim=True)
    unit = step / r
    for axis in range(3):  # on a sphere in three dimensions each coordinate is uniform in [-1, 1] (Archimedes)
        assert kolmogorov(unit[:, axis], lambda u: (u + 1) / 2) < chance.cdf_error(4000)
    assert float(unit.mean(0).abs().max()) < chance.deviations(3) / math.sqrt(3 * 4000)
    correlations = torch.corrcoef(torch.cat((unit, r), dim=1).T).fill_diagonal_(0)
    assert float(correlations.abs().max()) < chance.deviations(6) / math.sqrt(4000)


@pytest.mark.parametrize("x", [torch.zeros(6, 1, 2, 2).double(), images(6, (1, 2, 2))], ids=["corner", "inside"])
def test_labels_follow_the_length_that_was_reached_not_the_one_drawn(x):
    spider = Spider(tau=10.0, xi=0.3, radius="fixed")  # no point of the cube is farther than 2
    z = spider(x)
    reached = length(z, x)
    assert bool((reached <= 2).all())
    expected = 0.25 + 0.75 * 0.4 ** (reached / 10)
    torch.testing.assert_close(spider.confidence(z, x, 4), expected)


def test_ablations_change_images_in_the_same_way_and_labels_otherwise():
    x = images(9, (3, 8, 8))
    plain, none, constant = (Spider(tau=2.0, xi=0.3, smoothing=s) for s in ("exponential", "none", "constant"))
    z = plain(x)
    assert torch.equal(z, none(x))
    assert torch.equal(z, constant(x))
    assert (plain.softens, none.softens, constant.softens) == (True, False, True)
    assert none.confidence(z, x, 5).tolist() == [1] * 9
    assert constant.confidence(z, x, 5).tolist() == pytest.approx([0.5] * 9)


def test_no_radius_is_plain_training():
    x = images(4, (3, 8, 8))
    spider = Spider(tau=0.0)
    assert torch.equal(spider(x), x)
    assert not spider.softens
    assert spider.confidence(x, x, 10).tolist() == [1] * 4


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"tau": -1.0}, "tau: expected a finite length, not negative, got -1.0"),
        ({"tau": math.nan}, "tau: expected a finite length"),
        ({"xi": -0.1}, "xi: expected a number in"),
        ({"xi": 1.0}, "xi: expected a number in"),
        ({"radius": "cauchy"}, "radius: expected one of uniform, half_normal, exponential, fixed, got 'cauchy'"),
        ({"smoothing": "linear"}, "smoothing: expected one of exponential, geometric, constant, none, got 'linear'"),
        ({"smoothing": "geometric", "radius": "exponential"}, "geometric needs lengths up to tau"),
    ],
)
def test_refuses_what_it_does_not_have(fields, sentence):
    with pytest.raises(ValueError, match=sentence):
        Spider(**fields)


def test_refuses_more_certainty_than_there_is():
    x = images(2, (1, 4, 4))
    assert Spider(xi=0.5).confidence(x, x, 2).tolist() == [1, 1]
    with pytest.raises(RecipeError, match=r"spider\.xi: expected at most 1 - 1/2 for 2 classes, got 0.6"):
        Spider(xi=0.6).confidence(x, x, 2)
