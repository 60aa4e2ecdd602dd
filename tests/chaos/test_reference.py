"""What `make chaos` compares: an untouched run equals itself, and whatever changes in it is seen."""

import json
from types import SimpleNamespace

import polars as pl
import pytest

from holdfast.files import write_checked
from holdfast.parquet import to_parquet
from tests.chaos.ground import Ground, Violation
from tests.chaos.reference import COMMAND, EXTRA, RUN, comparable, fresh, outcome
from tests.end_to_end.command import good


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    place = fresh(tmp_path_factory.mktemp("chaos") / "whole")
    good(*COMMAND, cwd=place)
    without = outcome(place / RUN)
    for argv in EXTRA:
        good(*argv, cwd=place)
    return SimpleNamespace(place=place, outcome=without, finished=outcome(place / RUN))


@pytest.fixture
def ground(reference, tmp_path):
    ground = Ground(None, reference, None, tmp_path / "fault", turn=0)
    ground.prepare(finished=True)
    return ground


def test_an_untouched_run_equals_itself(ground, reference):
    ground.require_outcome(reference.finished)


def test_further_answers_are_part_of_a_finished_run_only(ground, reference):
    assert len(reference.finished["answers"]) == len(reference.outcome["answers"]) + len(EXTRA)
    with pytest.raises(Violation, match=r"differs in answers$"):
        ground.require_outcome(reference.outcome)


def test_nan_equals_nan_and_nothing_else(reference):
    nan = float("nan")
    assert "nan" in json.dumps(reference.finished["answers"])  # or reading a run twice would show nothing
    assert comparable({"a": [nan, (1.0,)]}) == comparable({"a": (nan, [1.0])})
    for other in (0.0, None, float("inf"), 1.0):
        assert comparable([nan]) != comparable([other])
    assert comparable(0.0) != comparable(-0.0)


MORE = 1 + 2**-52
"""The least by which a number can grow."""


def change_rows(file):
    write_checked(file, to_parquet(pl.read_parquet(file).with_columns(pl.col("loss") * MORE)))


def change_row(run):
    change_rows(min((run / "ledger").glob("*.parquet")))


def change_weight(run):
    weights = run / "best.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    write_checked(weights, bytes(content))


def change_epoch(run):
    metrics = run / "metrics.jsonl"
    first, *others = metrics.read_text().splitlines(keepends=True)
    changed = json.loads(first)
    changed["validation"]["loss"] *= MORE
    write_checked(metrics, (json.dumps(changed) + "\n" + "".join(others)).encode())


def change_answer(run):
    change_rows(next((run / "answers").glob("stability-*-000000.parquet")))


def delete_answer(run):
    for file in (run / "answers").glob("curvature-*"):
        file.unlink()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (change_row, "rows"),
        (change_weight, "weights"),
        (change_epoch, "metrics"),
        (change_answer, "answers"),
        (delete_answer, "answers"),
    ],
)
def test_a_change_is_seen(change, where, ground, reference):
    change(ground.place / RUN)
    with pytest.raises(Violation, match=rf"differs in {where}$"):
        ground.require_outcome(reference.finished)
