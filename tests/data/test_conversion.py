"""What must not become a split, and what the message says about it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from holdfast.data.conversion import channels_first, images, label_names, labels
from holdfast.errors import DataError


@pytest.mark.parametrize(
    ("shape", "result"),
    [
        ((5, 8, 7), (5, 1, 8, 7)),
        ((5, 3, 8, 7), (5, 3, 8, 7)),
        ((5, 8, 7, 3), (5, 3, 8, 7)),
        ((5, 8, 7, 1), (5, 1, 8, 7)),
        ((5, 4, 8, 7), (5, 4, 8, 7)),
    ],
)
def test_channels_move_to_the_second_axis(shape: tuple[int, ...], result: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    moved = channels_first(array, "x")
    assert moved.shape == result
    if len(shape) == 4 and shape[3] in (1, 3):
        assert moved[2, 0, 6, 5] == array[2, 6, 5, 0]


@pytest.mark.parametrize("shape", [(5, 3, 8, 3), (5, 1, 1, 1), (5, 8, 8, 2), (5, 8), (5, 1, 3, 8, 8)])
def test_an_unclear_channel_axis_is_an_error_not_a_guess(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"^file\.npz: x_test: expected .* got shape"):
        channels_first(np.zeros(shape), "file.npz: x_test")


def test_grey_images_get_a_channel_axis_and_floats_become_float32() -> None:
    x = images(np.linspace(0, 1, 24).reshape(2, 3, 4), "x")
    assert x.shape == (2, 1, 3, 4)
    assert x.dtype == torch.float32
    assert images(np.zeros((2, 3, 4), np.uint8), "x").dtype == torch.uint8


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), float("inf")])
def test_a_value_outside_the_box_is_named_with_its_index(value: float) -> None:
    x = torch.zeros(4, 1, 2, 2)
    x[3, 0, 1, 0] = value
    with pytest.raises(DataError, match=rf"^a\.npz: expected float images in \[0, 1\], got {value:g} at index 3$"):
        images(x, "a.npz")


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((2, 1, 3, 3), np.int16),
        np.zeros((2, 1, 3, 3), bool),
        np.array([[["a"]]]),
        torch.zeros(2, 1, 3, 3, dtype=torch.int64),
        torch.zeros(2, 1, 3, 3, dtype=torch.complex64),
    ],
)
def test_other_dtypes_are_refused(x: object) -> None:
    with pytest.raises(DataError, match=r"^here: expected uint8 or float images, got "):
        images(x, "here")  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(0, 1, 3, 3), (2, 0, 3, 3), (4, 9), (2, 1, 1, 3, 3)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"^here: expected at least one image, .* got shape"):
        images(torch.zeros(shape), "here")


def test_labels_become_int64_whatever_integer_they_were() -> None:
    for dtype in (np.uint8, np.int32, np.uint64):
        assert labels(np.array([0, 2, 1], dtype), 3, "y").tolist() == [0, 2, 1]
    assert labels(torch.tensor([1], dtype=torch.int16), 3, "y").dtype == torch.int64


@pytest.mark.parametrize("value", [-1, 3, 255])
def test_a_label_out_of_range_is_named_with_its_index(value: int) -> None:
    with pytest.raises(DataError, match=rf"^y_train: expected labels in 0\.\.2, got {value} at index 1$"):
        labels(np.array([0, value, 1]), 3, "y_train")


@pytest.mark.parametrize("y", [np.array([0.0, 1.0]), np.array([True, False]), torch.tensor([0.5])])
def test_labels_that_are_not_integers_are_refused(y: object) -> None:
    with pytest.raises(DataError, match=r"^here: expected integer labels, got "):
        labels(y, 3, "here")  # type: ignore[arg-type]


def test_labels_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"^here: expected labels of shape \(N,\), got shape \(2, 1\)"):
        labels(np.array([[0], [1]]), 3, "here")


def test_stored_byte_orders_and_strides_do_not_matter() -> None:
    x = np.linspace(0, 1, 24, dtype=">f4").reshape(2, 3, 4)[::-1]
    assert np.array_equal(images(x, "x")[:, 0].numpy(), x)
    assert labels(np.array([1, 0], ">i4")[::-1], 2, "y").tolist() == [0, 1]


def test_nameless_classes_are_called_by_their_labels() -> None:
    assert label_names([np.array([2, 0]), np.array([1])], "f") == ("0", "1", "2")
    with pytest.raises(DataError, match=r"^f: expected labels below 100000, got 1099511627776$"):
        label_names([np.array([2**40])], "f")
