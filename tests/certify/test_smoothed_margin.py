"""The statistical certificate of Lipschitz networks: coverage, its two limits, and attacks on what it certifies."""

import math

import pytest
import torch
import torch.nn.functional as F

from holdfast.attacks import APGD, FAB, PGD
from holdfast.certify import Margin, SmoothedMargin, estimate_margin, mean_logits
from holdfast.certify.smoothed_margin import certified_radius
from holdfast.errors import ModelError
from holdfast.lipschitz import propagate, smoothed_margin_integral
from holdfast.lipschitz.margins import MarginBound, margin_bound
from holdfast.losses import margin
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf
from holdfast.types import ABSTAIN
from tests import chance
from tests.certify.attacked import Averaged, inside
from tests.zoo import digits, digits_lipschitz, generator, half_space, half_space_distance, images

KINDS = {"l1": L1, "l2": L2, "linf": Linf}


@pytest.mark.parametrize("sigma", [0.05, 1.0])
def test_coverage_over_ten_thousand_cases(sigma):
    # On a half-space the smoothed margin is the margin and the radius is known. The bound is for any Lipschitz network;
    # here, where the margin is Gaussian with the largest variance allowed, it fails in 0.7 % of the cases.
    count, alpha = 10_000, 0.05
    model, x = half_space(3), images(count, (3,))
    exact = half_space_distance(model, x, "l2")
    certificate = SmoothedMargin(sigma=sigma, n=8, n0=20, alpha=alpha)(model, x, rng=Streams(1, "", count))
    with torch.no_grad():
        right = certificate.prediction == (model.signed(x) > 0)
    claims = certificate.prediction != ABSTAIN
    wrong = claims & ~(right & (certificate.radius <= exact * (1 + 1e-9)))
    assert float(wrong.double().mean()) <= alpha
    assert int(wrong.sum()) > 0  # it does claim something
    expected = 1 - 0.5 * (1 + math.erf(math.sqrt(math.log(1 / alpha))))
    surely = exact > 6 * sigma / math.sqrt(8)  # where it neither abstains nor takes the other class
    if sigma < 0.1:
        error = chance.share_error(int(surely.sum()), expected)
        assert float(wrong[surely].double().mean()) == pytest.approx(expected, abs=error)


def test_coverage_where_the_margin_is_far_from_gaussian():
    # A network that is 1-Lipschitz: |x| - 1/2 in one dimension of noise, whose mean is known by quadrature.
    t = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-0.5 * t**2) / math.sqrt(2 * math.pi)
    sigma, n, alpha, cases = 0.6, 12, 0.05, 10_000
    mean = float(torch.trapezoid((sigma * t).abs() * density, t)) - 0.7
    draws = (sigma * torch.randn(cases, n, generator=generator(), dtype=torch.float64)).abs() - 0.7
    left = certified_radius(draws.mean(1), sigma, n, alpha)
    assert float((left <= -mean).double().mean()) >= 1 - alpha


def test_the_price_of_sampling_is_known_and_vanishes_with_the_noise():
    model, (x, _) = digits_lipschitz("maxmin"), digits()
    x = x[:100]
    quiet, exact = SmoothedMargin(sigma=1e-6, n=50)(model, x), Margin()(model, x)
    torch.testing.assert_close(quiet.radius, exact.radius, rtol=0, atol=1e-5)
    assert torch.equal(quiet.prediction, exact.prediction)
    noisy = SmoothedMargin(sigma=0.2, n=400, alpha=0.01)(model, x)
    kept = noisy.prediction != ABSTAIN
    estimate = estimate_margin(model, x, exact.prediction, 0.2, 400, Streams(0, "", 100).split("estimation"))
    price = 0.2 * math.sqrt(2 * math.log(100) / 400)
    expected = -estimate.mean / math.sqrt(2) - price
    same = kept & (noisy.prediction == exact.prediction)
    torch.testing.assert_close(noisy.radius[same], expected[same], rtol=1e-5, atol=1e-6)
    assert int(same.sum()) > 50
    assert noisy.samples.tolist() == [500] * 100


