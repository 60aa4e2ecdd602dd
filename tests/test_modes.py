import pytest
import torch
from torch import nn

from holdfast.modes import evaluating, in_evaluation_mode, without_parameter_gradients
from tests.zoo import frozen_norm, images, linear, with_dropout


def flags(model):
    return {name: module.training for name, module in model.named_modules()}


@pytest.mark.parametrize("make", [frozen_norm, with_dropout])
def test_every_flag_comes_back_one_by_one(make):
    model = make()
    before = flags(model)
    assert len(set(before.values())) == 2
    with evaluating(model):
        assert not any(flags(model).values())
    assert flags(model) == before


def test_flags_come_back_after_an_error():
    model = frozen_norm()
    before = flags(model)
    with pytest.raises(RuntimeError), evaluating(model):
        raise RuntimeError
    assert flags(model) == before


def test_can_be_nested():
    model = frozen_norm()
    before = flags(model)
    with evaluating(model):
        with evaluating(model):
            pass
        assert not any(flags(model).values())
    assert flags(model) == before


def test_dropout_is_silent_inside_and_loud_outside():
    model, x = with_dropout(), images(3)
    with evaluating(model):
        assert torch.equal(model(x), model(x))
    with torch.random.fork_rng():
        assert not torch.equal(model(x), model(x))


def test_statistics_do_not_move_inside():
    model = nn.Sequential(nn.BatchNorm2d(1)).double().train()
    with evaluating(model):
        model(images(5))
    assert torch.equal(model[0].running_mean, torch.zeros(1, dtype=torch.float64))
    model(images(5))
    assert not torch.equal(model[0].running_mean, torch.zeros(1, dtype=torch.float64))


def test_plain_functions_pass_through():
    with evaluating(lambda x: linear(2)(x)):
        pass


def test_a_generator_that_is_closed_early_cleans_up_in_evaluation_mode():
    model, modes = nn.Dropout().train(), []

    @in_evaluation_mode
    def records(network):
        try:
            yield network.training
            yield network.training
        finally:
            modes.append(network.training)

    running = records(model)
    assert not next(running)
    assert model.training  # between two records the modes are the caller's
    running.close()
    assert modes == [False]
    assert model.training


def test_parameters_ask_for_no_gradient_inside_and_as_before_outside():
    model = with_dropout()
    first, *others = model.parameters()
    first.requires_grad_(False)
    with without_parameter_gradients(model, [model]):
        assert not any(one.requires_grad for one in model.parameters())
    with pytest.raises(RuntimeError), without_parameter_gradients(model):
        raise RuntimeError
    assert not first.requires_grad
    assert all(one.requires_grad for one in others)
