"""Conditions of the answers, where their limits lie."""

import pytest
import torch
from torch import nn

from holdfast.trust.outputs import batch_dependence, probabilities, randomness
from tests import zoo


def level(verdict):
    return verdict.level


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("condition", [randomness, batch_dependence])
def test_rounding_is_no_difference_but_a_thousandth_is(condition, dtype):
    """Every pass is another pass: each adds a little to the answer."""
    x, _ = zoo.digits()
    x, model = x[:6].to(dtype), zoo.linear(10, (1, 8, 8), dtype=dtype)

    def wobbling(size):
        calls = 0

        def answer(z):
            nonlocal calls
            calls += 1
            return model(z) * (1 + size * calls)

        return answer

    assert level(condition(wobbling(10 * torch.finfo(dtype).eps), x)) == "pass"
    assert level(condition(wobbling(1e-3), x)) == "fail"


def test_a_model_that_refuses_single_images_depends_on_the_batch():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.BatchNorm1d(10)).train()
    x, _ = zoo.digits()
    verdict = batch_dependence(model, x[:6])
    assert verdict.level == "fail"
    assert "one image" in verdict.finding
    assert batch_dependence(model.eval(), x[:6]).level == "pass"
    assert batch_dependence(model, x[:1]).level == "not tested"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda z: z.softmax(1), "fail"),
        (lambda z: z.softmax(1).half(), "fail"),
        (lambda z: z.log_softmax(1), "pass"),
        (lambda z: z.sigmoid(), "pass"),
        (lambda z: z - z.mean(1, keepdim=True) + 1 / z.shape[1], "pass"),  # sums to 1, but with negative values
    ],
)
def test_only_rows_that_sum_to_one_without_negative_values_are_probabilities(answer, expected):
    x, _ = zoo.digits()
    assert level(probabilities(lambda x: answer(zoo.digits_mlp()(x)), x[:8])) == expected


def test_outputs_without_a_row_of_probabilities_are_called_that():
    x, _ = zoo.digits()
    assert probabilities(zoo.digits_mlp(), x[:8]).finding == "no row of the output looks like probabilities"
    shares = probabilities(lambda x: zoo.digits_mlp()(x).softmax(1), x[:8])
    assert shares.finding == "8 of 8 rows of the output have no negative value and sum to 1"
