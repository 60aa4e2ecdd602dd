"""Certificates of mixed probabilities hold under attack, and are refused where nothing is known."""

import copy

import pytest
import torch
from torch import nn

from holdfast.attacks import PGD
from holdfast.certify import GaussianSmoothing, Margin, MixtureMargin, MixtureSmoothing, SmoothedMargin
from holdfast.ensembles import Composite, GradientRatio, Probability, RobustTransform, strength_of
from holdfast.errors import ModelError
from holdfast.losses import margin
from holdfast.rng import Streams
from holdfast.theory.mixture_radii import smoothed_radius
from holdfast.threat import L2
from holdfast.types import ABSTAIN
from holdfast.wrappers import Counted
from tests.zoo import Linear, digits, digits_lipschitz, digits_mlp


def mixture(share=0.8):
    return Composite(
        copy.deepcopy(digits_mlp()),
        copy.deepcopy(digits_lipschitz()),
        Probability(temperature=0.05),
        strength_of(share),
    )


def test_no_attack_gets_inside_the_radius():
    model, x = mixture(), digits()[0][:60]
    found = MixtureMargin()(model, x)
    sure = found.prediction != ABSTAIN
    assert int(sure.sum()) > 10
    assert torch.equal(model(x).argmax(1)[sure], found.prediction[sure])
    for row in sure.nonzero()[:10, 0].tolist():
        threat = L2(0.999 * float(found.radius[row]))
        attack = PGD(threat=threat, steps=20, loss=margin)
        z = attack(model, x[row : row + 1], found.prediction[row : row + 1], rng=Streams(0, "attack", 1))
        assert model(z).argmax(1).item() == found.prediction[row].item()


def test_where_rounding_decides_nothing_is_certified():
    """Almost all is h, and h is so unsure that single precision does not tell its classes apart."""
    draw = torch.Generator().manual_seed(0)
    g, h = (Linear(scale * torch.randn(10, 6, generator=draw), torch.zeros(10)) for scale in (1.0, 1e-4))
    model, x = Composite(g, h, Probability(temperature=1000.0), 1e12), torch.randn(200, 6, generator=draw)
    found, mixed = MixtureMargin()(model, x), model(x).argmax(1)
    sure = found.prediction != ABSTAIN
    assert bool((mixed != h(x).argmax(1)).any())
    assert torch.equal(found.prediction[sure], mixed[sure])
    assert not found.radius[~sure].any()


def test_all_for_the_robust_one_is_its_own_certificate():
    model, x = mixture(), digits()[0][:20]
    alone = Margin()(model.robust, x)
    model.strength = float("inf")
    torch.testing.assert_close(MixtureMargin()(model, x).radius, alone.radius, rtol=1e-9, atol=1e-9)


def test_a_smaller_share_proves_less():
    x = digits()[0][:40]
    radii = [MixtureMargin()(mixture(share), x).radius for share in (0.6, 0.8, 0.95)]
    assert bool((radii[0] <= radii[1]).all())
    assert bool((radii[1] <= radii[2]).all())
    assert float(radii[2].sum()) > float(radii[0].sum())


def plane(sign):
    """Two classes on the two sides of x_0 = 1/2, sure of it."""
    weight = torch.tensor([[-1e3, 0.0], [1e3, 0.0]], dtype=torch.float64) * sign
    return Linear(weight, torch.tensor([500.0, -500.0], dtype=torch.float64) * sign)


def test_a_smoothed_half_space_against_the_worst_accurate_classifier():
    """Of a half-space everything is known: the mixture changes its mind where a Phi(d / sigma) = 1 / 2."""
    share, sigma = 0.8, 0.25
    model = Composite(plane(-1), plane(1), Probability(), strength_of(share))
    x = torch.tensor([[0.9, 0.5], [0.2, 0.5], [0.51, 0.5]], dtype=torch.float64)
    found = MixtureSmoothing(smoothing=GaussianSmoothing(sigma=sigma, n=20_000))(model, x)
    assert found.prediction.tolist() == [1, 0, ABSTAIN]
    edge = sigma * torch.special.ndtri(torch.tensor(0.5 / share, dtype=torch.float64)).item()
    true = (x[:, 0] - 0.5).abs() - edge
    assert bool((found.radius[:2] <= true[:2]).all())
    assert bool((found.radius[:2] > 0.5 * true[:2]).all())
    inside = GaussianSmoothing(sigma=sigma, n=20_000)(model.robust, x).radius[:2]
    torch.testing.assert_close(found.radius[:2], inside.double() - edge)
    first = torch.special.ndtr(inside / sigma)
    assert bool((found.radius[:2] > smoothed_radius(first, 1 - first, share, sigma)).all())


