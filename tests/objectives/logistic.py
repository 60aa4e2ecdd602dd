"""A logistic regression with known values, w = (1, -2), x = (0.5, 0.3), y = 1, as a network of two logits."""

import torch
from torch import nn

WEIGHT = torch.tensor([1.0, -2.0], dtype=torch.float64)
X = torch.tensor([[0.5, 0.3]], dtype=torch.float64)
Y = torch.tensor([1])
F = 0.4750208125  # the probability of class 1
GRADIENT = torch.tensor([[-0.52497919, 1.04995837]], dtype=torch.float64)
BEND = 0.2493760402  # the Hessian is this times w w^T


class Logistic(nn.Module):
    """Logits 0 and <w, x>: the cross entropy of label 1 is -log sigmoid."""

    def __init__(self, weight=WEIGHT):
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, x):
        score = x.flatten(1) @ self.weight
        return torch.stack((torch.zeros_like(score), score), dim=1)


def hessian():
    return BEND * torch.outer(WEIGHT, WEIGHT)


def augmented(gradient, bend):
    """H = [[Hess, g], [g^T, 1]]."""
    upper = torch.cat((bend, gradient[:, None]), dim=1)
    lower = torch.cat((gradient, torch.ones(1, dtype=gradient.dtype)))
    return torch.cat((upper, lower[None]))
