"""What every training objective promises."""

import dataclasses

import pytest
import torch
from torch import nn

from holdfast.objectives import OBJECTIVES
from holdfast.rng import Streams
from holdfast.testing.untouched import same_module, same_random_states, same_tensors
from tests.contracts import cheap
from tests.zoo import frozen_norm, images, labels, linear, normed

COUNT = 9


def instance(name):
    return cheap.cheap(cheap.OBJECTIVES, name, "OBJECTIVES")


def batch(classes=3):
    return images(COUNT), labels(COUNT, classes)


def check_trains(objective):
    """A finite scalar whose gradient reaches every parameter, with parts that are finite too."""
    model, (x, y) = normed(dropout=0.0).train(), batch()
    terms = objective(model, x, y, rng=Streams(0, "", COUNT))
    assert terms.total.shape == ()
    assert bool(terms.total.isfinite())
    assert all(part.shape == () and bool(part.isfinite()) for part in terms.parts.values())
    grads = torch.autograd.grad(terms.total, list(model.parameters()))
    assert all(bool(grad.isfinite().all()) for grad in grads)
    # The bias before a BatchNorm in train mode has no effect, so its gradient is zero up to rounding.
    names = [name for name, _ in model.named_parameters() if name != "convolution.bias"]
    reached = dict(zip([name for name, _ in model.named_parameters()], grads, strict=True))
    assert all(float(reached[name].abs().max()) > 1e-9 for name in names)


def check_leaves_everything_alone(objective):
    """Weights, .grad, modes, inputs and the global random states; frozen statistics stay frozen."""
    x, y = batch()
    for model in (frozen_norm(), normed(dropout=0.0).train(), normed()):
        frozen = not model.norm.training
        with same_random_states(), same_module(model, buffers=frozen), same_tensors(x, y):
            objective(model, x, y, rng=Streams(0, "", COUNT))


def check_same_streams_same_value(objective):
    model, (x, y) = frozen_norm(), batch()
    values = [objective(model, x, y, rng=Streams(4, "o", COUNT)).total for _ in range(2)]
    assert torch.equal(*values)
    assert torch.equal(objective(model, x, y).total, objective(model, x, y, rng=Streams(0, "", COUNT)).total)


def check_does_not_depend_on_the_order_of_the_batch(objective):
    """With frozen statistics a shuffled batch, with the streams of its examples, has the same terms."""
    model, (x, y) = frozen_norm(), batch()
    order = torch.tensor([4, 2, 8, 0, 1, 7, 3, 6, 5])
    here = objective(model, x, y, rng=Streams(4, "o", COUNT))
    there = objective(model, x[order], y[order], rng=Streams(4, "o", order))
    torch.testing.assert_close(here.total, there.total, rtol=1e-10, atol=1e-12)
    assert here.parts.keys() == there.parts.keys()
    for name in here.parts:
        torch.testing.assert_close(here.parts[name], there.parts[name], rtol=1e-10, atol=1e-12)


ALL = (
    check_trains,
    check_leaves_everything_alone,
    check_same_streams_same_value,
    check_does_not_depend_on_the_order_of_the_batch,
)


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_keeps_the_contract(name, check):
    check(instance(name))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_descending_lowers_the_objective(name):
    objective, model, (x, y) = instance(name), linear(3), batch()
    before = objective(model, x, y, rng=Streams(0, "", COUNT)).total
    grads = torch.autograd.grad(before, list(model.parameters()))
    with torch.no_grad():
        for parameter, grad in zip(model.parameters(), grads, strict=True):
            parameter -= 1e-3 * grad
    assert float(objective(model, x, y, rng=Streams(0, "", COUNT)).total.detach()) < float(before.detach())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_is_a_frozen_record(name):
    objective = instance(name)
    if isinstance(objective, nn.Module):
        pytest.skip("an objective with state")
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(objective, dataclasses.fields(objective)[0].name, None)


class LeavesEvalOn:
    def __call__(self, model, x, y, *, rng=None):
        model.eval()
        return cheap.OBJECTIVES["standard"](model, x, y, rng=rng)


class DrawsGlobally:
    def __call__(self, model, x, y, *, rng=None):
        return cheap.OBJECTIVES["standard"](model, x + 0.1 * torch.randn_like(x), y)


class Detached:
    def __call__(self, model, x, y, *, rng=None):
        terms = cheap.OBJECTIVES["standard"](model, x, y)
        return dataclasses.replace(terms, total=terms.total.detach().requires_grad_())


class BackwardsItself:
    def __call__(self, model, x, y, *, rng=None):
        terms = cheap.OBJECTIVES["standard"](model, x, y)
        terms.total.backward(retain_graph=True)
        return terms


class SeesPositions:
    def __call__(self, model, x, y, *, rng=None):
        return cheap.OBJECTIVES["noisy"](model, x, y, rng=None)


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (LeavesEvalOn(), check_leaves_everything_alone),
        (DrawsGlobally(), check_leaves_everything_alone),
        (BackwardsItself(), check_leaves_everything_alone),
        (DrawsGlobally(), check_same_streams_same_value),
        (SeesPositions(), check_does_not_depend_on_the_order_of_the_batch),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_broken_objective_is_caught(broken, check):
    with pytest.raises(AssertionError):
        check(broken)


def test_an_objective_cut_from_the_weights_is_caught():
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        check_trains(Detached())
