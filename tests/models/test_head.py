"""The linear layer at the end of a network."""

import pytest
import torch

from holdfast.errors import ModelError
from holdfast.models import MODELS, build
from holdfast.models.head import check_whole, linear_head
from holdfast.modes import evaluating
from tests.zoo import images


def test_features_that_do_not_fit_to_the_head_are_one_line():
    class Spatial(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(12, 3)

        def features(self, x):
            return x

        def forward(self, x):
            return self.head(x.flatten(1))

    with pytest.raises(ModelError, match=r"who needs features of 12 numbers, .*, got \(2, 3, 2, 2\)"):
        linear_head(Spatial(), "who").features(torch.rand(2, 3, 2, 2))


def test_a_model_that_is_more_than_its_head_after_its_features_is_refused():
    model = build(MODELS["mlp"], (1, 4, 4), 3)
    head, x = linear_head(model, "who"), images(4, (1, 4, 4), dtype=torch.float32)
    with evaluating(model):
        check_whole(model, head, x, "who")
        with pytest.raises(ModelError, match=r"who needs a model whose logits are head\(features\(x\)\)"):
            check_whole(lambda x: 2 * model(x), head, x, "who")
