"""Splits keep what belongs together; cuts are stratified to the unit."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from holdfast.data import Dataset, Split, channel_statistics, checked, split_validation, subset
from holdfast.errors import DataError
from holdfast.hierarchy import hierarchy_of

CLASSES = ("a", "b", "c")


def split_of(counts: list[int], seed: int = 0) -> Split:
    """Examples of known class sizes in random order; the only pixel of an example holds its index modulo 256."""
    y = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))]
    x = (torch.arange(len(y)) % 256).to(torch.uint8).view(-1, 1, 1, 1)
    return Split(x, y, torch.arange(len(y)))


def counts_of(split: Split, classes: int) -> list[int]:
    return torch.bincount(split.y, minlength=classes).tolist()


def same_rows(part: Split, whole: Split) -> bool:
    """Whether each example still has the image and label that its index says."""
    return torch.equal(part.x, whole.x[part.index]) and torch.equal(part.y, whole.y[part.index])


def test_a_batch_is_float32_in_the_unit_interval() -> None:
    x, y = split_of([300]).batch([255, 0, 51])
    assert x.dtype == torch.float32
    assert x.flatten().tolist() == pytest.approx([1.0, 0.0, 0.2], abs=1e-7)
    assert y.dtype == torch.int64
    floats = checked(torch.tensor([[[0.25]]]), torch.tensor([0]), ("a",), "x")
    assert floats.batch(slice(None))[0].flatten().tolist() == [0.25]


def test_selection_by_mask_positions_and_slice_keeps_the_index() -> None:
    whole = split_of([4, 4])
    mask = torch.tensor([True, False] * 4)
    for rows in (mask, [0, 2, 4, 6], torch.tensor([0, 2, 4, 6]), slice(0, None, 2)):
        part = whole.select(rows)
        assert part.index.tolist() == [0, 2, 4, 6]
        assert same_rows(part, whole)
    assert whole.select([6, 1]).select([1]).index.tolist() == [1]


def test_lengths_must_agree() -> None:
    with pytest.raises(DataError, match=r"^y: expected one label for each of 3 images, got 2$"):
        checked(torch.zeros(3, 1, 2, 2), torch.zeros(2, dtype=torch.int64), CLASSES, ("x", "y"))


def test_a_training_split_needs_every_class() -> None:
    x, y = torch.zeros(2, 1, 2, 2), torch.tensor([0, 2])
    assert len(checked(x, y, CLASSES, "f")) == 2
    with pytest.raises(DataError, match=r"^f: expected examples of every class, got none of class 1 'b'$"):
        checked(x, y, CLASSES, "f", complete=True)


def test_train_and_test_images_must_have_one_shape() -> None:
    one, other = (checked(torch.zeros(1, 1, 2, w), torch.tensor([0]), ("a",), "f") for w in (2, 3))
    assert Dataset("d", ("a",), one, one).shape == (1, 2, 2)
    with pytest.raises(DataError, match=r"^d: expected test images of shape \(1, 2, 2\), got \(1, 2, 3\)$"):
        Dataset("d", ("a",), one, other)


def test_the_fingerprint_sees_images_labels_classes_and_nothing_else() -> None:
    base = Dataset("one", ("a", "b"), None, split_of([2, 2]))
    same = Dataset("two", ("a", "b"), None, split_of([2, 2]))
    assert base.fingerprint() == same.fingerprint()
    assert len(base.fingerprint()) == 64
    image, label = split_of([2, 2]), split_of([2, 2])
    image.x[3] += 1
    label.y[0] = 1 - label.y[0]
    others = [
        replace(base, test=image),
        replace(base, test=label),
        replace(base, classes=("a", "c")),
        replace(base, train=base.test),
        replace(base, test=replace(base.test, x=base.test.x.view(4, 1, 1, 1) / 255)),
    ]
    assert len({base.fingerprint(), *(other.fingerprint() for other in others)}) == 6


@given(st.lists(st.integers(4, 40), min_size=1, max_size=6), st.floats(0.2, 0.6), st.integers(0, 3))
def test_validation_takes_its_share_of_each_class(counts: list[int], share: float, seed: int) -> None:
    whole = split_of(counts)
    train, validation = split_validation(whole, share, seed)
    assert len(validation) == round(share * len(whole))
    for taken, count in zip(counts_of(validation, len(counts)), counts, strict=True):
        assert math.floor(share * count) <= taken <= math.ceil(share * count)
    assert torch.equal(torch.cat((train.index, validation.index)).sort().values, whole.index)
    for part in (train, validation):
        assert same_rows(part, whole)
        assert torch.equal(part.index, part.index.sort().values)


def test_validation_depends_on_the_seed_alone() -> None:
    whole = split_of([30, 30])
    first, again, other = (split_validation(whole, 0.5, seed)[1].index for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, float("nan")])
def test_a_share_is_between_nought_and_one(share: float) -> None:
    with pytest.raises(DataError, match="expected a number between 0 and 1"):
        split_validation(split_of([5]), share, 0)


def test_validation_never_takes_a_whole_class_or_nothing() -> None:
    with pytest.raises(DataError, match=r"0\.9 takes all 1 examples of class 1"):
        split_validation(split_of([10, 1]), 0.9, 0)
    with pytest.raises(DataError, match="takes none"):
        split_validation(split_of([5]), 0.01, 0)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.data(), st.integers(0, 3))
def test_a_subset_is_as_even_as_the_classes_allow(counts: list[int], data: st.DataObject, seed: int) -> None:
    whole = split_of(counts)
    n = data.draw(st.integers(1, len(whole)))
    part = subset(whole, n, seed)
    assert len(part) == n
    assert same_rows(part, whole)
    assert (part.index.diff() > 0).all()
    taken = counts_of(part, len(counts))
    level = max(taken)
    assert all(t in (level, level - 1) or t == count for t, count in zip(taken, counts, strict=True))
    smaller = subset(whole, max(1, n // 2), seed).index
    assert set(smaller.tolist()) <= set(part.index.tolist())


def test_a_subset_depends_on_the_seed_alone_and_not_on_the_class() -> None:
    whole = split_of([50] * 4)
    first, again, other = (subset(whole, 40, seed).index for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len({int(subset(whole, 1, seed).y) for seed in range(20)}) > 1


@pytest.mark.parametrize("n", [0, -1, 11])
def test_a_subset_has_between_one_and_all_examples(n: int) -> None:
    with pytest.raises(DataError, match=f"^subset: expected between 1 and 10 examples, got {n}$"):
        subset(split_of([5, 5]), n, 0)


def test_channel_statistics_are_those_of_all_pixels() -> None:
    x = torch.rand(1100, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    mean, std = channel_statistics(Split(x, torch.zeros(1100, dtype=torch.int64), torch.arange(1100)))
    exact = x.to(torch.float64).transpose(0, 1).flatten(1)
    assert mean == pytest.approx(exact.mean(1).tolist(), rel=1e-12)
    assert std == pytest.approx(exact.std(1, correction=0).tolist(), rel=1e-12)


def test_the_fingerprint_of_data_without_a_hierarchy_is_what_it_was_before_there_were_any() -> None:
    x = torch.arange(24, dtype=torch.uint8).view(6, 1, 2, 2)
    split = Split(x, torch.tensor([0, 1, 2, 0, 1, 2]), torch.arange(6))
    data = Dataset("d", CLASSES, split, split.select([0, 1]))
    # Computed before hierarchies were a part of it.
    assert data.fingerprint() == "aeea7be1709c4419d05af5a1e689668721e55a03e8e710ae2b79f674a508464d"
    grouped = [replace(data, hierarchy=hierarchy_of(CLASSES, {"group": groups})) for groups in GROUPS]
    assert len({data.fingerprint(), *(one.fingerprint() for one in grouped)}) == 3


GROUPS = ({"x": ["a", "b"], "y": ["c"]}, {"x": ["a"], "y": ["b", "c"]})
