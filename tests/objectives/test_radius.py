"""Objectives that push a radius to a target, and hinge losses: against their formulas written out."""

import math

import pytest
import torch

from holdfast.errors import ModelError
from holdfast.lipschitz import Moments
from holdfast.losses import cross_entropy
from holdfast.objectives import MCR, MSCR, MulticlassHinge, SmoothedCrossEntropy, TruncatedMargin, Zhen
from tests.zoo import generator, images, normed

LOGITS = torch.randn(7, 4, generator=generator(), dtype=torch.float64)
VARIANCE = 0.1 + torch.rand(7, 4, generator=generator(1), dtype=torch.float64)
Y = torch.arange(7) % 4


class Fixed:
    """A network whose logits and moments are given."""

    def __call__(self, x):
        return LOGITS

    def moments(self, x, sigma):
        return Moments(LOGITS, sigma**2 * VARIANCE)


def total(objective):
    return float(objective(Fixed(), images(7), Y).total)


def rows():
    """Right logit and its variance, wrong ones in descending order with theirs."""
    for logits, variance, y in zip(LOGITS.tolist(), VARIANCE.tolist(), Y.tolist(), strict=True):
        wrong = sorted(((logits[i], variance[i]) for i in range(4) if i != y), reverse=True)
        yield logits[y], variance[y], wrong


def cdf(t):
    return 0.5 * (1 + math.erf(t / math.sqrt(2)))


def mean(values):
    values = list(values)
    return sum(values) / len(values)


@pytest.mark.parametrize("constant", [1.0, 2.5])
def test_mcr_is_the_hinge_of_the_margin_in_units_of_distance(constant):
    expected = mean(max(0, 0.6 - (right - wrong[0][0]) / (math.sqrt(2) * constant)) for right, _, wrong in rows())
    assert total(MCR(d=0.6, constant=constant)) == pytest.approx(expected)


def test_mscr_is_the_hinge_of_equation_7():
    def smoothed(right, wrong):
        (first, v1), (second, v2) = wrong[0], wrong[1]
        spread, gap = 0.3 * math.sqrt(v1 + v2), first - second
        density = math.exp(-0.5 * (gap / spread) ** 2) / math.sqrt(2 * math.pi)
        return spread * density + second + gap * cdf(gap / spread) - right

    expected = mean(max(0, 0.6 + smoothed(right, wrong) / (math.sqrt(2) * 1.5)) for right, _, wrong in rows())
    assert total(MSCR(d=0.6, sigma=0.3, constant=1.5)) == pytest.approx(expected)


def test_zhen_is_the_hinge_of_equation_9():
    expected = mean(
        max(0, 2.0 - 0.3 * (right - wrong[0][0]) / (0.3 * math.sqrt(variance + wrong[0][1])))
        for right, variance, wrong in rows()
    )
    assert total(Zhen(d=2.0, sigma=0.3)) == pytest.approx(expected)


def test_hinges_count_every_wrong_class_or_stop_growing():
    expected = mean(sum(max(0, 0.9 - right + other) for other, _ in wrong) for right, _, wrong in rows())
    assert total(MulticlassHinge(d=0.9)) == pytest.approx(expected)
    margins = [wrong[0][0] - right for right, _, wrong in rows()]
    assert max(margins) > 0.9  # so that the truncation is seen
    expected = mean(max(0, 0.9 + m) - max(0, m - 0.9) for m in margins)
    assert total(TruncatedMargin(d=0.9)) == pytest.approx(expected)


def test_smoothed_cross_entropy_is_that_of_the_means():
    assert total(SmoothedCrossEntropy(sigma=0.3)) == pytest.approx(float(cross_entropy(LOGITS, Y).mean()))


def test_the_mean_radius_is_reported():
    terms = MCR(d=0.6)(Fixed(), images(7), Y)
    expected = mean((right - wrong[0][0]) / math.sqrt(2) for right, _, wrong in rows())
    assert float(terms.parts["radius"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: MCR(d=0.0), "d"),
        (lambda: MSCR(d=1.0, sigma=0.0), "sigma"),
        (lambda: MSCR(d=1.0, sigma=0.1, constant=-1.0), "constant"),
        (lambda: Zhen(d=1.0, sigma=math.nan), "sigma"),
        (lambda: MulticlassHinge(d=-1.0), "d"),
        (lambda: TruncatedMargin(d=0.0), "d"),
        (lambda: SmoothedCrossEntropy(sigma=0.0), "sigma"),
    ],
)
def test_impossible_values_are_refused(make, name):
    with pytest.raises(ValueError, match=f"{name} must be positive"):
        make()


def test_a_network_without_known_moments_is_named():
    model = torch.nn.Sequential(normed().norm)
    with pytest.raises(ModelError, match="got BatchNorm2d"):
        MSCR(d=1.0, sigma=0.1)(model, images(3, (4, 2, 2)), torch.zeros(3, dtype=torch.int64))
