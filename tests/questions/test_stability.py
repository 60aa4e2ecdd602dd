import math

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.questions.curvature.measurement import input_curvature
from holdfast.questions.stability import NoiseStability
from holdfast.questions.stability.measurement import features_and_logits, longest_row, stability
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests import chance
from tests.zoo import images, labels, linear, normed


def test_features_that_are_the_image_move_as_far_as_a_normal_vector():
    # |e|^2 / sigma^2 has a chi-square law of 2 degrees: P(|e| <= d) = 1 - exp(-d^2 / 2 sigma^2).
    model, x = linear(3, (2,)), images(500, (2,))
    deltas = [0.0, 0.1, 0.2, 0.5]
    found = stability(model, x, labels(500, 3), sigma=0.1, deltas=deltas, draws=40)
    share = found.inside.double().mean(0) / 40
    exact = torch.tensor([1 - math.exp(-((delta / 0.1) ** 2) / 2) for delta in deltas], dtype=torch.float64)
    torch.testing.assert_close(share, exact, rtol=0, atol=chance.share_error(500 * 40, 0.5, count=3))
    assert int(found.inside[:, 0].max()) == 0


def test_the_loss_outside_is_the_mean_over_the_draws_outside():
    model, x, y = linear(3, (2,)), images(4, (2,)), labels(4, 3)
    rng = Streams(5, "", 4)
    found = stability(model, x, y, sigma=0.3, deltas=[0.0, 0.4, 1e9], draws=12, rng=rng)
    losses, far = [], []
    for draw in range(12):
        noise = 0.3 * rng.split(f"noise {draw}").normal(x)
        losses.append(cross_entropy(model(x + noise), y))
        far.append(noise.norm(dim=1) > 0.4)
    losses, far = torch.stack(losses).detach(), torch.stack(far)
    torch.testing.assert_close(found.loss_outside[:, 0], losses.mean(0))
    torch.testing.assert_close(found.loss_outside[:, 1], (losses * far).sum(0) / far.sum(0))
    assert bool(found.loss_outside[:, 2].isnan().all())
    here = cross_entropy(model(x), y).detach()
    torch.testing.assert_close(found.change, (losses - here).square().mean(0))


def test_the_largest_logit_is_of_the_image_and_its_copies():
    model, x, y = linear(3, (2,)), images(6, (2,)), labels(6, 3)
    still = stability(model, x, y, sigma=1e-9, deltas=[1.0], draws=2)
    torch.testing.assert_close(still.largest_logit, model(x).detach().abs().amax(1))
    moved = stability(model, x, y, sigma=1.0, deltas=[1.0], draws=50)
    assert bool((moved.largest_logit > still.largest_logit).all())


def test_noise_is_not_clipped():
    # White images under clipped noise could only get darker, and half of the coordinates would not move.
    model, x = linear(3, (2,)), torch.ones(200, 2, dtype=torch.float64)
    found = stability(model, x, labels(200, 3), sigma=0.1, deltas=[1e-12], draws=20)
    assert int(found.inside.max()) == 0


def test_results_do_not_depend_on_the_batch_and_leave_everything_alone():
    model, x, y = normed(), images(7), labels(7, 3)
    with same_module(model), same_random_states(), same_tensors(x, y):
        whole = stability(model, x, y, sigma=0.1, deltas=[0.2, 0.4], draws=5, rng=Streams(1, "", 7))
    for rows in ([2], [6, 0, 3]):
        part = stability(model, x[rows], y[rows], sigma=0.1, deltas=[0.2, 0.4], draws=5, rng=Streams(1, "", rows))
        for name, values in vars(part).items():
            torch.testing.assert_close(values, getattr(whole, name)[rows], equal_nan=True, msg=name)


def test_features_and_logits_are_the_models_own():
    model, x = normed(), images(3)
    features, logits = features_and_logits(model, x)
    torch.testing.assert_close(logits, model(x))
    torch.testing.assert_close(features, model.features(x))


def test_the_longest_row_of_the_head():
    model = normed()
    rows = model.head.weight.detach().norm(dim=1)
    assert longest_row(model) == pytest.approx(float(rows.max()))
    with pytest.raises(ModelError, match=r"stability needs a model with features\(x\) and head, got Linear"):
        longest_row(nn.Linear(3, 2))
    model.head = nn.Sequential(nn.Linear(64, 3))
    with pytest.raises(ModelError, match=r"stability needs a linear head .* got Sequential"):
        longest_row(model)


@pytest.mark.parametrize(
    "said", [{"draws": 1}, {"sigma": 0.0}, {"deltas": []}, {"deltas": [-1.0]}, {"deltas": [math.inf]}]
)
def test_bad_numbers_are_refused(said):
    asked = {"draws": 2, "sigma": 0.1, "deltas": [1.0], **said}
    with pytest.raises(ValueError, match="got"):
        stability(linear(3), images(2), labels(2, 3), **asked)


@pytest.mark.parametrize(
    ("fields", "step"),
    [({}, 0.3), ({"step": 0.01}, 0.01), ({"exact": True}, None), ({"step": 0.01, "exact": True}, None)],
)
def test_the_question_measures_curvature_at_the_distance_of_the_noise_by_default(fields, step):
    model, x, y, rng = normed(), images(4), labels(4, 3), Streams(0, "stability", 4)
    question = NoiseStability(sigma=0.3, deltas=(1.0, 0.1), copies=2, draws=2, **fields)
    columns = question.measure(model, x, y, rng=rng)
    expected = input_curvature(model, x, y, draws=2, step=step, rng=rng)
    assert torch.equal(columns["curvature"], expected.curvature)
    assert (columns["inside"][:, 0] <= columns["inside"][:, 1]).all()  # distances in order
