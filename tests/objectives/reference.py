"""Logits whose losses are known, and a network that is given its logits as input."""

import torch

NATURAL = torch.tensor([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]], dtype=torch.float64)
MOVED = torch.tensor([[1.0, 1.5, 0.0], [0.5, 2.0, 1.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 1])


def asked(x):
    """Images are their own logits."""
    return x
