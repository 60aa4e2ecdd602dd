"""MATLAB files are read as SciPy reads them, and no size in them is trusted."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from scipy.io import loadmat, savemat

from holdfast import budget
from holdfast.data.mat import read_mat
from holdfast.errors import DataError

KINDS = st.one_of(
    nps.integer_dtypes(endianness="="), nps.unsigned_integer_dtypes(endianness="="),
    nps.floating_dtypes(endianness="=", sizes=(32, 64)),
)  # fmt: skip


def file_of(arrays, *, packed):
    buffer = io.BytesIO()
    savemat(buffer, arrays, do_compression=packed)
    return buffer.getvalue()


@given(nps.arrays(KINDS, nps.array_shapes(min_dims=2, max_dims=4, min_side=1)), st.booleans())
def test_arrays_come_back_as_scipy_reads_them(array, packed):
    content = file_of({"other": "text", "X": array, "y": np.arange(3)}, packed=packed)
    arrays, expected = read_mat(content, ("X", "y"), "a.mat"), loadmat(io.BytesIO(content))
    for name in ("X", "y"):
        assert arrays[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(arrays[name], expected[name])
    assert set(arrays) == {"X", "y"}


def test_files_of_the_other_byte_order_are_read():
    flags, axes = struct.pack(">IIII", 6, 8, 9, 0), struct.pack(">IIii", 5, 8, 2, 2)
    name, values = struct.pack(">HH4s", 1, 1, b"X"), struct.pack(">HH4B", 4, 2, 1, 2, 3, 4)
    body = flags + axes + name + values
    content = b" " * 124 + b"\1\0MI" + struct.pack(">II", 14, len(body)) + body
    np.testing.assert_array_equal(read_mat(content, ("X",), "a.mat")["X"], [[1, 3], [2, 4]])


@pytest.mark.parametrize(
    "arrays", [{"X": np.array([[1j]])}, {"X": "text"}, {"X": {"a": 1}}, {"X": np.array([["a", 1]], dtype=object)}]
)
def test_arrays_of_anything_but_real_numbers_are_refused(arrays):
    with pytest.raises(ValueError, match="expected an array of real numbers"):
        read_mat(file_of(arrays, packed=True), ("X",), "a.mat")


def test_flipped_bits_are_read_or_refused():
    draw = np.random.default_rng(0)
    for packed in (True, False):
        whole = np.frombuffer(file_of({"X": np.ones((2, 3, 4)), "y": np.arange(3)}, packed=packed), np.uint8)
        for _ in range(1000):
            damaged = whole.copy()
            damaged[draw.integers(100, len(whole))] ^= 1 << draw.integers(8)
            try:
                read_mat(damaged.tobytes()[: draw.integers(120, len(whole) + 1)], ("X", "y"), "a.mat")
            except (ValueError, zlib.error) as error:
                assert len(str(error).splitlines()) == 1  # noqa: PT017


def test_compressed_arrays_have_a_budget(monkeypatch):
    monkeypatch.setenv(budget.VARIABLE, "1M")
    content = file_of({"X": np.zeros((1000, 1000, 8)), "y": np.arange(3)}, packed=True)
    assert len(content) < 100_000
    with pytest.raises(DataError, match=r"a\.mat: needs 64 MB of memory"):
        read_mat(content, ("X", "y"), "a.mat")
    assert set(read_mat(content, ("y",), "a.mat")) == {"y"}  # what is not wanted is not decompressed
