import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.losses import (
    cross_entropy,
    difference_of_logits_ratio,
    kl_divergence,
    margin,
    soft_cross_entropy,
    towards,
)

# Logits of natural and adversarial points, labels 0 and 1.
NATURAL = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]], dtype=torch.float64)
ADVERSARIAL = torch.tensor([[1.0, 1.5, 0.0], [0.5, 2.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([0, 1])


def rows(*values):
    return torch.tensor(values, dtype=torch.float64)


def close(actual, *expected):
    torch.testing.assert_close(actual, rows(*expected), rtol=0, atol=1e-9)


def test_cross_entropy_has_the_reference_values():
    close(cross_entropy(NATURAL, Y).mean()[None], 0.9076059644)
    close(cross_entropy(ADVERSARIAL, Y).mean()[None], 0.7842496947)


def test_kl_divergence_has_the_reference_values_and_this_direction():
    close(kl_divergence(ADVERSARIAL, NATURAL), 0.2394013611, 0.4322600178)
    # TRADES with weight 6 on the natural cross entropy, and what the other direction would give.
    close((cross_entropy(NATURAL, Y).mean() + 6 * kl_divergence(ADVERSARIAL, NATURAL).mean())[None], 2.9225901013)
    close((cross_entropy(NATURAL, Y).mean() + 6 * kl_divergence(NATURAL, ADVERSARIAL).mean())[None], 2.8753608219)


def test_kl_divergence_is_zero_for_shifted_logits_and_positive_else():
    close(kl_divergence(NATURAL + 3, NATURAL), 0.0, 0.0)
    assert bool((kl_divergence(ADVERSARIAL, NATURAL) > 0).all())


def test_kl_divergence_agrees_with_torch():
    expected = F.kl_div(ADVERSARIAL.log_softmax(1), NATURAL.softmax(1), reduction="none").sum(1)
    torch.testing.assert_close(kl_divergence(ADVERSARIAL, NATURAL), expected)


def test_cross_entropy_of_equal_logits_is_the_logarithm_of_the_classes():
    close(cross_entropy(torch.zeros(1, 7, dtype=torch.float64), torch.tensor([3])), math.log(7))


def test_soft_cross_entropy_of_hard_labels_is_the_hard_one_and_it_is_linear_in_the_labels():
    hard = F.one_hot(Y, 3).double()
    torch.testing.assert_close(soft_cross_entropy(NATURAL, hard), cross_entropy(NATURAL, Y))
    other = F.one_hot(1 - Y, 3).double()
    mixed = soft_cross_entropy(NATURAL, 0.3 * hard + 0.7 * other)
    torch.testing.assert_close(mixed, 0.3 * cross_entropy(NATURAL, Y) + 0.7 * cross_entropy(NATURAL, 1 - Y))


def test_margin_is_the_best_other_logit_minus_the_own():
    close(margin(NATURAL, Y), -1.0, 1.0)
    close(margin(rows([3.0, -5.0]), torch.tensor([1])), 8.0)


def test_dlr_by_hand():
    # sorted logits 4, 3, 1, 0; label 0 has logit 4: (3 - 4) / (4 - 1); label 3 has logit 1: (4 - 1) / (4 - 1)
    logits = rows([4.0, 3.0, 0.0, 1.0], [4.0, 3.0, 0.0, 1.0])
    close(difference_of_logits_ratio(logits, torch.tensor([0, 3])), -1 / 3, 1.0)


def test_dlr_of_the_reference_authors_formula():
    generator = torch.Generator().manual_seed(0)
    logits, y = torch.randn(50, 10, generator=generator, dtype=torch.float64), torch.arange(50) % 10
    # Croce and Hein's published definition: -(z_y - z_other) / (z_1 - z_3), the other the best unless y is best.
    ordered, order = logits.sort(dim=1)
    hit = (order[:, -1] == y).double()
    other = ordered[:, -2] * hit + ordered[:, -1] * (1 - hit)
    expected = -(logits[torch.arange(50), y] - other) / (ordered[:, -1] - ordered[:, -3] + 1e-12)
    torch.testing.assert_close(difference_of_logits_ratio(logits, y), expected)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 100), st.floats(-100, 100), st.integers(0, 10**6))
def test_dlr_ignores_shift_and_scale_of_the_logits(scale, shift, seed):
    logits = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y = torch.arange(6) % 5
    expected = difference_of_logits_ratio(logits, y)
    torch.testing.assert_close(difference_of_logits_ratio(scale * logits + shift, y), expected, rtol=1e-6, atol=1e-6)


def test_dlr_of_less_than_four_classes_is_the_margin():
    for logits in (NATURAL, NATURAL[:, :2]):
        assert torch.equal(difference_of_logits_ratio(logits, Y), margin(logits, Y))
    four = torch.cat((NATURAL, NATURAL[:, :1] - 5), dim=1)
    assert not torch.equal(difference_of_logits_ratio(four, Y), margin(four, Y))


@pytest.mark.parametrize("loss", [margin, difference_of_logits_ratio])
@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_is_positive_exactly_when_the_prediction_is_wrong(loss, classes):
    logits = torch.randn(300, classes, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.arange(300) % classes
    wrong = logits.argmax(1) != y
    assert wrong.any()
    assert not wrong.all()
    assert torch.equal(loss(logits, y) > 0, wrong)


def test_a_margin_of_one_class_is_refused():
    with pytest.raises(ValueError, match="at least 2 classes"):
        margin(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64))


def test_margin_does_not_change_the_logits():
    logits = NATURAL.clone()
    margin(logits, Y)
    assert torch.equal(logits, NATURAL)


def test_towards_turns_the_sign_and_compares_by_its_loss():
    assert torch.equal(towards(cross_entropy)(NATURAL, Y), -cross_entropy(NATURAL, Y))
    assert towards(margin) == towards(margin)
    assert towards(margin) != towards(cross_entropy)
