"""The L1 penalty: its value, its gradient, and where it appears."""

import pytest
import torch

from holdfast.objectives.weight_penalty import with_l1
from holdfast.recipe import parse_recipes
from holdfast.training import Epoch
from holdfast.types import Terms
from tests.training.tiny import recipe, train


def test_value_and_gradient_are_the_closed_form():
    weight = torch.tensor([[1.0, -2.0], [0.0, 0.25]], dtype=torch.float64, requires_grad=True)
    bias = torch.tensor([-0.5], dtype=torch.float64, requires_grad=True)
    frozen = torch.tensor([100.0], dtype=torch.float64)
    objective = (3 * weight).sum()
    terms = with_l1(Terms(objective, {"clean": objective}), [weight, bias, frozen], 0.1)
    assert float(terms.total.detach()) == pytest.approx(3 * -0.75 + 0.1 * 3.75)
    assert float(terms.parts["l1"].detach()) == pytest.approx(0.375)
    assert terms.parts["clean"] is objective
    of_weight, of_bias = torch.autograd.grad(terms.total, [weight, bias])
    torch.testing.assert_close(of_weight, 3 + 0.1 * torch.tensor([[1.0, -1.0], [0.0, 1.0]]).double())
    torch.testing.assert_close(of_bias, torch.tensor([-0.1]).double())


def test_no_weight_leaves_the_terms_alone():
    terms = Terms(torch.zeros(()))
    assert with_l1(terms, [torch.ones(3, requires_grad=True)], 0.0) is terms
    assert float(with_l1(terms, [torch.ones(3)], 0.5).total) == 0  # nothing is trained


def test_it_is_reported_as_a_part_of_the_loss_and_shrinks_weights(tmp_path):
    def parts(weight):
        records = train(recipe(f"train.l1={weight}", "train.epochs=4"), tmp_path / str(weight))
        return [record.train for record in records if isinstance(record, Epoch)]

    assert all("l1" not in epoch for epoch in parts(0))
    weak, strong = parts(1e-6), parts(0.02)
    assert strong[-1]["l1"] / 0.02 < 0.8 * weak[-1]["l1"] / 1e-6


@pytest.mark.parametrize("weight", ["-1.0", ".inf", ".nan"])
def test_impossible_weights_are_refused(weight):
    with pytest.raises(Exception, match="l1 must be finite and not negative"):
        parse_recipes(f"name: a\ndata: digits\nmodel: mlp\ntrain: {{l1: {weight}}}")
