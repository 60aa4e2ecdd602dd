"""The transformation by hand, with its two kinds of deviation; which predictions it keeps; what attacks see of it."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.attacks import PGD, Aimed
from holdfast.ensembles import Composite, Probability, RobustTransform
from holdfast.ensembles.composite import aimed
from holdfast.ensembles.mixing import mix_probabilities, mix_sharpened
from holdfast.ensembles.transform import standardised
from holdfast.threat import Linf
from tests.zoo import Linear, images, smooth

H = torch.tensor([[3.0, 1.0, -4.0]], dtype=torch.float64)
LOGITS = st.lists(st.integers(-20, 20), min_size=3, max_size=8).filter(lambda values: len(set(values)) > 1)


def test_the_deviation_divides_by_one_less_than_the_classes():
    # Mean 0; squares 9 + 1 + 16 = 26, over 2 and over 3.
    torch.testing.assert_close(standardised(H), H / math.sqrt(13))
    torch.testing.assert_close(standardised(H, 0), H / math.sqrt(26 / 3), rtol=1e-6, atol=0)
    assert standardised(torch.ones(1, 3)).tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize(("correction", "squares"), [(1, 13), (0, 26 / 3)])
def test_the_transformation_by_hand(correction, squares):
    u = [(z := h / math.sqrt(squares) - 0.5) * (1 + math.erf(z / math.sqrt(2))) / 2 for h in H[0].tolist()]
    expected = [2.0 * math.copysign(abs(value) ** 3, value) for value in u]
    (found,) = RobustTransform(scale=2.0, power=3.0, shift=-0.5, correction=correction)(H).tolist()
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_defaults_are_the_published_ones_for_cifar10():
    # Bai-YT/MixedNUTS, d22270b: s 5, c -1.1, p 4; deviations divide by n - 1, and g's answer is one-hot.
    assert RobustTransform() == RobustTransform(scale=5.0, power=4.0, shift=-1.1, correction=1, sharpen=True)


@given(LOGITS, st.floats(1, 6), st.floats(0.1, 9), st.floats(-2.5, 1))
def test_predictions_above_the_shift_are_kept_and_others_have_no_vote(logits, power, scale, shift):
    h = torch.tensor([logits], dtype=torch.float64)
    found = RobustTransform(power=power, scale=scale, shift=shift)(h)
    if standardised(h).max() >= -shift:
        assert found[0, h.argmax(1)] == found.max()
    else:
        assert found.abs().max() <= scale * 0.17**power


def test_a_negative_shift_leaves_unsure_answers_to_the_other():
    """Five classes of ten that h cannot tell apart: with the old shift of +2 it outvotes g, with -1.1 it is silent."""
    h = torch.tensor([[1.0, 0.9, 0.9, 0.9, 0.9, 0.0, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    g = torch.zeros_like(h).index_fill(1, torch.tensor(9), 4.0)
    answers = [mix_probabilities(g, RobustTransform(shift=shift)(h), 3.0).argmax(1).item() for shift in (2.0, -1.1)]
    assert answers == [0, 9]


def test_a_sharpened_answer_is_certain():
    g = torch.tensor([[2.0, 1.0, 0.0]], dtype=torch.float64)
    found = mix_sharpened(g, H, 4.0)
    expected = 0.8 * H.softmax(1) + 0.2 * torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(found.exp(), expected)
    # It overrules h exactly where the margin of h is below (1 - a) / a, here 1/4.
    for margin, answer in ((0.24, 1), (0.26, 0)):
        h = torch.tensor([[0.5 + margin / 2, 0.5 - margin / 2]], dtype=torch.float64).log()
        assert mix_sharpened(torch.tensor([[0.0, 1e-3]], dtype=torch.float64), h, 4.0).argmax(1).item() == answer


@pytest.mark.parametrize("strength", [1e-6, 1e9])
def test_at_the_ends_one_of_the_two_answers(strength):
    g, h, x = smooth(5, seed=1), smooth(5, seed=2), images(20)
    found = Probability(transform=RobustTransform(shift=-0.1))(g, h, x, strength).argmax(1)
    sure = standardised(h(x)).amax(1) > 0.1
    assert torch.equal(found[sure], (g if strength < 1 else h)(x)[sure].argmax(1))


def test_attacks_see_the_gradient_of_the_unsharpened_mixture():
    """That of a one-hot answer is 0, which would hide g from every attack."""
    g, h, x = smooth(5, seed=1), smooth(5, seed=2), images(3).requires_grad_()
    for strength in (0.5, torch.tensor([0.5, 3.0, 800.0], dtype=torch.float64)):
        logits = Probability(transform=RobustTransform())(g, h, x, strength)
        soft = mix_probabilities(g(x), RobustTransform()(h(x)), strength)
        weights = torch.arange(15, dtype=torch.float64).view(3, 5).sin()
        found, expected = (
            torch.autograd.grad((weights * one).sum(), x, retain_graph=True)[0] for one in (logits, soft)
        )
        torch.testing.assert_close(found, expected)
        assert not torch.equal(logits, soft)


def test_aimed_attacks_leave_the_transformation_out():
    """A robust answer saturated by the transformation has no gradient left; the attack aimed at h breaks it."""
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    h = Linear(weight, torch.zeros(3, dtype=torch.float64))
    composite = Composite(h, h, Probability(transform=RobustTransform(scale=1e6, shift=-0.1)), 9.0).double()
    x, y = torch.tensor([[0.6, 0.4]], dtype=torch.float64), torch.tensor([0])
    z = x.clone().requires_grad_()
    (through,) = torch.autograd.grad(composite.mixing.transform(h(z)).softmax(1)[:, 0].sum(), z)
    assert through.abs().max() == 0
    for strength in (0.0, 1.0, math.inf):
        expected = Probability()(h, h, x, strength)
        torch.testing.assert_close(aimed(composite, strength)(x), expected)
    points = Aimed(attack=PGD(threat=Linf(0.15), steps=10), strength=math.inf)(composite, x, y)
    assert composite(points).argmax(1).item() != 0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"power": 0.5}, "power must be finite and at least 1, got 0.5"),
        ({"scale": 0.0}, "scale must be positive"),
        ({"shift": math.nan}, "shift must be finite, got nan"),
        ({"correction": 2}, "correction must be 0 or 1, got 2"),
    ],
)
def test_impossible_numbers_are_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        RobustTransform(**fields)