def test_the_rounding_of_margins_is_taken_off(monkeypatch):
    model, x, rounding = half_space(3), images(20, (3,)), 0.01
    exact = SmoothedMargin(sigma=0.1, n=50)(model, x)
    monkeypatch.setattr(MarginBound, "rounding", lambda *_: torch.full((len(x),), rounding, dtype=torch.float64))
    rounded = SmoothedMargin(sigma=0.1, n=50)(model, x)
    growth = margin_bound(model, x, "l2").growth.amax()
    kept = rounded.radius > 0
    assert int(kept.sum()) > 5
    torch.testing.assert_close(exact.radius[kept] - rounded.radius[kept], (rounding / growth).expand(int(kept.sum())))


def test_small_noise_is_certified_where_the_majority_vote_cannot_be():
    # Randomized smoothing cannot certify more than a few sigma, whatever the network.
    model, (x, _) = digits_lipschitz("maxmin"), digits()
    radius = SmoothedMargin(sigma=0.01, n=100)(model, x[:100]).radius
    assert float(radius.median()) > 0.1 > 0.01 * 3.09


@pytest.mark.parametrize("norm", KINDS)
def test_no_attack_on_the_averaged_network_succeeds_inside_the_radius(norm):
    sigma = 0.15
    model, (x, _) = digits_lipschitz("maxmin"), digits()
    certificate = SmoothedMargin(sigma=sigma, n=300, norm=norm)(model, x)
    assert float((certificate.prediction != ABSTAIN).double().mean()) > 0.8
    averaged = Averaged(model, sigma * torch.randn(8, 1, 8, 8, generator=generator()))
    for part, eps in inside(certificate, groups=5):
        threat, labels = KINDS[norm](eps), certificate.prediction[part]
        for attack in (PGD(threat=threat, steps=10), APGD(threat=threat, steps=10), FAB(threat=threat, steps=5)):
            z = attack(averaged, x[part], labels)
            found = mean_logits(model, z, sigma, 500, Streams(9, "judge", len(z)))
            assert torch.equal(found.argmax(1), labels), (attack, eps)


def test_the_error_of_an_estimate_is_that_of_a_mean():
    # The margin of a half-space is linear in the noise; its deviation is known to 1.1 % from 4,000 copies.
    model, x, n = half_space(3), images(20, (3,)), 4_000
    y = model(x).argmax(1)
    estimate = estimate_margin(model, x, y, 0.1, n)
    with torch.no_grad():
        slopes = torch.stack([model(row[None]) for row in torch.eye(3, dtype=x.dtype)]).squeeze(1) - model(0 * x[:1])
    deviation = 0.1 * float((slopes[:, 0] - slopes[:, 1]).norm())
    torch.testing.assert_close(estimate.error, torch.full((20,), deviation / math.sqrt(n)).double(), rtol=0.08, atol=0)


def test_estimates_agree_with_the_integral_of_the_propagated_moments():
    model, (x, y) = digits_lipschitz("maxmin"), digits()
    x, y = x[:20], y[:20]
    found = estimate_margin(model, x, y, 0.1, 4000)
    with torch.no_grad():
        moments = propagate(model, x, 0.1)
    # Propagated moments leave out correlations, which here move the margin by up to a sixth of the noise.
    torch.testing.assert_close(found.mean, smoothed_margin_integral(moments, y), rtol=0, atol=0.017)
    with torch.no_grad():
        clean = margin(model(x), y)
    assert bool((found.share[clean < -0.5] > 0.99).all())
    assert float(found.error.max()) < 0.1 * math.sqrt(2) / math.sqrt(4000) * 1.01


