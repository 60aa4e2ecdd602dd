"""Smoothed robustness analysis: closed forms on half-spaces, and the three special cases."""

import pytest
import torch
from scipy import stats

from holdfast.analysis.sra import CRITERIA, Cell, sra, sra_map, zero_one
from holdfast.losses import margin
from holdfast.rng import Streams
from holdfast.threat import L2
from tests import chance
from tests.zoo import half_space, images, linear

COUNT = 12


def batch():
    """A half-space, images well inside the box, and their distances to the boundary (negative where wrong)."""
    model, x = half_space(9), images(COUNT, (1, 3, 3), low=0.4, high=0.6)
    y = torch.ones(COUNT, dtype=torch.int64)
    with torch.no_grad():
        distance = model.signed(x) / model.weight.norm()
    return model, x, y, distance


def test_without_noise_it_is_the_worst_case():
    model, x, y, distance = batch()
    found = sra(model, x, y, sigma=0.0, region=L2(0.2), steps=30)
    slope = 2 * float(model.weight.detach().norm())  # the logits are -m and +m
    torch.testing.assert_close(found.value, slope * (0.2 - distance), rtol=1e-3, atol=1e-4)
    assert torch.equal(found.safe, found.value < 0)


def test_without_region_it_is_the_average_case():
    model, x, y, distance = batch()
    found = sra(model, x, y, criterion=CRITERIA["zero_one"], sigma=0.3, region=None, draws=16_000)
    expected = torch.from_numpy(stats.norm.cdf(-distance.numpy() / 0.3))
    torch.testing.assert_close(found.value, expected, rtol=0, atol=chance.share_error(16_000, 0.5, count=len(x)))
    assert torch.equal(found.point, x)


@pytest.mark.parametrize("eps", [0.1, 0.2])
def test_with_both_and_the_zero_one_loss_it_is_the_error_of_randomized_smoothing(eps):
    model, x, y, distance = batch()
    found = sra(model, x, y, criterion=CRITERIA["zero_one"], sigma=0.3, region=L2(eps), draws=3000)
    expected = torch.from_numpy(stats.norm.cdf((eps - distance.numpy()) / 0.3))
    torch.testing.assert_close(found.value, expected, rtol=0, atol=chance.share_error(3000, 0.5, count=len(x)))
    assert float(L2(eps).distance(found.point, x).max()) <= eps + 1e-9


def test_the_point_found_is_judged_with_fresh_noise():
    # A search profits from the luck of its draws; the value it reports must not.
    model, x, y, _ = batch()
    seen = []
    found = sra(lambda z: seen.append(z.detach()) or model(z), x, y, sigma=1.0, region=L2(0.1), draws=3, steps=2)
    searched, judged = (
        (points.view(3, COUNT, 1, 3, 3) - centre) for points, centre in ((seen[0], x), (seen[-1], found.point))
    )
    assert float((searched - judged).abs().min()) > 1e-6
    torch.testing.assert_close(found.value, margin(model(seen[-1]), y.repeat(3)).view(3, -1).mean(0).detach())


def test_same_streams_same_value_whatever_the_batch():
    model, x, y, _ = batch()
    whole = sra(model, x, y, sigma=0.2, region=L2(0.1), draws=5, steps=4, rng=Streams(3, "", COUNT))
    part = sra(model, x[4:7], y[4:7], sigma=0.2, region=L2(0.1), draws=5, steps=4, rng=Streams(3, "", range(4, 7)))
    torch.testing.assert_close(whole.value[4:7], part.value)
    torch.testing.assert_close(whole.point[4:7], part.point)


def test_the_map_grows_with_the_region_and_takes_over_what_is_known():
    model, x = linear(3), images(COUNT)
    with torch.no_grad():
        y = model(x).argmax(1)
    options = {"eps": (0.0, 0.05, 0.2), "sigma": (0.0, 0.1), "region": L2(1.0), "steps": 10, "draws": 16}
    found = list(sra_map(model, x, y, **options))
    assert [(cell.eps, cell.sigma) for cell in found] == [(e, s) for e in options["eps"] for s in options["sigma"]]
    assert found[0].safe == 1.0
    for sigma in options["sigma"]:
        column = [cell for cell in found if cell.sigma == sigma]
        assert [cell.value for cell in column] == sorted(cell.value for cell in column)
        assert [cell.safe for cell in column] == sorted((cell.safe for cell in column), reverse=True)
    with torch.no_grad():
        assert found[0].value == pytest.approx(float(margin(model(x), y).mean()))
    for cell, other in zip(found, sra_map(model, x, y, batch_size=5, **options), strict=True):
        assert cell.value == pytest.approx(other.value, abs=1e-9)
    known = [Cell(0.05, 0.1, 0.123, 4.0)]
    assert list(sra_map(model, x, y, known=known, **options))[3] == known[0]


def test_zero_one_counts_wrong_answers():
    assert zero_one(torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([1, 1])).tolist() == [0.0, 1.0]


def test_impossible_arguments_are_refused():
    model, x, y, _ = batch()
    with pytest.raises(ValueError, match="sigma and steps must not be negative"):
        sra(model, x, y, sigma=-0.1, region=None)
