"""What a row says of an example: the place of its label."""

import pytest
import torch

from holdfast.attacks import FGSM
from holdfast.certify import Margin
from holdfast.corruptions import Clean
from holdfast.data import Split
from holdfast.evaluation.batch import rank_of, run_batch
from holdfast.rng import Streams
from holdfast.threat import Linf
from tests.zoo import generator, images, labels, linear

SPLIT = Split(images(7), labels(7, 3), torch.arange(7))


def test_ranks_by_hand():
    logits = torch.tensor([[3.0, 1.0, 2.0]]).expand(3, 3)
    y = torch.arange(3)
    assert rank_of(logits, y, logits.argmax(1)).tolist() == [1, 3, 2]


def test_of_equal_logits_the_first_class_has_the_better_place():
    logits = torch.tensor([[1.0, 2.0, 2.0, 0.0, 0.0]]).expand(5, 5)
    y = torch.arange(5)
    assert rank_of(logits, y, torch.full((5,), 1)).tolist() == [3, 1, 2, 4, 5]


@pytest.mark.parametrize("predicted", [0, 1])
def test_rank_one_and_a_right_prediction_are_the_same_whatever_class_a_tie_goes_to(predicted):
    logits = torch.zeros(2, 2)
    prediction = torch.full((2,), predicted)
    assert (rank_of(logits, torch.arange(2), prediction) == 1).tolist() == (prediction == torch.arange(2)).tolist()


def test_ranks_are_those_of_a_sort_where_no_logits_are_equal():
    logits = torch.randn(50, 12, generator=generator(0))
    y = torch.randint(12, (50,), generator=generator(1))
    places = (logits.argsort(dim=1, descending=True) == y[:, None]).int().argmax(1) + 1
    assert torch.equal(rank_of(logits, y, logits.argmax(1)), places)


@pytest.mark.parametrize("check", [Clean(), FGSM(threat=Linf(0.1))])
def test_rows_have_the_rank_at_the_changed_image(check):
    model = linear(3)
    rows, _, z = run_batch(model, SPLIT, check, Streams(0, "check", SPLIT.index))
    expected = rank_of(model(z), SPLIT.y, model(z).argmax(1)).tolist()
    assert [row["rank"] for row in rows] == expected
    assert [row["rank"] == 1 for row in rows] == [row["correct"] for row in rows]


def test_certificates_have_none():
    rows, _, _ = run_batch(linear(3), SPLIT, Margin(norm="l2"), Streams(0, "check", SPLIT.index))
    assert {row["rank"] for row in rows} == {None}