def test_results_do_not_depend_on_batches():
    model, (x, _) = digits_lipschitz("relu"), digits()
    x = x[:12]
    whole = SmoothedMargin(sigma=0.2, n=70, n0=10)(model, x, rng=Streams(5, "", 12))
    part = SmoothedMargin(sigma=0.2, n=70, n0=10, batch=33)(model, x[3:7], rng=Streams(5, "", range(3, 7)))
    torch.testing.assert_close(whole.radius[3:7], part.radius, rtol=1e-5, atol=1e-6)
    assert torch.equal(whole.prediction[3:7], part.prediction)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"sigma": math.inf}, "sigma must be positive and finite, got inf"),
        ({"sigma": 0.1, "batch": 0}, "batch must be at least 1, got 0"),
        ({"sigma": 0.1, "alpha": 0.0}, "alpha must lie between 0 and 1, got 0.0"),
        ({"sigma": 0.1, "n": 0}, "n must be at least 1, got 0"),
        ({"sigma": 0.1, "n0": 0}, "n0 must be at least 1, got 0"),
        ({"sigma": 0.1, "alpha": 1.0}, "alpha must lie between 0 and 1"),
        ({"sigma": 0.1, "constant": 0.0}, "constant must be positive and finite, got 0.0"),
    ],
)
def test_impossible_values_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SmoothedMargin(**options)


def test_a_certificate_is_wrong_once_in_a_thousand_by_default():
    assert SmoothedMargin(sigma=0.1) == SmoothedMargin(sigma=0.1, n=1000, n0=100, alpha=0.001, batch=512)


def test_one_copy_at_a_time_is_possible():
    options = {"sigma": 0.1, "n": 1, "n0": 1, "batch": 1}
    assert SmoothedMargin(**options)(half_space(3), images(2, (3,))).samples.tolist() == [2, 2]


def test_a_network_without_a_constant_is_refused_unless_it_is_given():
    def plain(z):
        return F.linear(z, torch.eye(3, dtype=z.dtype))

    x = images(4, (3,))
    with pytest.raises(ModelError, match="expected an nn"):
        SmoothedMargin(sigma=0.1)(plain, x)
    assert SmoothedMargin(sigma=0.1, constant=1.0)(plain, x).radius.shape == (4,)


def test_infinite_logits_are_refused():
    x = images(4, (3,))
    x[2] += 9  # the only image whose logits are not finite
    with pytest.raises(ModelError, match="the logits of noisy copies are not finite"):
        SmoothedMargin(sigma=0.1, n=10, constant=1.0)(lambda z: torch.where(z > 5, math.inf, z), x)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def half_space_along_a_pixel(z):
    """Logits whose margin changes by 2 per unit of the first pixel."""
    return torch.stack((0.5 - z[:, 0], z[:, 0] - 0.5), 1)


@pytest.mark.parametrize("norm", KINDS)
def test_a_known_constant_is_that_of_the_norm_and_of_l2(norm):
    alpha, n = {"l1": 1.0, "l2": math.sqrt(2), "linf": 2.0}[norm], 50
    model, x = half_space_along_a_pixel, tensor([[0.9, 0.5], [0.2, 0.5]])
    found = SmoothedMargin(sigma=0.1, n=n, norm=norm, constant=2.0)(model, x)
    mean = estimate_margin(model, x, torch.tensor([1, 0]), 0.1, n, Streams(0, "", 2).split("estimation")).mean
    price = math.sqrt(2) * 2.0 * 0.1 * math.sqrt(2 * math.log(1000) / n)
    assert bool((found.radius > 0).all())
    torch.testing.assert_close(found.radius, (-mean - price) / (2.0 * alpha), rtol=1e-9, atol=0)


