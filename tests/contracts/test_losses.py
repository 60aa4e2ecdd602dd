"""What every loss of labels promises."""

import pytest
import torch

from holdfast.losses import LOSSES
from holdfast.rng import Streams
from tests.contracts import cheap
from tests.zoo import labels


def logits(count, classes, seed=0, scale=3.0):
    return scale * Streams(seed, "logits", count).normal(torch.empty(count, classes, dtype=torch.float64))


@pytest.mark.parametrize("classes", [2, 3, 4, 100])
@pytest.mark.parametrize("name", LOSSES)
def test_is_per_example_with_a_finite_gradient(name, classes):
    loss = cheap.cheap(cheap.LOSSES, name, "LOSSES")
    assert LOSSES[name] is loss
    z, y = logits(30, classes).requires_grad_(), labels(30, classes)
    values = loss(z, y)
    assert values.shape == (30,)
    assert bool(values.isfinite().all())
    (grad,) = torch.autograd.grad(values.sum(), z)
    assert bool(grad.isfinite().all())
    for row in range(3):  # an example's loss and gradient do not know of the others
        alone = z[row : row + 1].detach().requires_grad_()
        torch.testing.assert_close(loss(alone, y[row : row + 1])[0], values[row])
        torch.testing.assert_close(torch.autograd.grad(loss(alone, y[row : row + 1]).sum(), alone)[0][0], grad[row])


@pytest.mark.parametrize("classes", [2, 4, 10])
@pytest.mark.parametrize("name", LOSSES)
def test_climbing_lowers_the_logit_of_the_label(name, classes):
    z, y = logits(30, classes).requires_grad_(), labels(30, classes)
    (grad,) = torch.autograd.grad(LOSSES[name](z, y).sum(), z)
    right = z.argmax(1) == y
    assert right.any()
    assert bool((grad.gather(1, y[:, None]).squeeze(1)[right] < 0).all())


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("name", LOSSES)
def test_stays_finite_in_float32_for_equal_tiny_and_huge_logits(name, scale):
    z = (scale * logits(20, 5)).float()
    z[0] = 0
    z, y = z.requires_grad_(), labels(20, 5)
    values = LOSSES[name](z, y)
    assert bool(values.isfinite().all())
    assert bool(torch.autograd.grad(values.sum(), z)[0].isfinite().all())
