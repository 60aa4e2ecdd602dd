"""What every defence promises; tests/ensembles/test_defences.py has what is particular to each."""

import pytest
import torch

from holdfast.attacks import PGD
from holdfast.ensembles import DEFENCES, Defended
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.models import build
from holdfast.models.cnn import CNN
from holdfast.modes import evaluating
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states
from holdfast.threat import Linf
from holdfast.trust.aims import parts_of
from tests.zoo import images, labels

CHEAP = {"gaussian_votes": {"copies": 7}}
SHAPE = (3, 12, 20)


@pytest.fixture(params=list(DEFENCES))
def defended(request):
    made = build(CNN(blocks=((4,),), hidden=()), SHAPE, 5)
    return Defended(made.double(), DEFENCES[request.param](**CHEAP.get(request.param, {}))).eval()


def test_answers_do_not_depend_on_the_batch_or_on_whether_gradients_are_wanted(defended):
    x = images(6, SHAPE)
    before = x.clone()
    with same_random_states(), same_module(defended):
        whole = defended(x)
        order = torch.tensor([4, 0, 5, 1, 3, 2])
        torch.testing.assert_close(defended(x[order]), whole[order], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(defended(x[2:3]), whole[2:3], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(defended(x.clone().requires_grad_()), whole, rtol=1e-12, atol=1e-12)
        assert defended(x[:0]).shape == (0, 5)
    assert torch.equal(x, before)


def test_every_image_has_a_gradient(defended):
    x, y = images(6, SHAPE), labels(6, 5)
    with same_random_states(), same_module(defended):
        _, gradient, _ = input_gradient(cross_entropy, defended, x, y)
        _, alone, _ = input_gradient(cross_entropy, defended, x[3:4], y[3:4])
    assert (gradient.flatten(1).abs().amax(1) > 0).all()
    torch.testing.assert_close(alone, gradient[3:4], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [1, 4])
def test_attacks_end_at_the_same_points_in_batches_of_any_size(defended, size):
    x, y = images(4, SHAPE), labels(4, 5)
    attack = PGD(threat=Linf(0.1), steps=3)
    rng = Streams(0, "attack", 4)
    with evaluating(defended):
        whole = attack(defended, x, y, rng=rng)
        parts = [attack(defended, x[n : n + size], y[n : n + size], rng=rng[n : n + size]) for n in range(0, 4, size)]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-12)


def test_an_audit_sees_the_network_behind_it(defended):
    (part,) = parts_of(defended)
    x = images(2, SHAPE)
    torch.testing.assert_close(part.classifier(x), defended.network(x))


def test_changing_sizes_and_dtypes_are_kept(defended):
    x = images(3, SHAPE).float()
    assert defended.float()(x).dtype == torch.float32
    defence = defended.defence
    if callable(defence):
        z = defence(x)
        assert (z.shape, z.dtype) == (x.shape, x.dtype)
        assert ((z >= 0) & (z <= 1)).all()
