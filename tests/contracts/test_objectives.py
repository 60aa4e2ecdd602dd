"""Every objective keeps the contract, and broken ones are caught breaking it."""

import dataclasses

import pytest
import torch
from torch import nn

from holdfast.objectives import OBJECTIVES
from holdfast.testing import objective as contract
from tests.contracts import cheap


def instance(name):
    return cheap.cheap(cheap.OBJECTIVES, name, "OBJECTIVES")


@pytest.mark.parametrize("check", contract.ALL, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", OBJECTIVES)
def test_keeps_the_contract(name, check):
    check(instance(name))


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
        (LeavesEvalOn(), contract.check_leaves_everything_alone),
        (DrawsGlobally(), contract.check_leaves_everything_alone),
        (BackwardsItself(), contract.check_leaves_everything_alone),
        (DrawsGlobally(), contract.check_same_streams_same_value),
        (SeesPositions(), contract.check_does_not_depend_on_the_order_of_the_batch),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_a_broken_objective_is_caught(broken, check):
    with pytest.raises(AssertionError):
        check(broken)


def test_an_objective_cut_from_the_weights_is_caught():
    with pytest.raises(AssertionError, match="the total does not depend on the weights"):
        contract.check_trains(Detached())
