import math

import pytest
import torch
from torch import nn

from holdfast.corruptions import GaussianNoise
from holdfast.gradients import expansion
from holdfast.losses import cross_entropy
from holdfast.models.network import Normalise
from holdfast.questions.curvature.measurement import curvature_of, in_units, input_curvature, right_under_noise
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests import chance
from tests.zoo import images, labels, linear, normed, piecewise, smooth


def hessians(model, x, y):
    """The full input Hessian of each example, (N, D, D)."""
    size = x[0].numel()

    def value(point, label):
        return cross_entropy(model(point.view(1, *x.shape[1:])), label[None])[0]

    return torch.stack(
        [
            torch.autograd.functional.hessian(lambda point, k=k: value(point, y[k]), x[k].flatten()).view(size, size)
            for k in range(len(x))
        ]
    )


def logistic(x):
    score = x @ torch.tensor([1.0, -2.0], dtype=torch.float64)
    return torch.stack((torch.zeros_like(score), score), dim=1)


def test_logistic_curvature_of_the_reference():
    # Computed apart: w = (1, -2), x = (.5, .3): p = .4750208125, (p (1 - p) |w|^2)^2 = 1.5547102356.
    x = torch.tensor([[0.5, 0.3]], dtype=torch.float64).expand(2000, 2)
    found = input_curvature(logistic, x, torch.ones(2000, dtype=torch.int64), draws=50, step=None)
    values = found.curvature
    assert chance.has_mean(values, 1.5547102356)
    assert chance.has_mean(found.trace, math.sqrt(1.5547102356))
    assert float(found.gradient_norm[0]) == pytest.approx((1 - 0.4750208125) * math.sqrt(5))
    assert float(found.loss[0]) == pytest.approx(-math.log(0.4750208125))


def test_one_draw_has_a_relative_deviation_of_root_two_where_one_eigenvalue_is_alone():
    # sqrt(2) for a Hessian of rank 1, so about 32 % for 20 draws; also what the error bar says.
    x = torch.tensor([[0.5, 0.3]], dtype=torch.float64).expand(4000, 2)
    found = input_curvature(logistic, x, torch.ones(4000, dtype=torch.int64), step=None)
    relative = found.curvature / 1.5547102356
    # Means of 20 squares of normal values have an excess of 12 / 20; variances of 20 of them vary by 0.84.
    sizes = chance.deviations(2) / math.sqrt(4000)
    assert float(relative.std()) == pytest.approx(math.sqrt(2 / 20), rel=sizes * math.sqrt(2.6 / 4))
    assert float((found.curvature_error / 1.5547102356).square().mean()) == pytest.approx(2 / 20, rel=sizes * 0.84)


@pytest.mark.parametrize("step", [None, 1e-4])
def test_agrees_with_the_exact_hessian_of_a_smooth_network_within_its_error_bar(step):
    model, x, y = smooth(), images(12), labels(12, 5)
    exact = hessians(model, x, y)
    found = input_curvature(model, x, y, draws=400, step=step)
    off = (found.curvature - exact.square().sum((1, 2))) / found.curvature_error
    assert float(off.abs().max()) < chance.deviations(12)
    assert float(off.abs().max()) > 0.1  # an error bar, not a blanket
    trace = (found.trace - exact.diagonal(dim1=1, dim2=2).sum(1)) / found.trace_error
    assert float(trace.abs().max()) < chance.deviations(12)
    assert bool((found.curvature_error < 0.15 * found.curvature).all())


def test_the_error_bar_falls_with_the_root_of_the_draws():
    model, x, y = smooth(), images(400), labels(400, 5)
    few, many = (input_curvature(model, x, y, draws=draws).curvature_error for draws in (40, 360))
    error = chance.deviations() * float((few.var() / few.mean() ** 2 + many.var() / many.mean() ** 2).sqrt()) / 20
    assert error < 0.4
    assert float(few.mean() / many.mean()) == pytest.approx(3, rel=error)


def test_a_loss_averaged_over_the_batch_would_be_off_by_the_square_of_its_size():
    # The slip behind the paper's numbers: its notebook differentiates a mean over 64 examples.
    model, x, y = smooth(), images(8), labels(8, 5)
    right = input_curvature(model, x, y)
    slip = input_curvature(model, x, y, loss=lambda logits, y: cross_entropy(logits, y).mean().expand(1))
    torch.testing.assert_close(slip.curvature * 8**2, right.curvature)
    alone = input_curvature(model, x[:1], y[:1])
    torch.testing.assert_close(alone.curvature, right.curvature[:1])


@pytest.mark.parametrize("step", [None, 1e-2])
def test_results_do_not_depend_on_the_batch(step):
    model, x, y = normed(), images(7), labels(7, 3)
    whole = input_curvature(model, x, y, draws=3, step=step, rng=Streams(1, "", 7))
    for rows in ([0], [3, 1], [6, 5, 4, 2]):
        part = input_curvature(model, x[rows], y[rows], draws=3, step=step, rng=Streams(1, "", rows))
        for name, values in vars(part).items():
            torch.testing.assert_close(values, getattr(whole, name)[rows], msg=name)


