"""What every public call promises about modes: it sees the network as it is evaluated, and gives its modes back."""

import dataclasses
from collections.abc import Iterator, Mapping

import pytest
import torch

from holdfast.errors import HoldfastError
from holdfast.testing.untouched import same_module, same_random_states
from tests.zoo import normed


def left_in_train_mode():
    """The network of `normed` with dropout and moving statistics switched on, and one layer in eval mode by hand."""
    model = normed().train()
    model.head.eval()
    return model


def check_sees_the_network_in_evaluation_mode(call):
    """Whatever mode the network was left in, the result is the same, and statistics and modes stay."""
    expected, model = drained(call(normed())), left_in_train_mode()
    with same_random_states(), same_module(model):
        assert equal(drained(call(model)), expected), "the result depends on the mode of the network"


def check_gives_modes_back_after_an_error(call):
    """Modes come back one by one when the network raises in the middle."""
    model = left_in_train_mode()
    handle = model.register_forward_pre_hook(interrupt)
    model.norm.register_forward_pre_hook(interrupt)  # for those who ask for features
    with same_module(model), pytest.raises((InterruptedError, HoldfastError)):
        drained(call(model))
    handle.remove()


def interrupt(module, inputs):
    raise InterruptedError


def drained(result):
    return list(result) if isinstance(result, Iterator) else result


def equal(one, other):
    """Equality of nested results, to the bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one.nan_to_num(7e7), other.nan_to_num(7e7))
    if dataclasses.is_dataclass(one):
        return equal(vars(one), vars(other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    return one == other or one is other


ALL = (check_sees_the_network_in_evaluation_mode, check_gives_modes_back_after_an_error)
