"""Affine networks pass, operation by operation, and others are refused by the operation that is not."""

import pytest
import torch
from torch import nn

from holdfast.errors import ModelError
from holdfast.lipschitz.affine import LAYERS, check_affine


class Forward(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, x):
        return self.call(x)


AFFINE = {
    "functions": lambda x: torch.neg(torch.sub(torch.add(x, x), torch.div(torch.mul(x, 3), 2))),
    "methods": lambda x: x.add(x).sub(1).mul(2).div(3).neg().view(2, -1),
    "operators": lambda x: -(2 - (x + 1) * 3 / 2 + x),
    "shapes": lambda x: torch.sum(torch.permute(torch.reshape(torch.flatten(x, 1), (2, 4, 1)), (0, 2, 1))[:, 0], dim=1),
    "means": lambda x: torch.mean(x.flatten(start_dim=1), dim=1, keepdim=True),
    "constants": lambda x: x * torch.ones(1).exp().square(),
}


@pytest.mark.parametrize("name", AFFINE)
def test_affine_operations_pass(name):
    check_affine(Forward(AFFINE[name]), "test")


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_affine_layers_pass(kind):
    arguments = {nn.Unflatten: (1, (2, 2)), nn.Flatten: (), nn.Identity: (), nn.Dropout: ()}
    plain = (4, 4, 1) if "Conv" in kind.__name__ else (4, 4) if kind is nn.Linear else (4,)
    check_affine(nn.Sequential(kind(*arguments.get(kind, plain))), "test")


def test_a_subclass_is_judged_by_what_it_does():
    class Bent(nn.Flatten):
        def forward(self, x):
            return super().forward(x).relu()

    with pytest.raises(ModelError, match="test: expected logits that are affine in the image; relu is not"):
        check_affine(nn.Sequential(Bent()), "test")


OTHERS = {
    "relu": (lambda x: x.relu(), "relu is not"),
    "abs": (lambda x: abs(x), "abs is not"),
    "square": (lambda x: x * x, "mul is not"),
    "own factor": (lambda x: torch.mul(x, x.flatten(1)), "mul is not"),
    "divisor": (lambda x: 1 / x, "is not"),
    "rounding": (lambda x: torch.div(x, 2, rounding_mode="floor"), "div is not"),
    "keyword": (lambda x: torch.mul(input=x, other=x), "mul is not"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_operations_are_named(name):
    call, named = OTHERS[name]
    with pytest.raises(ModelError, match=named):
        check_affine(Forward(call), "test")


def test_other_layers_are_named_by_their_place():
    with pytest.raises(ModelError, match="ReLU at 1 is not"):
        check_affine(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), "test")
    with pytest.raises(ModelError, match="ReLU at the top is not"):
        check_affine(nn.ReLU(), "test")


def test_layers_that_do_more_are_refused():
    untracked = nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False))
    with pytest.raises(ModelError, match="BatchNorm1d at 0 is not"):
        check_affine(untracked, "test")
    for hook in ("register_forward_hook", "register_forward_pre_hook"):
        hooked = nn.Sequential(nn.Linear(4, 4))
        getattr(hooked[0], hook)(lambda *_: None)
        with pytest.raises(ModelError, match="Linear at 0 is not"):
            check_affine(hooked, "test")
