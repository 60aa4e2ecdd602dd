import pytest
import torch

from holdfast.queries import Counted, Shared, narrow, network
from holdfast.wrappers import ExpectedOverRandomness
from tests.zoo import images, linear


def counts(size):
    return torch.zeros(size, dtype=torch.int64)


def test_every_forward_pass_counts_once_per_example_and_the_answer_is_the_models():
    model, x = linear(3), images(4)
    counted = Counted(model, counts(4))
    assert torch.equal(counted(x), model(x))
    counted(x)
    assert counted.counts.tolist() == [2, 2, 2, 2]


def test_copies_of_the_batch_count_as_often():
    counted = Counted(linear(3), counts(2))
    counted(images(6))
    assert counted.counts.tolist() == [3, 3]


def test_a_narrowed_model_counts_for_its_examples_only():
    counted = Counted(linear(3), counts(4))
    part = counted.narrow(torch.tensor([True, False, True, True]))
    part(images(3))
    last = part.narrow(torch.tensor([2, 0]))
    last(images(2))
    assert counted.counts.tolist() == [2, 0, 1, 2]
    assert part.counts is counted.counts


def test_the_order_of_a_selection_is_kept():
    counted = Counted(linear(3), counts(3))
    counted.narrow(torch.tensor([2, 0])).narrow(torch.tensor([True, False]))(images(1))
    assert counted.counts.tolist() == [0, 0, 1]


def test_a_batch_of_other_length_is_refused():
    counted = Counted(linear(3), counts(4))
    with pytest.raises(ValueError, match="3 rows asked about 4 examples"):
        counted(images(3))


def test_plain_models_do_not_care_about_narrowing():
    model = linear(3)
    assert narrow(model, torch.tensor([0])) is model
    assert narrow(Counted(model, counts(1)), torch.tensor([0])) is not model


def test_a_counted_model_tells_the_model_inside_who_stays():
    class PerExample:
        def __init__(self, offset):
            self.offset = offset

        def __call__(self, x):
            return x.flatten(1) + self.offset[:, None]

        def narrow(self, selection):
            return PerExample(self.offset[selection])

    offset, x, stay = torch.tensor([1.0, 2.0, 3.0]).double(), images(3), torch.tensor([True, False, True])
    counted = Counted(PerExample(offset), counts(3))
    assert torch.equal(narrow(counted, stay)(x[stay]), counted(x)[stay])


def test_attributes_of_the_model_are_visible_through_the_count():
    model = linear(3)
    assert Counted(model, counts(1)).weight is model.weight
    assert torch.equal(Counted(model, counts(2)).features(images(2)), images(2).flatten(1))


def test_rows_of_unknown_examples_are_shared_evenly_and_none_is_lost():
    counted = Counted(linear(3), counts(5))
    shared = Shared(counted.narrow(torch.tensor([0, 2, 3, 4])), 4)
    asked = 0
    for size in (4, 1, 3, 6, 0, 2, 9, 8, 5):
        shared(images(size))
        asked += size
        given = counted.counts[[0, 2, 3, 4]]
        assert int(given.sum()) == asked
        assert int(given.max() - given.min()) <= 1
    assert int(counted.counts[1]) == 0


def test_the_answers_to_shared_questions_are_the_models_and_in_order():
    model = linear(3)
    for size in (0, 1, 2, 3, 4, 7):
        torch.testing.assert_close(Shared(model, 3)(images(size)), model(images(size)))


def test_the_network_behind_onlookers_is_found_and_averages_are_not_looked_through():
    model = torch.nn.Identity()
    assert network(Counted(Counted(model, counts(3)), counts(3))) is model
    averaged = ExpectedOverRandomness(Counted(model, counts(3)), 2)
    assert network(averaged) is averaged
    assert network(Counted(averaged, counts(3))) is averaged
