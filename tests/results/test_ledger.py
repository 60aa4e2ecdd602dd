import json

import polars as pl
import pytest

from holdfast.earlier import TRAITS, with_traits
from holdfast.errors import LedgerError
from holdfast.parquet import to_parquet
from holdfast.results import (
    SCHEMA,
    Ledger,
    accuracies,
    compared,
    confusion,
    per_class,
    with_interval,
    yields,
)
from holdfast.results.ledger import NEVER_NULL
from holdfast.statistics import mcnemar, wilson
from tests.tampering import put


def rows(correct, check="clean", run="a", weights="best", first=0, **columns):
    """Rows of one check, one per entry of `correct`."""
    count = len(correct)
    values = {
        "run": [run] * count,
        "weights": [weights] * count,
        "weights_hash": ["00"] * count,
        "check": [check] * count,
        "method": ["clean"] * count,
        "params": ["{}"] * count,
        "example": list(range(first, first + count)),
        "label": [i % 2 for i in range(count)],
        "prediction": [i % 2 if right else 1 - i % 2 for i, right in enumerate(correct)],
        "correct": list(correct),
        "loss": [0.5] * count,
        "distance": [float(i) for i in range(count)],
        "norm": ["l2"] * count,
        "radius": [None] * count,
        "queries": [2 * i for i in range(count)],
        "seconds": [0.25] * count,
        "seed": [0] * count,
        "by": [None] * count,
        "steps": [None] * count,
        "rank": [1 if right else 2 for right in correct],
        "not_run": [None] * count,
        "gradients": [None] * count,
        "to_the_end": [None] * count,
    }
    given = {**values, **columns}
    return with_traits(pl.DataFrame(given, schema={name: SCHEMA[name] for name in given})).select(list(SCHEMA))


def test_what_is_written_is_read_in_the_order_of_weights_check_and_example(tmp_path):
    ledger = Ledger(tmp_path / "deep" / "ledger")
    ledger.append("b", rows([True], first=2))
    ledger.append("a", rows([False], check="pgd"))
    ledger.append("c", rows([True, False], first=0))
    assert [path.name for path in ledger.parts()] == ["a.parquet", "b.parquet", "c.parquet"]
    read = ledger.read()
    assert dict(read.schema) == SCHEMA
    assert read.select("check", "example").rows() == [("clean", 0), ("clean", 1), ("clean", 2), ("pgd", 0)]
    assert read["correct"].to_list() == [True, False, True, False]


def test_a_part_is_there_once_written(tmp_path):
    ledger = Ledger(tmp_path)
    assert not ledger.has("a")
    ledger.append("a", rows([True]))
    assert ledger.has("a")
    assert not ledger.has("b")


def test_columns_are_cast_to_the_schema_and_put_in_order(tmp_path):
    ledger = Ledger(tmp_path)
    frame = rows([True]).with_columns(pl.col("label").cast(pl.Int64)).with_columns(extra=1)
    ledger.append("a", frame.select(reversed(frame.columns)))
    assert dict(ledger.read().schema) == SCHEMA


def test_a_missing_column_leaves_no_part(tmp_path):
    ledger = Ledger(tmp_path)
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        ledger.append("a", rows([True]).drop("loss"))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_ledger_says_what_to_do(tmp_path):
    with pytest.raises(LedgerError, match="got none; run `holdfast evaluate` first"):
        Ledger(tmp_path).read()


