import math

import pytest
import torch

from holdfast.losses import cross_entropy, kl_divergence
from holdfast.objectives import TRADES
from holdfast.objectives.batch_stats import Statistics
from holdfast.rng import Streams
from holdfast.threat import L0, L1, L2, Linf
from tests.objectives.reference import LABELS, MOVED, NATURAL, asked
from tests.zoo import half_space, half_space_points, images, labels, normed, smooth

FROZEN = Statistics("frozen", None)
BALL = Linf(0.1)


def at(natural, moved, beta=6.0):
    return TRADES(threat=BALL, beta=beta).loss(FROZEN, asked, natural, LABELS, moved)


def test_has_the_reference_value_and_the_reversed_divergence_has_another():
    terms = at(NATURAL, MOVED)
    assert float(terms.total) == pytest.approx(2.9225901013, abs=1e-9)
    assert float(terms.parts["clean"]) == pytest.approx(0.9076059644, abs=1e-9)
    assert float(terms.parts["divergence"]) == pytest.approx((0.2394013611 + 0.4322600178) / 2, abs=1e-9)
    printed = float(cross_entropy(NATURAL, LABELS).mean() + 6 * kl_divergence(NATURAL, MOVED).mean())
    assert printed == pytest.approx(2.8753608219, abs=1e-9)
    assert abs(printed - float(terms.total)) > 0.04


def test_the_clean_prediction_is_differentiated_in_both_terms():
    natural, moved = NATURAL.clone().requires_grad_(), MOVED.clone().requires_grad_()
    mine = torch.autograd.grad(at(natural, moved).total, (natural, moved))
    log_p, log_q = natural.log_softmax(1), moved.log_softmax(1)
    apart = (log_p.exp() * (log_p - log_q)).sum(1).mean()
    expected = torch.autograd.grad(cross_entropy(natural, LABELS).mean() + 6 * apart, (natural, moved))
    torch.testing.assert_close(mine, expected)
    detached = torch.autograd.grad(cross_entropy(natural, LABELS).mean(), natural)
    assert not torch.allclose(mine[0], detached[0], atol=1e-3)


def test_on_a_half_space_it_ends_in_a_corner_of_the_ball():
    """Both ways along the weights predictions change; the noise of the start decides which."""
    model = half_space()
    x, y = half_space_points(model)
    z = TRADES(threat=Linf(0.05)).search(FROZEN, model, x, y, Streams(0, "", len(x)))
    along = (z - x) / 0.05 * model.weight.detach().sign()
    torch.testing.assert_close(along, along[:, :1].sign().expand_as(along))
    assert len(along[:, 0].sign().unique()) == 2


@pytest.mark.parametrize("threat", [Linf(0.1), L2(0.4), L1(1.0)])
def test_the_search_raises_the_divergence_and_stays_in_the_threat(threat):
    model, x, y = smooth(), images(6), labels(6, 5)
    rng, objective = Streams(3, "t", 6), TRADES(threat=threat)
    z = objective.search(FROZEN, model, x, y, rng)
    with torch.no_grad():
        small = threat.project(x + 1e-3 * rng.split("start").normal(x), x)
        found, before = (kl_divergence(model(points), model(x)) for points in (z, small))
    assert bool((found > 10 * before).all())
    assert bool((threat.distance(z, x) <= threat.eps * (1 + 1e-9)).all())
    assert bool(((z >= 0) & (z <= 1)).all())


def test_the_search_is_gradient_ascent_on_the_divergence():
    model, x, y = smooth(), images(6), labels(6, 5)
    rng = Streams(3, "t", 6)
    found = TRADES(threat=BALL, steps=3, step_size=0.02).search(FROZEN, model, x, y, rng)
    log_p = model(x).log_softmax(1).detach()
    z = (x + 1e-3 * rng.split("start").normal(x)).clamp(0, 1)
    for _ in range(3):
        z = z.detach().requires_grad_()
        apart = (log_p.exp() * (log_p - model(z).log_softmax(1))).sum()
        (grad,) = torch.autograd.grad(apart, z)
        z = (x + (z + 0.02 * grad.sign() - x).clamp(-0.1, 0.1)).clamp(0, 1)
    torch.testing.assert_close(found, z.detach())


def test_steps_together_are_two_and_a_half_radii_unless_said():
    model, x, y = smooth(), images(6, low=0.3, high=0.7), labels(6, 5)
    rng = Streams(3, "t", 6)
    one = TRADES(threat=BALL, steps=5).search(FROZEN, model, x, y, rng)
    assert torch.equal(one, TRADES(threat=BALL, steps=5, step_size=0.05).search(FROZEN, model, x, y, rng))
    short = TRADES(threat=BALL, steps=5, step_size=0.01).search(FROZEN, model, x, y, rng)
    assert float((short - x).abs().max()) < 0.06


def test_the_search_sees_eval_mode_and_the_loss_train_mode():
    model, modes = normed(5, dropout=0.0).train(), []
    model.norm.register_forward_hook(lambda module, *_: modes.append(module.training))
    TRADES(threat=BALL, steps=3)(model, images(8), labels(8, 5))
    assert modes == [False] * 4 + [True] * 2


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"beta": -1.0}, "beta must be finite and not negative, got -1.0"),
        ({"beta": math.inf}, "beta must be finite"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"step_size": 0.0}, "step_size must be positive and finite, got 0.0"),
        ({"threat": L0(3)}, "trades has no l0"),
        ({"batch_stats": "frozn"}, "batch_stats: unknown name 'frozn'.*Did you mean 'frozen'"),
    ],
)
def test_impossible_settings_are_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        TRADES(**{"threat": BALL, **fields})
