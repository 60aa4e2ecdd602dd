"""Flat minima: the radius of linear classifiers, the corrected corollary, and where the printed definition fails."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.theory.flatness import flat_along, flat_radius_of_hinge
from holdfast.theory.perturbations import parameter_ball


def problem(seed, classes=3, size=4, count=5, margin=0.1):
    """A linear classifier with hinge loss 0 on random inputs, whose labels are its own answers."""
    draw = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.float64}
    weight, x = torch.randn(classes, size, **draw), torch.randn(count, size, **draw)
    two = (x @ weight.T).topk(2).values
    return weight * (2 * margin / float((two[:, 0] - two[:, 1]).min())), x, (x @ weight.T).argmax(1), margin


def hinge(x, y, margin):
    def loss(weight):
        logits = x @ weight.T
        own = logits.gather(1, y[:, None])
        others = logits.scatter(1, y[:, None], -math.inf)
        return (margin - (own[:, 0] - others.amax(1))).clamp(min=0).mean()

    return loss


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_radius_is_that_of_the_largest_ball_without_loss(seed):
    weight, x, y, margin = problem(seed)
    loss, radius = hinge(x, y, margin), flat_radius_of_hinge(weight, x, y, margin=margin)
    assert float(loss(weight)) == 0
    draw = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.float64}
    along = [flat_along(loss, weight, torch.randn(weight.shape, **draw)) for _ in range(20)]
    assert min(along) >= radius * (1 - 1e-6)
    ends = []
    for one, label in zip(x, y, strict=True):
        for other in set(range(len(weight))) - {int(label)}:
            towards = torch.zeros_like(weight)
            towards[label], towards[other] = -one, one
            ends.append(flat_along(loss, weight, towards))
    assert min(ends) == pytest.approx(radius, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_weights_that_are_optimal_around_the_data_are_flat_as_corollary_1_says(seed):
    weight, x, y, margin = problem(seed)
    logits = x @ weight.T
    slack = logits.gather(1, y[:, None]) - logits - margin
    apart = (weight[y][:, None] - weight[None]).norm(dim=2)
    gamma = float((slack / apart)[apart > 0].min())  # the loss stays 0 for inputs within gamma of the data
    bound = parameter_ball(weight, float(x.norm(dim=1).max()), gamma)
    assert flat_radius_of_hinge(weight, x, y, margin=margin) >= bound * (1 - 1e-9)


def test_by_hand():
    weight, x, y = torch.eye(2).double(), torch.tensor([[3.0, 0.0], [0.0, 4.0]]).double(), torch.tensor([0, 1])
    # (3 - 1) / (sqrt 2 * 3) and (4 - 1) / (sqrt 2 * 4)
    assert flat_radius_of_hinge(weight, x, y, margin=1.0) == pytest.approx(2 / (3 * math.sqrt(2)))
    assert flat_radius_of_hinge(weight, x, y, margin=3.0) == 0  # proposition 1
    with pytest.raises(ValueError, match=r"expected hinge loss 0 for margin 3\.5; it is positive for 1"):
        flat_radius_of_hinge(weight, x, y, margin=3.5)


def test_beyond_the_radius_the_loss_does_not_rise_everywhere_as_the_printed_definition_wants():
    weight, x, y, margin = problem(0)
    loss, radius = hinge(x, y, margin), flat_radius_of_hinge(weight, x, y, margin=margin)
    assert flat_along(loss, weight, weight, longest=1e3) == 1e3  # longer weights have larger margins
    assert radius < 1e3
    few, labels = x[:2], y[:2]  # do not span: what they do not see changes nothing
    unseen = torch.linalg.svd(few)[2][-1] * torch.ones(len(weight), 1).double()
    assert flat_along(hinge(few, labels, margin), weight, unseen, longest=1e3) == 1e3


def test_the_way_along_a_direction_ends_where_a_convex_loss_begins_to_rise():
    def loss(parameters):
        return (parameters.norm() - 2).clamp(min=0)

    at = torch.tensor([0.5, 0.0]).double()
    assert flat_along(loss, at, torch.tensor([7.0, 0.0]).double()) == pytest.approx(1.5)
    assert flat_along(loss, at, torch.tensor([-0.1, 0.0]).double()) == pytest.approx(2.5)
    assert flat_along(loss, at, torch.tensor([0.0, 1.0]).double()) == pytest.approx(math.sqrt(3.75))


def test_an_input_of_zeros_is_refused_instead_of_giving_no_number():
    weight, x, y, _ = problem(0)
    x[1] = 0
    with pytest.raises(ValueError, match="1 are 0: remove them"):
        flat_radius_of_hinge(weight, x, y)
