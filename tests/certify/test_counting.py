"""Counts of classes, as seen from one of them."""

import torch

from holdfast.certify.counting import tally


def test_a_tally_is_what_a_class_and_its_strongest_rival_have():
    counts = torch.tensor([[5, 0, 2], [0, 7, 0], [3, 4, 1]])
    found = tally(counts, torch.tensor([0, 1, 0]))
    assert found.top.tolist() == [5, 7, 3]
    assert found.other.tolist() == [2, 0, 4]
    assert found.trials.tolist() == [7, 7, 8]