def test_the_rounding_of_a_known_network_is_taken_off_as_in_the_certificate_of_the_margin():
    logits = torch.tensor([[1000.0, 999.0, 0.0], [3.0, 1.0, -9.0]])

    def steps(z):  # in float32, and a function has no copy in float64
        return logits[(z[:, 0] > 0.5).long()]

    x = torch.tensor([[0.0], [1.0]])
    found, exact = SmoothedMargin(sigma=1e-6, n=40, constant=2.0)(steps, x), Margin(constant=2.0)(steps, x)
    price = 1e-6 * math.sqrt(2 * math.log(1000) / 40)
    torch.testing.assert_close(found.radius, exact.radius - price, rtol=1e-9, atol=0)
    assert float(found.radius[0]) < (1.0 - 64 * 2.0**-23 * 1000) / (2 * math.sqrt(2))


def test_the_rounding_of_copies_counts_noise_as_far_as_its_generator_goes(monkeypatch):
    further, rounding = [], MarginBound.rounding
    monkeypatch.setattr(MarginBound, "rounding", lambda *given: further.append(given[2]) or rounding(*given))
    SmoothedMargin(sigma=0.1, n=10)(half_space(12), images(4, (12,)))
    assert further == [{"l2": pytest.approx(9 * 0.1 * math.sqrt(12))}]


def test_the_radius_is_rounded_down(monkeypatch):
    x, method, unit = images(20, (3,)), SmoothedMargin(sigma=0.05, n=50, constant=3.0), 2.0**-24
    exact = method(half_space(3), x).radius
    monkeypatch.setattr("holdfast.lipschitz.rounding.UNIT", unit)
    assert int((exact > 0).sum()) > 5
    torch.testing.assert_close(method(half_space(3), x).radius, exact * (1 - 32 * unit), rtol=1e-10, atol=0)


def test_of_a_radius_of_exactly_zero_nothing_is_predicted(monkeypatch):
    monkeypatch.setattr("holdfast.certify.smoothed_margin.certified_radius", lambda mean, *_: torch.zeros_like(mean))
    assert SmoothedMargin(sigma=0.1, n=10)(half_space(3), images(2, (3,))).prediction.tolist() == [ABSTAIN] * 2


def test_an_estimate_of_two_copies_is_that_of_two_values():
    """Mean (a + b) / 2 with the error |a - b| / 2; of equal logits neither class wins."""
    seen = []

    def model(z):
        seen.append(z)
        return F.pad(z, (0, 1))

    found = estimate_margin(model, tensor([[0.0], [-3.0]]), torch.tensor([1, 1]), 0.7, 2)
    a, b = torch.cat(seen).view(2, 2).T  # the margin of a logit of 0
    torch.testing.assert_close(found.mean, (a + b) / 2)
    torch.testing.assert_close(found.error, (a - b).abs() / 2)
    torch.testing.assert_close(found.share, ((a < 0).double() + (b < 0).double()) / 2)
    assert found.share.tolist() != [0, 0]
    assert estimate_margin(model, tensor([[0.0]]), torch.tensor([1]), 0.7, 1).error.tolist() == [0]
    assert estimate_margin(lambda z: torch.zeros(len(z), 3), tensor([[0.0]]), torch.tensor([1]), 0.7, 5).share == 0


def test_the_share_is_of_the_copies_that_the_class_wins():
    x, n = tensor([[0.5, 0.0], [0.6, 0.0], [0.2, 0.0]]), 4_000
    found = estimate_margin(half_space_along_a_pixel, x, torch.ones(3, dtype=torch.int64), 0.2, n)
    expected = torch.special.ndtr((x[:, 0] - 0.5) / 0.2)
    assert bool(((found.share - expected).abs() < chance.share_error(n, 0.5, 3)).all())


@pytest.mark.parametrize(
    "measure", [estimate_margin, lambda model, x, y, sigma, n: mean_logits(model, x, sigma, n)], ids=["margin", "mean"]
)
def test_a_pass_has_512_rows_by_default(measure):
    sizes = []
    measure(lambda z: sizes.append(len(z)) or z, images(2, (3,)), torch.tensor([0, 0]), 0.1, 400)
    assert sizes == [512, 288]
