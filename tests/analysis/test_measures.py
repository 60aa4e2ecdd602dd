import dataclasses

import polars as pl
import pytest
import torch

from holdfast import files
from holdfast.analysis.measures import COMMON, Measures
from holdfast.analysis.measuring import measure
from holdfast.analysis.store import Answer
from holdfast.data import Split
from holdfast.errors import LedgerError
from holdfast.parquet import to_parquet
from holdfast.results import SCHEMA
from tests.tampering import put
from tests.zoo import images

QUESTION = Answer("bend", "best", "abc", {"seed": 3, "draws": 2}, {})


def split(count=10):
    index = torch.arange(100, 100 + count).flip(0)
    return Split(images(count, dtype=torch.float32), torch.arange(count) % 3, index)


def ask(x, y, rng):
    draws = rng.normal(x.flatten(1)[:, :2])
    return {"sum": x.flatten(1).sum(1), "draw": draws[:, 0], "several": draws, "hit": y == 1}


def filled(path, part=None, batch_size=64, count=10, asked=ask):
    into = Measures(path, QUESTION)
    for _ in measure(into, part or split(count), asked, run="r", where=torch.empty(0), block=4, batch_size=batch_size):
        pass
    return into


def test_rows_are_those_of_all_examples_in_their_order_with_the_columns_of_the_ledger(tmp_path):
    rows = filled(tmp_path).read()
    assert rows["example"].to_list() == list(range(100, 110))
    assert rows["label"].to_list() == [(9 - k) % 3 for k in range(10)]
    assert rows["sum"].to_list() == pytest.approx(split().x.flatten(1).sum(1).flip(0).tolist())
    assert rows["hit"].to_list() == [label == 1 for label in rows["label"]]
    assert rows.schema["several"] == pl.List(pl.Float64)
    assert rows.select(list(COMMON)).schema == {name: SCHEMA[name] for name in COMMON}
    assert rows.select("run", "weights", "weights_hash", "seed").unique().rows() == [("r", "best", "abc", 3)]
    names = [path.name for path in sorted((tmp_path / "measures").glob("*.parquet"))]
    assert pl.read_parquet(tmp_path / "measures" / names[0])["example"].to_list() == [100, 101, 102, 103]
    assert [name[:10] for name in names] == ["bend-best-"] * 3
    assert [name[-15:] for name in names] == [f"-00000{k}.parquet" for k in range(3)]


def test_what_is_there_is_not_asked_again_and_the_rest_is_the_same(tmp_path):
    whole = filled(tmp_path / "whole").read()
    into, calls = filled(tmp_path / "cut"), []
    into.file(1).unlink()

    def counted(x, y, rng):
        calls.append(len(x))
        return ask(x, y, rng)

    assert filled(tmp_path / "cut", asked=counted).read().equals(whole)
    assert calls == [4]


def test_results_do_not_depend_on_batch_or_order(tmp_path):
    whole = filled(tmp_path / "whole").read()
    assert filled(tmp_path / "small", batch_size=3).read().equals(whole)
    rows = torch.tensor([3, 1, 4, 0, 5, 9, 2, 6, 8, 7])
    assert filled(tmp_path / "shuffled", part=split().select(rows)).read().equals(whole)


def test_progress_goes_up_to_all_examples(tmp_path):
    into = Measures(tmp_path, QUESTION)
    asked = {"run": "r", "where": torch.empty(0), "block": 4, "batch_size": 3}
    assert list(measure(into, split(), ask, **asked)) == [3, 4, 7, 8, 10]
    assert list(measure(into, split(), ask, **asked)) == [4, 8, 10]


def test_an_interruption_leaves_whole_blocks(tmp_path):
    into = Measures(tmp_path, QUESTION)

    def stop(x, y, rng):
        if into.has(1):
            raise KeyboardInterrupt
        return ask(x, y, rng)

    with pytest.raises(KeyboardInterrupt):
        filled(tmp_path, asked=stop)
    assert len(into.read()) == 8
    assert len(list((tmp_path / "measures").glob("*"))) == 3  # two blocks and their checksums


def test_other_questions_have_rows_of_their_own(tmp_path):
    filled(tmp_path)
    for other in ({"weights_hash": "abd"}, {"settings": {"seed": 3, "draws": 3}}, {"kind": "ben"}):
        assert Measures(tmp_path, dataclasses.replace(QUESTION, **other)).read().is_empty()
    empty = Measures(tmp_path / "nothing", QUESTION).read()
    assert list(empty.columns) == list(COMMON)


def test_what_holdfast_did_not_write_is_named(tmp_path):
    into = filled(tmp_path)
    put(into.file(0), to_parquet(pl.DataFrame({"example": [1]})))
    with pytest.raises(LedgerError, match="expected the columns run, weights"):
        into.read()
    put(into.file(0), b"nothing")
    with pytest.raises(LedgerError, match="expected measures by holdfast"):
        into.read()
    into.file(1).write_bytes(b"nothing")
    files.remove(into.file(0))
    with pytest.raises(LedgerError, match="damaged or changed since it was written"):
        into.read()
    files.remove(into.file(1))
    Measures(tmp_path, QUESTION).append(0, "r", {"example": [1], "label": [0], "other": [1.0]})
    with pytest.raises(LedgerError, match="expected the columns of bend-best"):
        into.read()
