import pytest
import torch
from torch import nn

from holdfast.losses import cross_entropy
from holdfast.objectives import Alarm, Fast
from holdfast.rng import Streams
from holdfast.threat import L0, Linf
from tests.zoo import half_space, half_space_points, half_space_points_at, images, labels, smooth

BALL = Linf(0.1)


class Overfitted(nn.Module):
    """Right at 1/2 and at the ends of the ball around it, wrong between; its slope leads to the ends."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        far = (x.flatten(1) - 0.5).abs().amax(1)
        m = self.scale * torch.where(far < 0.0999, 1 - 20 * far, 1 + 0 * far)
        return torch.stack((-m, m), dim=1)


def watched(objective, model, x, y, steps=1):
    work = objective.hooks.start(model, 2, torch.arange(len(x)))
    for step in range(steps):
        terms = work(model, x, y, rng=Streams(step, "", len(x)))
    return work, terms


def test_is_the_loss_after_one_step_from_a_random_point():
    model, x, y = smooth(), images(6), labels(6, 5)
    rng = Streams(1, "f", 6)
    u = BALL.sample(x, rng.split("start")).requires_grad_()
    (grad,) = torch.autograd.grad(cross_entropy(model(u), y).sum(), u)
    z = BALL.project(u.detach() + 0.125 * grad.sign(), x)
    terms = Fast(threat=BALL, alarm=None)(model, x, y, rng=rng)
    torch.testing.assert_close(terms.total, cross_entropy(model(z), y).mean())
    assert not terms.parts


def test_on_a_half_space_it_reaches_the_end_of_the_ball():
    model = half_space()
    x, y = half_space_points(model)
    z = Fast(threat=Linf(0.02), step_size=0.04).hooks.start(model, 2, torch.arange(len(x))).search(model, x, y)
    side = (1 - 2 * y.double())[:, None]
    torch.testing.assert_close(z, x + 0.02 * side * model.weight.detach().sign())


def test_a_network_that_is_right_only_at_the_ends_of_the_steps_raises_the_alarm():
    x, y = torch.full((16, 1), 0.5), torch.ones(16, dtype=torch.int64)
    work, terms = watched(Fast(threat=BALL), Overfitted(), x, y)
    assert (float(terms.parts["fast_accuracy"]), float(terms.parts["pgd_accuracy"])) == (1.0, 0.0)
    assert work.hooks.alarm() == (
        "catastrophic overfitting: of the training examples 100 % hold against the one-step attack "
        "and 0 % against 10 steps of PGD"
    )


def test_a_network_that_holds_or_falls_under_both_raises_none():
    model = half_space()
    for distance, accuracy in ((0.2, 1.0), (0.05, 0.0)):
        x, y = half_space_points_at(model, distance, "linf")
        work, terms = watched(Fast(threat=BALL), model, x, y)
        assert [float(part) for part in terms.parts.values()] == [accuracy, accuracy]
        assert work.alarm() is None


def test_the_gap_decides():
    x, y = torch.full((16, 1), 0.5), torch.ones(16, dtype=torch.int64)
    work, _ = watched(Fast(threat=BALL, alarm=Alarm(gap=1.0)), Overfitted(), x, y)
    assert work.alarm() is None
    assert watched(Fast(threat=BALL, alarm=None), Overfitted(), x, y)[0].alarm() is None
    assert Fast(threat=BALL).hooks.start(Overfitted(), 2, torch.arange(16)).alarm() is None  # nothing was seen


def test_compares_every_so_often_and_keeps_the_result_between():
    x, y = torch.full((16, 1), 0.5), torch.ones(16, dtype=torch.int64)
    calls, model = [], Overfitted()
    model.register_forward_hook(lambda *_: calls.append(1))
    fast = Fast(threat=BALL, alarm=Alarm(every=3, examples=4, steps=2))
    work, counts = fast.hooks.start(model, 2, torch.arange(16)), []
    for step in range(7):
        calls.clear()
        terms = work(model, x, y, rng=Streams(step, "", 16))
        counts.append(len(calls))
        assert float(terms.parts["fast_accuracy"]) == 1.0
    assert [count > 2 for count in counts] == [True, False, False, True, False, False, True]
    assert counts[1] == Fast(threat=BALL).passes.forward


def test_the_examples_compared_are_known_by_their_streams():
    model = half_space()
    near, y_near = half_space_points_at(model, 0.05, "linf")
    far, y_far = half_space_points_at(model, 0.2, "linf")
    x, y = torch.cat((near, far)), torch.cat((y_near, y_far))
    objective, order = Fast(threat=BALL, alarm=Alarm(examples=5)), torch.randperm(16)
    here = objective(model, x, y, rng=Streams(4, "o", 16))
    there = objective(model, x[order], y[order], rng=Streams(4, "o", order))
    assert float(here.parts["pgd_accuracy"]) == float(there.parts["pgd_accuracy"])
    assert float(here.parts["pgd_accuracy"]) * 5 == pytest.approx(round(float(here.parts["pgd_accuracy"]) * 5))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Fast(threat=BALL, step_size=-1.0), "step_size must be positive and finite, got -1.0"),
        (lambda: Fast(threat=L0(3)), "fast has no l0"),
        (lambda: Alarm(every=0), "every must be positive, got 0"),
        (lambda: Alarm(gap=2.0), r"gap must lie in \[0, 1\], got 2.0"),
    ],
)
def test_impossible_settings_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()
