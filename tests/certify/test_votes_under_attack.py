"""No attack on a majority vote succeeds inside the radius of its certificate."""

import pytest
import torch

from holdfast.attacks import APGD, FAB, PGD
from holdfast.certify import GaussianSmoothing, LaplaceSmoothing, UniformSmoothing
from holdfast.rng import Streams
from holdfast.threat import L1, L2
from holdfast.types import ABSTAIN
from tests.certify.attacked import Averaged, inside
from tests.zoo import digits, digits_mlp, generator

METHODS = {
    "gaussian": GaussianSmoothing(sigma=0.2, n=400, n0=50),
    "two_class": GaussianSmoothing(sigma=0.2, n=400, n0=50, bound="two_class"),
    "laplace": LaplaceSmoothing(scale=0.15, n=400, n0=50),
    "uniform": UniformSmoothing(width=0.4, n=400, n0=50),
}


SLOW = {"laplace", "uniform"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in METHODS]
)
def test_no_attack_finds_another_majority_inside_the_radius(name):
    method, model, (x, y) = METHODS[name], digits_mlp(), digits()
    certificate = method(model, x)
    assert float((certificate.prediction == y).double().mean()) > 0.8
    values = torch.empty(8, 1, 8, 8)
    method.noise.fill(values, generator())
    vote = Averaged(model, method.noise.scale * values, lambda logits: logits.softmax(1))
    kind = L2 if method.norm == "l2" else L1
    for part, eps in inside(certificate, groups=5):
        labels = certificate.prediction[part]
        for attack in (
            PGD(threat=kind(eps), steps=10),
            APGD(threat=kind(eps), steps=10),
            FAB(threat=kind(eps), steps=5),
        ):
            found = method.predict(model, attack(vote, x[part], labels), rng=Streams(7, "judge", len(part)))
            assert bool(((found == labels) | (found == ABSTAIN)).all()), (attack, eps)


def test_an_attack_beyond_the_radius_does_succeed():
    # So that the test above can fail: three times the radius is more than the vote holds.
    method, model, (x, _) = METHODS["gaussian"], digits_mlp(), digits()
    certificate = method(model, x[:100])
    vote = Averaged(model, 0.2 * torch.randn(16, 1, 8, 8, generator=generator()), lambda logits: logits.softmax(1))
    broken = 0
    for part, eps in inside(certificate, groups=5):
        z = PGD(threat=L2(3 * eps), steps=10)(vote, x[part], certificate.prediction[part])
        found = method.predict(model, z, rng=Streams(7, "judge", len(part)))
        broken += int(((found != certificate.prediction[part]) & (found != ABSTAIN)).sum())
    assert broken > 10