def test_queries_are_counted():
    model, x = mixture(), digits()[0][:3]
    counts = torch.zeros(3, dtype=torch.int64)
    MixtureMargin()(Counted(model, counts), x)
    assert counts.tolist() == [1, 1, 1]
    MixtureSmoothing(smoothing=GaussianSmoothing(sigma=0.1, n=100, n0=10))(Counted(model, counts), x)
    assert counts.tolist() == [111, 111, 111]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: digits_mlp(), "expected a composite of fixed strength, got"),
        (
            lambda: Composite(digits_mlp(), digits_mlp(), GradientRatio(), 2.0),
            "mixed probabilities, .* got GradientRatio",
        ),
        (lambda: mixture(0.4), "expected a strength above 1, so that the robust classifier decides, got 0.66"),
        (lambda: mixture(0.5), "expected a strength above 1, .* got 1.0"),
    ],
)
@pytest.mark.parametrize("kind", [MixtureMargin, MixtureSmoothing])
def test_what_is_not_proved_is_refused(kind, make, says):
    with pytest.raises(ModelError, match=says):
        kind()(copy.deepcopy(make()), digits()[0][:2])


@pytest.mark.parametrize("method", [Margin(), SmoothedMargin(sigma=0.1, n=10)], ids=["margin", "smoothed_margin"])
def test_certificates_of_single_networks_say_what_to_ask_instead(method):
    with pytest.raises(ModelError, match="got Composite; of a composite of mixed probabilities mixture_margin"):
        method(Counted(mixture(), torch.zeros(2, dtype=torch.int64)), digits()[0][:2])


def test_unknown_constants_are_refused():
    transformed = mixture()
    transformed.mixing = Probability(transform=RobustTransform())
    with pytest.raises(ModelError, match="a transform changes their constants"):
        MixtureMargin()(transformed, digits()[0][:2])
    strange = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.Softmax(1))
    strange = Composite(digits_mlp(), strange, Probability(), 4.0)
    assert MixtureMargin(constant=3.0)(strange, digits()[0][:2]).radius.shape == (2,)
    with pytest.raises(ValueError, match="constant must be positive and finite, got 0"):
        MixtureMargin(constant=0.0)
    with pytest.raises(ValueError, match="bound must be one_vs_rest"):
        MixtureSmoothing(smoothing=GaussianSmoothing(sigma=0.1, bound="two_class"))


def test_without_arguments_the_smoothing_is_that_of_the_docs():
    assert MixtureSmoothing() == MixtureSmoothing(smoothing=GaussianSmoothing(sigma=0.25))


def test_the_rounding_of_a_temperature_is_taken_off(monkeypatch):
    """With a unit of rounding so large that it can be seen, and a robust classifier that decides alone."""
    weight = torch.tensor([[4.0, 0.0], [1.0, 0.0], [0.0, 0.25]], dtype=torch.float64)
    h, unit = Linear(weight, torch.zeros(3, dtype=torch.float64)), 2.0**-24
    model = Composite(h, h, Probability(temperature=0.25), float("inf"))
    x = torch.tensor([[1.0, -8.0], [0.5, 0.25]], dtype=torch.float64)
    plain = MixtureMargin(constant=2.0)(model, x).radius
    monkeypatch.setattr("holdfast.certify.mixture.gamma", lambda terms: terms * unit)
    lost = plain - MixtureMargin(constant=2.0)(model, x).radius
    expected = 32 * unit * h(x).abs().amax(1) / (2.0 * 2**0.5)
    torch.testing.assert_close(lost, expected, rtol=1e-6, atol=0)
