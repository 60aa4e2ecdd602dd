"""Parquet is read once its footer has said what it needs."""

import random

import polars as pl
import pytest

from holdfast import budget
from holdfast.errors import LedgerError
from holdfast.parquet import MOST_ROWS, _needed, from_parquet, to_parquet

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
