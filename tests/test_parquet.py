"""Parquet is read once its footer has said what it needs."""

import random

import polars as pl
import pytest

from holdfast import budget
from holdfast.errors import LedgerError
from holdfast.parquet import MOST_ROWS, _needed, from_parquet, to_parquet
from holdfast.thrift import read_struct

FRAME = pl.DataFrame(
    {
        "text": ["a", None, "été"],
        "number": [1.5, float("nan"), None],
        "lists": [[{"step": "x", "broke": True}], [], None],
        "flag": [True, False, None],
    }
)


def read(content):
    return from_parquet(content, "part: expected a table", "delete it")


def test_a_table_comes_back():
    assert read(to_parquet(FRAME)).equals(FRAME)
    assert read(to_parquet(FRAME.clear())).schema == FRAME.schema


@pytest.mark.parametrize("rows", [1, 1000, 300_000])
def test_the_footer_tells_how_many_values_there_are(rows):
    frame = pl.DataFrame({"a": pl.repeat(1, rows, eager=True), "b": pl.repeat("x", rows, eager=True)})
    needed, _ = _needed(to_parquet(frame))
    assert 32 * rows <= needed <= 32 * rows + 40 * rows + 1000


def test_a_few_bytes_that_stand_for_many_rows_are_refused():
    content = to_parquet(pl.DataFrame({"a": pl.repeat(1, MOST_ROWS + 1, eager=True)}))
    assert len(content) < 10_000
    with pytest.raises(LedgerError, match=r"part: expected a table \(1,000,001 rows, where a part has at most"):
        read(content)


def test_a_list_of_many_values_in_one_row_is_refused(monkeypatch):
    content = to_parquet(pl.DataFrame({"a": [[0] * 2_000_000]}))
    assert len(content) < 50_000
    monkeypatch.setenv(budget.VARIABLE, "10M")
    with pytest.raises(LedgerError, match=r"part: expected a table: needs 4\d(\.\d)? MB of memory"):
        read(content)


NESTED = b"PAR1" + b"\x19" * 5000 + (5000).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1" * 4, b"PAR1\xff\xff\xff\x7fPAR1", b"no table at all", NESTED]
)
def test_what_is_no_table_is_one_error(content):
    with pytest.raises(LedgerError, match=r"part: expected a table \(.*\); delete it"):
        read(content)


def test_footers_with_flipped_bits_never_do_harm_before_polars_sees_them():
    content, draw = to_parquet(FRAME), random.Random(0)
    length = int.from_bytes(content[-8:-4], "little")
    for _ in range(2000):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content) - 8 - length, len(content))] ^= 1 << draw.randrange(8)
        try:
            assert min(_needed(bytes(damaged))) >= 0
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017


def with_footer(content, change):
    """A file whose footer is another of the same length, as `change` makes it."""
    length = int.from_bytes(content[-8:-4], "little")
    footer = change(content[-8 - length : -8])
    assert len(footer) == length
    return content[: -8 - length] + footer + content[-8:]


def varint(value):
    """A number with a sign, seven bits a byte."""
    value, digits = 2 * value, []
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def test_pages_that_hold_more_than_the_footer_says_are_counted(monkeypatch):
    """The footer's sizes and counts are small, those of the pages are true."""
    rows = 100_000
    content = to_parquet(pl.DataFrame({"a": pl.Series(["x" * 300 + str(n) for n in range(rows)])}))
    (group,) = read_struct(content[-8 - int.from_bytes(content[-8:-4], "little") :], 0)[0][4]
    size = group[1][0][3][6]
    small = varint(size)[:-1] + b"\0"  # the same length, without the highest digits
    lying = with_footer(content, lambda footer: footer.replace(varint(size), small))
    assert lying != content
    monkeypatch.setenv(budget.VARIABLE, "20M")
    with pytest.raises(LedgerError, match=r"part: expected a table: needs \d+(\.\d)? MB of memory"):
        read(lying)


def test_columns_whose_pages_have_more_values_than_they_say_are_damaged():
    content = to_parquet(pl.DataFrame({"a": list(range(70_000))}))
    lying = with_footer(content, lambda footer: footer.replace(varint(70_000), varint(69_999)))
    assert lying != content
    with pytest.raises(LedgerError, match=r"a column of 69999 values whose pages have 70000"):
        read(lying)


def test_one_long_text_that_stands_for_many_is_counted_as_often_as_it_stands_there(monkeypatch):
    content = to_parquet(pl.DataFrame({"a": pl.repeat("x" * 1000, 100_000, eager=True)}))
    assert len(content) < 10_000
    monkeypatch.setenv(budget.VARIABLE, "50M")
    with pytest.raises(LedgerError, match="part: expected a table: needs 100 MB of memory"):
        read(content)
    nested = to_parquet(pl.DataFrame({"a": [[{"step": "x" * 1000}] * 1000] * 100}))
    with pytest.raises(LedgerError, match=r"part: expected a table: needs 10\d MB of memory"):
        read(nested)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2)),
        pl.Series([b"a"]),
        pl.Series(["a"], dtype=pl.Categorical),
        pl.Series([1], dtype=pl.Decimal(10, 2)),
        pl.Series([[[[[[1]]]]]]),
    ],
)
def test_columns_that_holdfast_does_not_write_are_refused(column):
    with pytest.raises(
        LedgerError, match=r"part: expected a table \((a column 'a' of the kind|values of fixed length)"
    ):
        read(to_parquet(pl.DataFrame({"a": column})))


def test_texts_stored_as_changes_of_the_one_before_are_refused():
    """A few bytes of lengths can make each text a byte longer than the last."""
    content = to_parquet(pl.DataFrame({"a": ["x"]}))
    footer, _ = read_struct(content[-8 - int.from_bytes(content[-8:-4], "little") :], 0)
    column = footer[4][0][1][0][3]
    at, end = column[9], content[-8:-4]
    header, _ = read_struct(content, at)
    assert header[5][2] in (0, 8)
    encoding = content.index(varint(header[5][1]) + b"\x15" + varint(header[5][2]), at) + 2
    damaged = bytearray(content)
    damaged[encoding] = varint(7)[0]
    assert damaged[-8:-4] == end
    with pytest.raises(LedgerError, match="a page of an unknown kind, or of changes"):
        read(bytes(damaged))
