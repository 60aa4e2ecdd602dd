"""Top-k accuracy from ranks: by hand, over seeds, and where it is not shown."""

import polars as pl
import pytest

from holdfast.report.first_answers import FirstAnswers, top_shares
from holdfast.report.runs import read_runs
from holdfast.results import Ledger
from holdfast.show.numbers import SPACE
from holdfast.show.table import Table
from tests.report.factory import FakeCheck, make_run, pgd, proved

CLASSES = [str(number) for number in range(30)]


def run(path, ranks, name="many/a/seed-0", classes=CLASSES):
    """A run whose clean examples have these ranks, and of whose attack all are at rank 9."""
    checks = [FakeCheck("clean", correct=[rank == 1 for rank in ranks]), pgd(0.1, [False] * len(ranks))]
    made = make_run(path, [*checks, proved([0.1] * len(ranks))], name=name, classes=classes)
    ledger = Ledger(made / "ledger")
    for part, values in (("best-0", ranks), ("best-1", [9] * len(ranks))):
        ledger.append(part, ledger.part(part).with_columns(rank=pl.Series(values, dtype=pl.Int32)))
    return made


def table(paths, **fields):
    items = list(FirstAnswers(**fields).present(read_runs(paths)))
    return next((item for item in items if isinstance(item, Table)), None)


def test_it_counts_labels_among_the_first_k_answers_and_leaves_certificates_out(tmp_path):
    rows = Ledger(run(tmp_path / "a", [1, 5, 6, 2]) / "ledger").read()
    assert top_shares(rows, 5) == {"clean": (3, 4), "pgd linf eps=0.1 steps=20": (0, 4)}
    assert top_shares(rows, 9) == {"clean": (4, 4), "pgd linf eps=0.1 steps=20": (4, 4)}
    assert top_shares(rows, 1)["clean"] == (1, 4)
    assert top_shares(rows.with_columns(rank=pl.lit(None, pl.Int32)), 5) == {}


def test_a_row_for_each_check_with_its_interval(tmp_path):
    shown = table([run(tmp_path / "a", [1, 5, 6, 2])])
    assert [(name, cells[0].value) for name, cells in shown.rows] == [("clean", 0.75), ("pgd linf eps=0.1 steps=20", 0)]
    assert shown.rows[0][1][0].note == f"[30.1,{SPACE}95.4]"
    assert table([run(tmp_path / "b", [1, 5, 6, 2])], k=1).rows[0][1][0].value == 0.25


def test_seeds_share_a_column(tmp_path):
    seeds = [run(tmp_path / str(seed), ranks, name=f"many/a/seed-{seed}") for seed, ranks in ((0, [1, 7]), (1, [2, 2]))]
    shown = table([*seeds, run(tmp_path / "b", [1, 7], name="many/b/seed-0")])
    assert list(shown.columns) == ["a", "b"]
    assert [cell.value for cell in shown.rows[0][1]] == [0.75, 0.5]


@pytest.mark.parametrize("classes", [10, 19])
def test_data_of_few_classes_have_none_unless_asked(tmp_path, classes):
    path = run(tmp_path / "a", [1, 5, 6, 2], classes=CLASSES[:classes])
    assert table([path]) is None
    assert table([path], classes=2) is not None
    assert table([path], classes=2, k=classes) is None
