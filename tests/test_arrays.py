"""Arrays of strangers are read as NumPy reads them, or refused in one line."""

import io
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from holdfast import budget
from holdfast.arrays import map_array, read_archive, read_array
from holdfast.data import Npy
from holdfast.errors import DataError

KINDS = st.one_of(
    nps.integer_dtypes(endianness="?"), nps.unsigned_integer_dtypes(endianness="?"), nps.boolean_dtypes(),
    nps.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)  # fmt: skip


def file_of(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def with_header(text, data=b"", version=b"\1\0"):
    header = text.encode("latin1")
    return b"\x93NUMPY" + version + struct.pack("<H" if version == b"\1\0" else "<I", len(header)) + header + data


def header(descr="'<f4'", shape="(2,)", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@given(nps.arrays(KINDS, nps.array_shapes(min_dims=0, max_dims=4, min_side=0)), st.booleans())
def test_arrays_come_back_as_numpy_wrote_them(tmp_path_factory, array, turned):
    array = np.asfortranarray(array) if turned else array
    content = file_of(array)
    read = read_array(content, "a", error=DataError)
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(read, array)
    path = tmp_path_factory.getbasetemp() / "mapped.npy"
    path.write_bytes(content)
    np.testing.assert_array_equal(map_array(path, error=DataError), array)


def test_text_comes_back():
    array = np.array(["a", "été", "\U0001f600", ""])
    np.testing.assert_array_equal(read_array(file_of(array), "a", error=DataError), array)


BAD = {
    "nothing": b"",
    "another format": b"PK\3\4",
    "a version that is not known": with_header(header(), bytes(8), b"\x09\0"),
    "a kind of no size, which makes NumPy divide by zero": with_header(header("'|V0'"), bytes(8)),
    "text of no size": with_header(header("'<U0'"), bytes(8)),
    "a kind of a gigabyte": with_header(header("'<U1000000000'"), bytes(8)),
    "records": with_header(header("[('a', '<f4')]"), bytes(8)),
    "complex numbers": with_header(header("'<c8'"), bytes(16)),
    "times": with_header(header("'<M8[s]'"), bytes(16)),
    "objects": with_header(header("'|O'"), bytes(16)),
    "long floats": with_header(header("'<f16'"), bytes(32)),
    "no kind": with_header(header("None"), bytes(8)),
    "a negative length": with_header(header(shape="(-1,)"), bytes(8)),
    "a length that is no whole number": with_header(header(shape="(2.0,)"), bytes(8)),
    "a length that is a truth": with_header(header(shape="(True,)"), bytes(8)),
    "a length of 5,000 digits": with_header(header(shape=f"({'9' * 5000},)"), bytes(8)),
    "lengths whose product overflows": with_header(header(shape="(4294967296, 4294967296, 0)"), b""),
    "more axes than NumPy has": with_header(header(shape="(1,) * 70"), bytes(4)),
    "too many axes": with_header(header(shape=f"({'1,' * 40})"), bytes(4)),
    "fewer values than stated": with_header(header(shape="(3,)"), bytes(8)),
    "half a header": with_header("{'descr': '<f4', "),
    "a header that is no dictionary": with_header("[1, 2]\n", bytes(8)),
    "a header with a call": with_header("__import__('os').abort()\n", bytes(8)),
    "a header nested deeply": with_header("(" * 9000, bytes(8)),
    "a header of many signs": with_header("-" * 9000 + "1", bytes(8)),
    "a header that is too long": with_header(header() + " " * 20_000, bytes(8)),
    "a header with a zero": with_header(header().replace("descr", "de\0cr"), bytes(8)),
    "characters that do not exist": with_header(header("'<U1'", "(1,)"), struct.pack("<I", 0x110000)),
    "half a character": with_header(header("'<U1'", "(1,)"), struct.pack("<I", 0xD800)),
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_what_is_no_array_is_one_line(content, tmp_path):
    with pytest.raises(DataError, match=r"^a: expected a NumPy \.npy file without pickled objects; ") as caught:
        read_array(content, "a", error=DataError)
    assert len(str(caught.value)) < 400
    (tmp_path / "a.npz").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(DataError, match=r"a\.npz: x: expected an array; "):
        read_archive(tmp_path / "a.npz", "a.npz", lambda name: True, error=DataError)


def test_archives_packed_in_other_ways_are_refused(tmp_path):
    for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "a.npz", "w", kind) as archive:
            archive.writestr("x.npy", file_of(np.zeros(3)))
        with pytest.raises(DataError, match="stored or deflated"):
            read_archive(tmp_path / "a.npz", "a.npz", lambda name: True, error=DataError)


def test_an_archive_that_states_less_than_it_holds_stays_within_the_budget(tmp_path, monkeypatch):
    """The sizes in both of its directories lie."""
    monkeypatch.setenv(budget.VARIABLE, "5M")
    content = file_of(np.zeros(10_000_000, np.uint8))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
    size = struct.pack("<I", len(content))
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes().replace(size, struct.pack("<I", 2000)))
    with pytest.raises(DataError, match=r"a\.npz"):
        read_archive(tmp_path / "a.npz", "a.npz", lambda name: True, error=DataError)


def test_corrupted_images_in_npy_files_have_a_budget(tmp_path, monkeypatch):
    np.save(tmp_path / "rain.npy", np.zeros((50, 40, 50, 3), np.uint8))
    np.save(tmp_path / "labels.npy", np.zeros(50, np.int64))
    assert len(Npy(path=str(tmp_path / "rain.npy"))().test) == 50
    monkeypatch.setenv(budget.VARIABLE, "500k")
    with pytest.raises(DataError, match=r"rain\.npy: needs 600 kB of memory, more than the budget of 500 kB"):
        Npy(path=str(tmp_path / "rain.npy"))()
    assert len(Npy(path=str(tmp_path / "rain.npy"), severity=1)().test) == 10


def test_labels_larger_than_the_budget_are_not_read(tmp_path, monkeypatch):
    np.save(tmp_path / "rain.npy", np.zeros((5, 8, 8), np.uint8))
    with (tmp_path / "labels.npy").open("wb") as file:
        file.truncate(10**12)  # a hole: it takes no room on disk
    monkeypatch.setenv(budget.VARIABLE, "5M")
    with pytest.raises(DataError, match=r"labels\.npy: needs 1 TB of memory"):
        Npy(path=str(tmp_path / "rain.npy"))()
