"""What methods of others return is counted only if it is what their protocol promises."""

from dataclasses import dataclass, field

import pytest
import torch

import holdfast
from holdfast.attacks import EOT
from holdfast.errors import HoldfastError, ModelError
from holdfast.threat import L2, Linf
from holdfast.traits import Access
from holdfast.types import Certificate
from tests.zoo import linear

X, Y = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
MODEL = linear(3, shape=(1, 4, 4), dtype=torch.float32)


@dataclass(frozen=True)
class Own:
    """An attack that returns whatever a function of the images returns."""

    make: object = field(repr=False)
    threat: object = Linf(0.1)
    access = Access.NOTHING

    def __call__(self, model, x, y, *, target=None, rng=None):
        return self.make(x)


def far_from_the_third(x):
    return torch.cat((x[:2], 1 - (x[2:3] > 0.5).to(x), x[3:]))


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda x: x + 1, r"^Own: expected points within eps=0\.1 and \[0, 1\]; got distance 1 at example 0$"),
        (far_from_the_third, r"got distance 0\.\d+ at example 2$"),
        (lambda x: x + 0.1, r"got values from 0\.\d+ to 1\.0\d+ at example \d$"),
        (lambda x: x * torch.nan, r"got distance nan at example 0$"),
        (lambda x: None, r"^Own: expected points of shape \(6, 1, 4, 4\) in torch\.float32 on cpu; got None$"),
        (lambda x: x[:2], r"expected points of shape .*; got \(2, 1, 4, 4\) in torch\.float32"),
        (lambda x: x.double(), r"expected points of shape .*; got .* in torch\.float64"),
    ],
    ids=["everywhere", "one", "box", "nan", "none", "shape", "dtype"],
)
def test_points_outside_the_threat_set_are_refused(make, line):
    with pytest.raises(ModelError, match=line) as refused:
        holdfast.evaluate(MODEL, X, Y, Own(make))
    assert "\n" not in str(refused.value)


def test_they_are_refused_behind_a_wrapper_too():
    with pytest.raises(ModelError, match=r"^EOT: expected points within eps=0\.1"):
        holdfast.evaluate(MODEL, X, Y, EOT(attack=Own(lambda x: x + 1), draws=2))


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.1), Linf(8 / 255)])
def test_rounding_is_no_way_out(threat):
    step = torch.full_like(X, threat.eps / (1 if isinstance(threat, Linf) else 4))
    rows = holdfast.evaluate(MODEL, X, Y, Own(lambda x: (x + step).clamp(0, 1), threat)).rows
    assert len(rows) == 6


def test_a_threat_that_is_none_is_one_line():
    with pytest.raises(HoldfastError, match=r"Own\.threat: expected a threat, such as Linf\(0\.1\); got 0\.1"):
        holdfast.evaluate(MODEL, X, Y, Own(lambda x: x, 0.1))


class Certifies:
    norm, smoothed = "l2", False

    def __init__(self, make):
        self.make = make

    def __call__(self, model, x, *, rng=None):
        return self.make(x)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda x: None, "^Certifies: expected a Certificate; got None$"),
        (lambda x: (x, x), "^Certifies: expected a Certificate; got tuple$"),
        (lambda x: Certificate(Y, torch.zeros(2)), r"^Certifies: expected radius of shape \(6,\); got \(2,\)$"),
        (lambda x: Certificate(Y.tolist(), X), r"^Certifies: expected prediction of shape \(6,\); got list$"),
    ],
)
def test_what_is_no_certificate_is_refused(make, line):
    with pytest.raises(ModelError, match=line):
        holdfast.evaluate(MODEL, X, Y, Certifies(make))
