import pytest
import torch

from holdfast.attacks import RFGSM
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy, margin
from holdfast.rng import Streams
from holdfast.threat import L2, Linf
from holdfast.wrappers import Counted
from tests.zoo import THREAT_KINDS, half_space, half_space_points_at, images, labels, linear, smooth


def test_is_the_published_formula():
    model, x, y = smooth(), images(8, low=0.3, high=0.7), labels(8, 5)
    z = RFGSM(threat=Linf(0.1), share=0.3)(model, x, y, rng=Streams(5, "", 8))
    start = x + 0.03 * Streams(5, "", 8).normal(x).sign()
    _, grad, _ = input_gradient(cross_entropy, model, start, y)
    torch.testing.assert_close(z, start + 0.07 * grad.sign())


@pytest.mark.parametrize("kind", THREAT_KINDS)
def test_on_a_half_space_its_own_part_of_the_budget_gains_all_it_can(kind):
    # The random part costs at most its share, the gradient part gains the whole of the rest.
    model, eps, share = half_space(), 0.02, 0.25
    x, y = half_space_points_at(model, 0.03, kind, 20)
    z = RFGSM(threat=THREAT_KINDS[kind](eps), share=share)(model, x, y)
    with torch.no_grad():
        gain = margin(model(z), y) - margin(model(x), y)
    slope = 2 * THREAT_KINDS[kind](eps).dual(model.weight.detach()[None])
    assert bool((gain >= (1 - 2 * share) * eps * slope - 1e-9).all())
    assert bool((gain <= eps * slope + 1e-9).all())
    assert float(gain.mean()) == pytest.approx(float((1 - share) * eps * slope), rel=0.25)


def test_asks_once_at_a_random_point():
    model, x, y = linear(3), images(5), labels(5, 3)
    counts = torch.zeros(5, dtype=torch.int64)
    RFGSM(threat=L2(0.5))(Counted(model, counts), x, y)
    assert counts.tolist() == [1] * 5
    first, second = (RFGSM(threat=L2(0.5))(model, x, y, rng=Streams(seed, "", 5)) for seed in (0, 1))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_a_share_outside_of_the_budget_is_refused(share):
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        RFGSM(threat=Linf(0.1), share=share)
