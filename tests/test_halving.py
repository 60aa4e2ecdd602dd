"""Half as many images at once where memory runs out, and nothing else different."""

import weakref

import pytest
import torch

from holdfast.errors import ModelError, RecipeError
from holdfast.halving import BatchSize, Halved, is_out_of_memory
from tests.cramped import ERRORS, on_a_gpu, on_the_cpu


def fitting(most, fail=on_the_cpu):
    """Work on a piece that needs memory for each item."""

    def work(piece):
        if len(piece) > most:
            fail()
        return [item * item for item in piece]

    return work


@pytest.mark.parametrize("fail", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("most", [1, 3, 8, 100])
def test_every_item_is_worked_on_once_and_in_order(most, fail):
    batch_size = BatchSize(16)
    pieces = list(batch_size.over(range(21), fitting(most, fail)))
    assert [item for piece, _ in pieces for item in piece] == [*range(21)]
    assert [square for _, squares in pieces for square in squares] == [item * item for item in range(21)]
    assert max(len(piece) for piece, _ in pieces) == batch_size.size == {1: 1, 3: 2, 8: 8, 100: 16}[most]


def test_the_smaller_size_stays_and_is_news_once():
    batch_size = BatchSize(64)
    list(batch_size.over(range(100), fitting(20)))
    assert batch_size.news() == Halved(64, 16)
    assert str(Halved(64, 16)) == "out of memory with 64 images at once: continues with 16, with the same results"
    sizes = [len(piece) for piece, _ in batch_size.over(range(40), fitting(20))]
    assert sizes == [16, 16, 8]
    assert batch_size.news() is None


def test_a_last_short_piece_that_does_not_fit_is_halved_itself():
    batch_size = BatchSize(8)
    assert [len(piece) for piece, _ in batch_size.over(range(3), fitting(1))] == [1, 1, 1]
    assert batch_size.news() == Halved(3, 1)


def test_pieces_may_be_finer_than_the_size():
    batch_size = BatchSize(64)
    assert {len(piece) for piece, _ in batch_size.over(range(64), fitting(5), finer=8)} == {4}
    assert (batch_size.size, batch_size.limit) == (32, 4)


def test_another_usual_number_has_the_same_limit():
    batch_size = BatchSize(16)
    assert [len(piece) for piece, _ in batch_size.over(range(40), fitting(100), usual=30)] == [30, 10]
    assert [len(piece) for piece, _ in batch_size.over(range(40), fitting(10), usual=30)] == [7, 7, 7, 7, 7, 5]
    assert [len(piece) for piece, _ in batch_size.over(range(10), fitting(10))] == [7, 3]
    assert (batch_size.at_most(64), batch_size.at_most(4)) == (7, 4)


def test_one_image_that_does_not_fit_is_an_error_that_says_so():
    with pytest.raises(ModelError, match=r"^out of memory with a single image \(CUDA out of memory\. Tried .*free mem"):
        list(BatchSize(4).over(range(4), fitting(0, on_a_gpu)))
    with pytest.raises(ModelError, match=r"out of memory with a single image \(MemoryError\)"):
        list(BatchSize(1).over(range(1), fitting(0, lambda: (_ for _ in ()).throw(MemoryError()))))


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes do not match"), ValueError("out of memory"), KeyboardInterrupt(), ModelError("bad")]
)
def test_other_errors_pass_through_at_once(error):
    calls = []

    def work(piece):
        calls.append(piece)
        raise error

    with pytest.raises(type(error)) as caught:
        list(BatchSize(4).over(range(4), work))
    assert caught.value is error
    assert len(calls) == 1


def test_an_error_that_was_raised_for_want_of_memory_counts_too():
    error = RecipeError("foolbox LinfPGD: cannot run")
    error.__cause__ = MemoryError()
    assert is_out_of_memory(error)
    assert not is_out_of_memory(RecipeError("foolbox LinfPGD: cannot run"))


def test_tensors_of_a_failed_attempt_are_gone_before_the_next():
    kept = []

    def work(piece):
        assert all(reference() is None for reference in kept)
        tensor = torch.zeros(len(piece))
        tensor.itself = tensor  # a cycle, as graphs of autograd may have
        if len(piece) > 2:
            kept.append(weakref.ref(tensor))
            on_the_cpu()

    list(BatchSize(8).over(range(8), work))
    assert len(kept) == 2


def test_one_piece_of_work_is_tried_again_with_half_the_size():
    batch_size, seen = BatchSize(12), []

    def work(size):
        seen.append(size)
        if size > 3:
            on_the_cpu()
        return size

    assert batch_size.attempt(work) == 3
    assert batch_size.attempt(work) == 3
    assert seen == [12, 6, 3, 3]