@pytest.mark.parametrize("damage", ["empty", "text", "truncated", "no magic", "page"])
def test_a_damaged_part_is_an_error_that_names_the_file(tmp_path, damage):
    ledger = Ledger(tmp_path)
    ledger.append("a", rows([True, False] * 200))
    path = tmp_path / "a.parquet"
    content = path.read_bytes()
    broken = {
        "empty": b"",
        "text": b"not parquet at all, but long enough",
        "truncated": content[: len(content) // 2],
        "no magic": content[:-4] + b"XXXX",
        "page": content[:4] + b"\xff" * 200 + content[204:],
    }[damage]
    path.write_bytes(broken)
    with pytest.raises(LedgerError, match=r"a\.parquet: damaged or changed since .*; delete it and eval"):
        ledger.read()
    put(path, broken)
    with pytest.raises(LedgerError, match=r"a\.parquet: expected a Parquet part"):
        ledger.read()


def test_a_part_so_damaged_that_the_reader_panics_is_an_error_too(tmp_path, monkeypatch):
    # Of parts with random bytes overwritten, one in a hundred makes polars panic, which is no ordinary exception.
    def panic(path):
        raise pl.exceptions.PanicException("index out of bounds")

    ledger = Ledger(tmp_path)
    ledger.append("a", rows([True]))
    monkeypatch.setattr(pl, "read_parquet", panic)
    with pytest.raises(LedgerError, match="index out of bounds"):
        ledger.read()


def test_a_part_with_other_columns_is_an_error(tmp_path):
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(LedgerError, match="expected the columns run, weights"):
        Ledger(tmp_path).read()


def test_accuracies_by_hand():
    table = accuracies(pl.concat([rows([True, True, False, True]), rows([False] * 4, check="pgd")]))
    assert table["check"].to_list() == ["clean", "pgd"]
    assert table["examples"].to_list() == [4, 4]
    assert table["accuracy"].to_list() == [0.75, 0.0]
    assert table["low"].to_list() == [wilson(3, 4).low, wilson(0, 4).low]
    assert table["high"].to_list() == [wilson(3, 4).high, wilson(0, 4).high]
    assert table["distance"].to_list() == [1.5, 1.5]
    assert table["queries"].to_list() == [3.0, 3.0]
    assert table["seconds"].to_list() == [1.0, 1.0]


def test_runs_and_weights_are_not_mixed():
    table = accuracies(
        pl.concat([rows([True]), rows([False], run="b"), rows([False], weights="last"), rows([True], check="pgd")])
    )
    assert table.select("run", "weights", "check", "accuracy").rows() == [
        ("a", "best", "clean", 1.0),
        ("b", "best", "clean", 0.0),
        ("a", "last", "clean", 0.0),
        ("a", "best", "pgd", 1.0),
    ]


def test_per_class_by_hand():
    table = per_class(rows([True, False, True, True]))
    assert table.select("label", "examples", "correct", "accuracy").rows() == [(0, 2, 2, 1.0), (1, 2, 1, 0.5)]


def test_confusion_counts_labels_in_rows_and_predictions_in_columns():
    frame = rows([True, False, True, False, False])  # labels 0 1 0 1 0, predictions 0 0 0 0 1
    assert confusion(frame, 2) == [[2, 1], [2, 0]]
    abstained = frame.with_columns(prediction=pl.lit(-1, pl.Int32))
    assert confusion(abstained, 2) == [[0, 0], [0, 0]]


def test_compared_pairs_examples_by_index_and_checks_by_name():
    first, second = [True, True, False, True], [False, True, True]
    frame = pl.concat(
        [
            rows(first),
            rows(second, run="b", first=1),
            rows([True], check="only a"),
            rows([True], check="only b", run="b"),
            rows([False, True], check="apart"),
            rows([False, True], check="apart", run="b", first=7),
        ]
    )
    found = dict(compared(frame, "a", "b"))
    assert found == {"clean": mcnemar(first[1:], second)}


def test_equal_counts_have_equal_accuracies_however_the_table_was_made():
    counts = pl.DataFrame({"correct": [3, 4]})
    constant = with_interval(counts.with_columns(examples=pl.lit(5)))
    assert constant["accuracy"].to_list() == [0.6, 0.8]


def test_intervals_are_added_to_any_table_of_counts():
    table = with_interval(pl.DataFrame({"correct": [5], "examples": [10]}))
    assert table.select("accuracy", "low", "high").row(0) == (0.5, wilson(5, 10).low, wilson(5, 10).high)


def step(name, broke=None, queries=None, seconds=None):
    return {"step": name, "broke": broke, "queries": queries, "seconds": seconds}


def composed():
    """Four examples: fallen to the first component, to both (in a pilot), standing, and waiting for the second."""
    steps = [
        [step("a", True, 3, 0.5)],
        [step("a", True, 3, 0.5), step("b", True, 10, 1.0)],
        [step("a", False, 9, 1.0), step("b", False, 20, 2.0)],
        [step("a", False, 9, 1.0), step("b")],
    ]
    return rows([False, False, True, True], check="both", steps=steps, by=["a", "a", None, None])


def test_an_accuracy_says_how_many_examples_wait_for_a_component():
    plain = rows([True, True, False, True], check="clean")
    table = accuracies(pl.concat([plain, composed()]))
    assert table.select("check", "correct", "unsettled").rows() == [("clean", 3, 0), ("both", 2, 1)]


def test_yields_by_hand():
    table = yields(pl.concat([rows([True], check="clean"), composed()]))
    columns = ["check", "step", "tried", "broke", "credited", "waiting", "queries", "seconds", "rate"]
    assert table.select(columns).rows() == [
        ("both", "a", 4, 2, 2, 0, 24, 3.0, 2 / 3),
        ("both", "b", 2, 1, 0, 1, 30, 3.0, 1 / 3),
    ]
    assert yields(rows([True])).is_empty()
    waiting = rows([True], steps=[[step("a")]])
    assert yields(waiting)["rate"].to_list() == [None]


def test_a_part_of_a_version_that_kept_no_traits_is_read_with_them(tmp_path):
    ledger = Ledger(tmp_path)
    step = {"step": "square", "access": "scores", "broke": None, "queries": None, "seconds": None}
    attacked = rows([True], check="autoattack", method=["autoattack"], steps=[[step]],
                    params=[json.dumps({"threat": {"linf": {"eps": 0.1}}})])  # fmt: skip
    former = attacked.drop(TRAITS).with_columns(
        pl.col("steps").list.eval(pl.struct(pl.element().struct.field("step", "broke", "queries", "seconds")))
    )
    former.write_parquet(tmp_path / "old.parquet")
    ledger.append("new", rows([True], first=2))
    read = ledger.read()
    assert dict(read.schema) == SCHEMA
    assert read.select("kind", "access", "axis", "size").rows() == [
        ("clean", None, None, None), ("attack", "gradients", "linf", 0.1),
    ]  # fmt: skip
    assert read["steps"][1].to_list() == [step]


def test_a_part_written_before_attacks_could_say_that_they_did_not_run_is_read(tmp_path):
    ledger = Ledger(tmp_path)
    rows([True, False]).drop("not_run", *TRAITS).write_parquet(tmp_path / "old.parquet")
    ledger.append("new", rows([True], first=2, not_run=["no starting point"]))
    assert ledger.part("old")["not_run"].to_list() == [None, None]
    assert ledger.read()["not_run"].to_list() == [None, None, "no starting point"]
    assert dict(ledger.read().schema) == SCHEMA


def test_a_part_written_before_ranks_is_read_and_a_rank_that_cannot_be_is_refused(tmp_path):
    ledger = Ledger(tmp_path)
    rows([True, False]).drop("rank").write_parquet(tmp_path / "old.parquet")
    ledger.append("new", rows([False], first=2, rank=[7]))
    assert ledger.read()["rank"].to_list() == [None, None, 7]
    ledger.append("none", rows([False], first=3, rank=[0]))
    with pytest.raises(LedgerError, match="expected 1 to 100000 in the column rank; got 0"):
        ledger.read()


def test_examples_that_could_not_be_attacked_are_counted_as_open():
    reasons = ["b", None, "a", "a", None]
    frame = pl.concat([
        rows([True, True, True, False, True], check="hopskipjump", not_run=reasons),
        rows([False, True, True, True, True], check="pgd"),
    ])  # fmt: skip
    first, second = accuracies(frame).iter_rows(named=True)
    assert (first["correct"], first["unsettled"], first["not_attacked"], first["reason"]) == (4, 2, 2, "a; b")
    assert (second["unsettled"], second["not_attacked"], second["reason"]) == (0, 0, "")


@pytest.mark.parametrize("name", NEVER_NULL)
def test_rows_without_what_every_row_has_are_refused(tmp_path, name):
    ledger = Ledger(tmp_path)
    ledger.append("a", rows([True, False]))
    frame = ledger.part("a").with_columns(pl.lit(None, SCHEMA[name]).alias(name))
    put(tmp_path / "a.parquet", to_parquet(frame))
    with pytest.raises(LedgerError, match=rf"a\.parquet: expected a value in every row of the column {name}"):
        ledger.read()


@pytest.mark.parametrize(
    ("name", "value", "limits"),
    [
        ("label", -1, "0 to 99999"),
        ("label", 2**31 - 1, "0 to 99999"),
        ("prediction", -2, "-1 to 99999"),
        ("prediction", 100_000, "-1 to 99999"),
        ("example", -1, "0 or more"),
    ],
)
def test_classes_and_examples_that_cannot_be_are_refused(tmp_path, name, value, limits):
    ledger = Ledger(tmp_path)
    ledger.append("a", rows([True, False]).with_columns(pl.lit(value).alias(name)))
    with pytest.raises(LedgerError, match=rf"a\.parquet: expected {limits} in the column {name}; got {value}"):
        ledger.part("a")


@pytest.mark.parametrize(("name", "value"), [("method", "pgd"), ("norm", "linf"), ("certifies", "network")])
def test_rows_of_one_check_that_are_about_several_are_refused(tmp_path, name, value):
    ledger = Ledger(tmp_path)
    ledger.append("a", rows([True, False]).with_columns(certifies=pl.lit("smoothed network")))
    ledger.append("b", rows([True], first=2).with_columns(pl.lit(value).alias(name)))
    with pytest.raises(LedgerError, match=f"expected one {name} for each check; got several for"):
        ledger.read()
