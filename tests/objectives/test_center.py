import pytest
import torch

from holdfast.errors import ModelError
from holdfast.losses import cross_entropy
from holdfast.objectives import Center
from tests.objectives.test_discriminative import B, Direct, Q, W, Y, close
from tests.zoo import half_space, images, labels


def test_the_first_batch_is_judged_by_centres_at_zero():
    terms = Center(weight=0.1)(Direct(W, B), Q, Y)
    close(terms.parts["center"], (1 + 9 + 4 + 16 + 10) / 2 / 5)
    close(terms.total, cross_entropy(Direct(W, B)(Q), Y).mean() + 0.1 * 4.0)


def test_centres_follow_by_the_papers_rule():
    memory = Center(weight=0.1, rate=0.5).hooks.start(Direct(W, B), 3, torch.arange(5))
    memory(Direct(W, B), Q, Y)
    # c - alpha * sum(c - q) / (1 + n) from zero: 0.5 * (4, 0) / 3 and 0.5 * (1, 9) / 4
    first = [[2 / 3, 0], [1 / 8, 9 / 8], [0, 0]]
    close(memory.centres, first)
    terms = memory(Direct(W, B), Q, Y)
    apart = (Q - torch.tensor(first, dtype=Q.dtype)[Y]).square().sum() / 2 / 5
    close(terms.parts["center"], apart)
    close(memory.centres[0], [2 / 3 - 0.5 * (2 * 2 / 3 - 4) / 3, 0])


def test_centres_are_constants_for_the_gradient():
    memory, x = Center().hooks.start(Direct(W, B), 3, torch.arange(5)), Q.clone().requires_grad_()
    memory(Direct(W, B), Q, Y)
    before = memory.centres.clone()
    (grad,) = torch.autograd.grad(memory(Direct(W, B), x, Y).parts["center"], x)
    close(grad, (Q - before[Y]) / 5)


def test_centres_reach_the_class_means_if_the_features_stay():
    memory = Center(rate=0.5).hooks.start(Direct(W, B), 3, torch.arange(5))
    for _ in range(80):
        memory(Direct(W, B), Q, Y)
    close(memory.centres, [[2, 0], [1 / 3, 3], [0, 0]], rtol=0, atol=1e-6)


def test_it_has_state_and_says_what_it_needs():
    assert set(Center().hooks.start(Direct(W, B), 3, torch.arange(5)).state_dict()) == {"centres"}
    with pytest.raises(ModelError, match="center needs a model with features"):
        Center()(half_space(16), images(4), labels(4, 2))
    with pytest.raises(ValueError, match="weight must be finite and not negative"):
        Center(weight=-1.0)
    with pytest.raises(ValueError, match=r"rate must lie in \[0, 1\]"):
        Center(rate=1.5)
