"""Single conditions, where their limits lie."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from holdfast.audit.inputs import input_range
from holdfast.audit.outputs import batch_dependence, randomness
from holdfast.audit.passes import train_mode
from holdfast.audit.slopes import Slope, gradients
from holdfast.evaluation.probabilities import probabilities
from holdfast.losses import cross_entropy, margin
from holdfast.modes import evaluating
from tests import zoo


def level(verdict):
    return verdict.level


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (torch.tensor([[0.0, 1.0]]), "pass"),
        (torch.tensor([[-0.01, 1.0]]), "fail"),
        (torch.tensor([[0.0, 1.01]]), "fail"),
        (torch.tensor([[0.5, torch.nan]]), "fail"),
        (torch.tensor([[0.0, 1 / 255]]), "warn"),
    ],
)
def test_images_must_lie_in_the_box_and_use_it(x, expected):
    assert level(input_range(x)) == expected


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


class Layers(nn.Module):
    """A layer in a plain list, where `eval()` does not reach it."""

    def __init__(self, layer):
        super().__init__()
        self.hidden = [layer]

    def forward(self, x):
        return self.hidden[0](x)


@pytest.mark.parametrize(
    ("model", "calls"),
    [
        (nn.Dropout(0.5), 0),
        (nn.BatchNorm2d(1), 0),
        (nn.BatchNorm2d(1, track_running_stats=False), 1),
        (Layers(nn.Dropout(0.5)), 1),
        (Layers(nn.Dropout(0.0)), 0),
        (Layers(nn.BatchNorm2d(1)), 1),
        (Layers(nn.Conv2d(1, 1, 3)), 0),
        (lambda x: F.dropout2d(F.dropout(x)), 2),
        (lambda x: F.dropout(x, 0.5, False), 0),
        (lambda x: F.batch_norm(x, None, None, training=True), 1),
        (lambda x: F.rrelu(x, training=True), 1),
    ],
)
def test_calls_in_train_mode_are_seen_wherever_they_come_from(model, calls):
    x, _ = zoo.digits()
    with evaluating(model):
        verdict = train_mode(model, x[:4])
    assert verdict.value == calls
    assert verdict.level == ("fail" if calls else "pass")


def test_counts_flat_examples_and_entries_of_a_gradient():
    """Two of three examples beyond a threshold of the first pixel, where the model is constant."""

    def model(x):
        on = (x[:, :1] > 0.5).to(x)
        return torch.cat((x[:, 1:2] * on, -x[:, 1:2] * on), dim=1)

    x = torch.tensor([[1.0, 0.3], [0.0, 0.3], [0.0, 0.9]])
    slope = Slope.of(margin, model, x, torch.zeros(3, dtype=torch.int64))
    assert (slope.flat, slope.tiny, slope.examples) == (2, 2, 3)
    assert slope.zero_entries == pytest.approx(5 / 6)
    assert slope.useful_entries == pytest.approx(1 / 3)  # one entry of three examples
    assert "on average 0.3 of 2 entries of an example above" in str(slope)


def test_tiny_gradients_are_a_warning_and_zero_ones_a_failure():
    x, y = zoo.digits()
    x, y, model = x[:60], y[:60], zoo.digits_mlp()
    assert level(gradients(model, x, y)) == "pass"

    def tiny(z, y):
        return 1e-8 * cross_entropy(z, y)

    warned = gradients(model, x, y, tiny)
    assert warned.level == "warn"
    assert "climb cross_entropy" in warned.remedy
    saturated = gradients(zoo.Saturated(model), x, y)
    assert saturated.level == "fail"
    assert "climb margin" in saturated.remedy
    assert gradients(zoo.Saturated(model), x, y, margin).level == "pass"
    assert "BPDA" in gradients(zoo.Masked(model), x, y).remedy
