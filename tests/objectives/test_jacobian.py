"""The Jacobian's norm."""

import pytest
import torch
from torch.func import jacrev, vmap

from holdfast.errors import ModelError
from holdfast.objectives import Jacobian
from holdfast.objectives.jacobian import orthonormal
from holdfast.recipe import parse_recipes
from holdfast.rng import Streams
from tests import chance
from tests.zoo import images, labels, linear, normed, smooth


def test_of_a_linear_network_it_is_the_norm_of_its_matrix():
    model, x, y = linear(4), images(5), labels(5, 4)
    terms = Jacobian(weight=0.5, projections=4)(model, x, y)
    torch.testing.assert_close(terms.parts["jacobian"], model.weight.square().sum())
    torch.testing.assert_close(terms.total, terms.parts["loss"] + 0.25 * model.weight.square().sum())


def test_as_many_projections_as_classes_are_exact():
    model, x, y = smooth(5), images(6), labels(6, 5)
    exact = vmap(jacrev(lambda one: model(one[None])[0]))(x).flatten(1).square().sum(1).mean()
    torch.testing.assert_close(Jacobian(projections=5)(model, x, y).parts["jacobian"], exact)


@pytest.mark.parametrize("projections", [1, 2, 3])
def test_fewer_are_right_on_average(projections):
    model, x, y = linear(4), images(1).expand(4000, 1, 4, 4), labels(4000, 4)
    terms = Jacobian(projections=projections)(model, x, y)
    exact = float(model.weight.detach().square().sum())
    spread = torch.linalg.eigvalsh(model.weight @ model.weight.T).std() * 4 / 4000**0.5
    assert abs(float(terms.parts["jacobian"].detach()) - exact) < chance.deviations() * float(spread.detach())


def test_directions_are_orthonormal_and_uniform():
    vectors = orthonormal(3, torch.zeros(5000, 4, dtype=torch.float64), Streams(0, "", 5000))
    torch.testing.assert_close(vectors @ vectors.transpose(1, 2), torch.eye(3, dtype=torch.float64).expand(5000, 3, 3))
    seconds = torch.einsum("nki,nkj->kij", vectors, vectors) / 5000
    error = chance.deviations(48) * 0.25 / 5000**0.5  # the square of a coordinate varies by 1/4 in four dimensions
    torch.testing.assert_close(seconds, torch.eye(4, dtype=torch.float64).expand(3, 4, 4) / 4, rtol=0, atol=error)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_no_side_is_preferred(count):
    # Haar: E v = 0, of a mean of 5000 each entry of which has the variance 1/4.
    vectors = orthonormal(count, torch.zeros(5000, 4, dtype=torch.float64), Streams(0, "", 5000))
    assert float(vectors.mean(0).abs().max()) < chance.deviations(4 * count) * 0.5 / 5000**0.5
    first = torch.nn.functional.normalize(Streams(0, "", 5000).normal(torch.empty(5000, 4, count).double())[..., 0])
    torch.testing.assert_close(vectors[:, 0], first)  # Gram-Schmidt keeps the first direction


def test_it_is_right_on_average_through_batch_norm_in_train_mode():
    # Of a batch that mixes its examples, the penalty is the sum of squares of the whole Jacobian over all pairs:
    # K / N sum_j |sum_i v_i^T J_ij|^2 has the mean 1 / N sum_ij |J_ij|^2 exactly if directions have no mean.
    model, x, y = normed(4, dropout=0.0).train(), images(6), labels(6, 4)
    with torch.no_grad():
        model.head.bias.zero_()
        model.head.weight.abs_()  # so that the examples' gradients do not cancel
    exact = float(torch.autograd.functional.jacobian(model, x).square().sum()) / len(x)
    draws = torch.stack(
        [Jacobian()(model, x, y, rng=Streams(seed, "", 6)).parts["jacobian"].detach() for seed in range(2000)]
    )
    error = float(draws.std()) / len(draws) ** 0.5
    assert abs(float(draws.mean()) - exact) < chance.deviations() * error


def test_a_recipe_may_name_it_and_bad_settings_are_refused():
    text = "name: a\ndata: digits\nmodel: linear\ntrain: {objective: {jacobian: {weight: 0.1, projections: 3}}}"
    (recipe,) = parse_recipes(text)
    assert recipe.train.objective == Jacobian(weight=0.1, projections=3)
    with pytest.raises(ValueError, match="weight must be positive"):
        Jacobian(weight=0.0)
    with pytest.raises(ValueError, match="projections must be at least 1"):
        Jacobian(projections=0)
    with pytest.raises(ModelError, match="expected no more projections than classes, 3; got 4"):
        Jacobian(projections=4)(linear(3), images(2), labels(2, 3))