def test_asks_for_one_gradient_more_than_there_are_draws():
    asked = []
    model = smooth()
    input_curvature(lambda z: (asked.append(len(z)), model(z))[1], images(4), labels(4, 5), draws=20)
    assert asked == [4] * 21


def test_leaves_everything_alone_and_works_under_no_grad():
    model, x, y = normed(), images(5), labels(5, 3)
    with same_module(model), same_random_states(), same_tensors(x, y), torch.no_grad():
        for step in (None, 1e-2):
            found = input_curvature(model, x, y, draws=2, step=step)
            assert not any(values.requires_grad for values in vars(found).values())


def test_differences_see_kinks_that_exact_products_do_not():
    model, x = piecewise(), images(40, (2,))
    y = labels(40, 3)
    bend = {step: input_curvature(lambda z: 1e-3 * model(z), x, y, step=step).curvature for step in (None, 0.1)}
    # Nearly linear softmax: what is left for the exact products is of the order of the logits' slopes squared.
    assert float(bend[0.1].median()) > 100 * float(bend[None].median())


def test_a_normalised_unit_is_the_deviation_to_the_fourth():
    inner, x, y = smooth(5, (3, 2, 2)), images(6, (3, 2, 2)), labels(6, 5)
    normalise = Normalise([0.4, 0.5, 0.6], [0.25, 0.25, 0.25]).double()
    model = nn.Sequential(normalise, inner)
    asked = in_units(model, normalise.std)
    here = input_curvature(asked, x / normalise.std, y, step=None)
    there = input_curvature(inner, normalise(x), y, step=None)
    pixels = input_curvature(model, x, y, step=None)
    for name, values in vars(here).items():
        torch.testing.assert_close(values, getattr(there, name), msg=name)
    torch.testing.assert_close(here.curvature, 0.25**4 * pixels.curvature)
    torch.testing.assert_close(here.gradient_norm, 0.25 * pixels.gradient_norm)


def test_a_unit_of_each_channel_is_that_of_the_network_behind_its_normalisation():
    inner, x, y = smooth(5, (3, 2, 2)), images(6, (3, 2, 2)), labels(6, 5)
    normalise = Normalise([0.4, 0.5, 0.6], [0.2, 0.25, 0.5]).double()
    here = input_curvature(in_units(nn.Sequential(normalise, inner), normalise.std), x / normalise.std, y)
    there = input_curvature(inner, normalise(x), y)
    torch.testing.assert_close(here.curvature, there.curvature)


def test_a_flat_loss_has_no_curvature():
    found = input_curvature(linear(3), images(4), labels(4, 3), loss=lambda logits, _: logits[:, 0], step=None)
    assert torch.equal(found.curvature, torch.zeros(4, dtype=torch.float64))


def test_right_answers_under_noise_are_counted_for_each_example():
    model, x = linear(3), images(20)
    y = model(x).argmax(1)
    noise = GaussianNoise(0.3)
    counts = right_under_noise(model, x, y, noise=noise, draws=10, rng=Streams(2, "", 20))
    assert right_under_noise(model, x, y, noise=GaussianNoise(0.0), draws=10).tolist() == [10] * 20
    assert 0 <= int(counts.min()) < 10
    assert int(counts.max()) == 10
    part = right_under_noise(model, x[5:9], y[5:9], noise=noise, draws=10, rng=Streams(2, "", range(5, 9)))
    assert torch.equal(part, counts[5:9])


def test_bad_numbers_are_refused():
    model, x, y = smooth(), images(2), labels(2, 5)
    with pytest.raises(ValueError, match="draws must be at least 2, or there is no error to estimate, got 1"):
        input_curvature(model, x, y, draws=1)
    with pytest.raises(ValueError, match="step must be positive and finite, got 0"):
        input_curvature(model, x, y, step=0.0)
    with pytest.raises(ValueError, match="draws must be at least 1, got 0"):
        right_under_noise(model, x, y, noise=GaussianNoise(0.1), draws=0)


def test_an_expansion_is_computed_once_for_all_products():
    model, x, y = smooth(), images(3), labels(3, 5)
    for step in (None, 1e-2):
        around = expansion(cross_entropy, model, x, y, step=step)
        found = curvature_of(around, rng=Streams(0, "", 3))
        torch.testing.assert_close(found.curvature, input_curvature(model, x, y, step=step).curvature)


def test_gaussian_moments_of_the_appendix():
    # Lemma E.2: E[e e'He] = 0. Lemma E.3 with H = diag(1, -2), sigma = .1: 2 s^4 |H|^2 + s^4 tr^2 = 1.1e-3.
    sigma, count = 0.1, 400_000
    eigenvalues = torch.tensor([1.0, -2.0], dtype=torch.float64)
    noise = sigma * Streams(0, "lemmas", count).normal(torch.empty(count, 2, dtype=torch.float64))
    form = (noise.square() * eigenvalues).sum(1)
    odd = noise * form[:, None]
    assert all(chance.has_mean(column, 0) for column in odd.T)
    square = form.square()
    assert 2 * sigma**4 * 5 + sigma**4 * 1 == pytest.approx(1.1e-3)
    assert chance.has_mean(square, 1.1e-3)
