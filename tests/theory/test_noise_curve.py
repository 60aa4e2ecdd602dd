"""The noise curve against a half-space, whose accuracy under noise is known."""

import pytest
import torch
from scipy import stats

from holdfast.rng import Streams
from holdfast.theory.noise_curve import NoiseCurve, noise_curve
from tests import chance
from tests.zoo import half_space, images


def batch(count=40):
    model, x = half_space(9), images(count, (1, 3, 3))
    with torch.no_grad():
        signed = model.signed(x)
    return model, x, (signed > 0).long(), signed.abs() / model.weight.detach().norm()


def test_accuracies_are_those_of_the_half_space():
    model, x, y, distance = batch()
    curve = noise_curve(model, x, y, step=0.25, draws=800, stop=0.6, largest=2.0)
    assert curve.sigmas[0] == 0.0
    assert curve.accuracies[0] == 1.0
    for sigma, accuracy in zip(curve.sigmas[1:], curve.accuracies[1:], strict=True):
        expected = stats.norm.cdf(distance.numpy() / sigma).mean()
        assert accuracy == pytest.approx(expected, abs=chance.share_error(800 * len(x), expected))


def test_it_stops_at_guessing_or_at_the_largest_noise():
    model, x, y, _ = batch()
    curve = noise_curve(model, x, y, step=0.5, draws=20, stop=0.75, largest=50.0)
    assert all(accuracy > 0.75 for accuracy in curve.accuracies[:-1])
    assert curve.accuracies[-1] <= 0.75
    assert noise_curve(model, x, y, step=0.5, draws=1, stop=0.0, largest=1.6).sigmas == (0.0, 0.5, 1.0, 1.5)


def test_it_does_not_depend_on_the_batch_size_and_does_not_clip():
    model, x, y, _ = batch()
    one, other = (
        noise_curve(model, x, y, step=1.0, draws=3, largest=3.0, stop=0.0, batch_size=size, rng=Streams(2, "", 40))
        for size in (7, 1000)
    )
    assert one == other
    seen = []
    noise_curve(lambda z: seen.append(z) or model(z), x, y, step=3.0, draws=1, largest=3.0, stop=0.0)
    assert float(seen[-1].min()) < 0


def test_area_is_that_of_the_normalised_curve():
    curve = NoiseCurve((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (0.98, 0.95, 0.80, 0.50, 0.25, 0.13))
    assert curve.area == pytest.approx(0.5091389352, abs=1e-10)
    with pytest.raises(ValueError, match="step must be positive"):
        noise_curve(*batch()[:3], step=0.0)
