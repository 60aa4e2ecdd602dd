from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from holdfast.errors import LedgerError
from holdfast.parquet import to_parquet
from holdfast.questions import QUESTIONS
from holdfast.questions.answers import AnswerKey, Store
from holdfast.report import read_run, read_runs, write_report
from tests.report.factory import FakeCheck, make_run, pgd
from tests.report.reading import read
from tests.tampering import put

CLEAN = FakeCheck("clean", correct=[True, False])


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [CLEAN], facts={"name": "foreign"}, weights=("given",), recipe=None)
    page = read(write_report([run], tmp_path / "report.html"))
    for sentence in (
        "No check has a noise level or a budget eps",
        "One run: there is nothing to compare it with.",
        "No images were kept of foreign.",
        "There is no training record of foreign.",
        "No recipe was kept of foreign",
        "Only clean images were checked: nothing is known about robustness.",
    ):
        assert sentence in page.words
    assert page.table("recorded of itself")["Data fingerprint"] == ["not recorded"]
    assert page.scripts[0] == "{}"
    assert len(page.scripts) == 2  # no figure, no plotly


def test_without_clean_check_or_common_examples_the_worst_case_is_unknown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [pgd(0.1, [True] * 2)])
    other = make_run(tmp_path / "other", [CLEAN, pgd(0.1, [True] * 2)])
    part = other / "ledger" / "best-1.parquet"
    import polars as pl

    put(part, to_parquet(pl.read_parquet(part).with_columns(example=pl.col("example") + 2)))
    page = read(write_report([run, other], tmp_path / "report.html"))
    assert "Clean images were not checked. Worst case in linf: 100.0 % at eps=0.1." in page.words
    assert "Worst case in linf: unknown at eps=0.1 (no example went through all its checks)." in page.words
    assert page.table("Accuracy in each check")["worst case, linf eps=0.1"][2] == "unknown no example was in all checks"


def test_null_sections_and_given_weights_are_fine(tmp_path: Path) -> None:
    facts = {
        "name": "net",
        "variant": None,
        "data": None,
        "weights": {"given": {"sha256": "ab12cd", "file": "/a/b/net.pt"}},
    }
    run = make_run(tmp_path / "run", [CLEAN], facts=facts, weights=("given",))
    table = read(write_report([run], tmp_path / "report.html")).table("recorded of itself")
    assert table["Weights (sha256)"] == ["given: ab12cd, net.pt"]
    assert table["Variant"] == ["not recorded"]


def test_a_ledger_of_other_weights_is_doubted(tmp_path: Path) -> None:
    facts = {"name": "net", "weights": {"best": {"sha256": "ffff"}}}
    run = make_run(tmp_path / "run", [CLEAN], facts=facts)
    assert (
        "results of best weights ab12, but run.json records ffff" in read(write_report([run], tmp_path / "r.html")).text
    )


def test_labels_keep_what_tells_runs_apart(tmp_path: Path) -> None:
    names = ["digits/standard/seed-0", "digits/noisy/seed-0"]
    runs = read_runs([make_run(tmp_path / str(i), [CLEAN], name=name) for i, name in enumerate(names)])
    assert [run.label for run in runs] == ["standard", "noisy"]
    assert runs[1].rows["run"].unique().to_list() == ["noisy"]


def test_labels_are_unique(tmp_path: Path) -> None:
    runs = read_runs([make_run(tmp_path / str(i), [CLEAN], name="same") for i in range(3)])
    assert [run.label for run in runs] == ["same", "same (2)", "same (3)"]


def test_best_weights_come_before_last(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", [CLEAN], weights=("last", "best", "averaged")))
    assert run.weights == ("best", "last", "averaged")
    assert run.main_rows["weights"].unique().to_list() == ["best"]


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("run.json", "{", r"run\.json: expected JSON"),
        ("run.json", "[]", r"run\.json: expected JSON, got something damaged \(expected a JSON object; got list"),
        ("run.json", "{}", r"run\.json: expected a name .* got None"),
        ("run.json", '{"name": "a", "data": 3}', r"run\.json: data: expected an object; got 3"),
        ("metrics.jsonl", "{}\n{", r"metrics\.jsonl, line 2: expected JSON"),
        ("run.json", "[" * 100_000, r"run\.json: expected JSON, .*nested too deeply"),
        ("run.json", '{"name": "a", "name": "b"}', r"run\.json: expected JSON, .*the key 'name' is given twice"),
        ("run.json", '{"name": "a", "seed": ' + "9" * 5000 + "}", r"run\.json: expected JSON, .*is too large"),
        ("metrics.jsonl", '{"epoch": 1, "train": 3}\n', r"metrics\.jsonl, line 1: train: expected an object; got 3"),
        ("metrics.jsonl", "[" * 100_000, r"metrics\.jsonl, line 1: expected JSON, .*nested too deeply"),
        (
            "verdicts/best-model.json",
            "{}",
            r"best-model\.json: expected verdicts by holdfast \(expected a list, got dict",
        ),
        ("verdicts/best-model.json", "[3]", r"best-model\.json: expected verdicts by holdfast \(expected an object"),
        ("answers/a.json", "[" * 100_000, r"a\.json: expected an answer .*nested too deeply"),
        ("answers/a.json", '{"records": 3}', r"a\.json: expected an answer .*; expected a list of objects as records"),
        ("gallery/0.npz", "no zip", r"0\.npz: expected a NumPy \.npz archive"),
        ("ledger/best-0.parquet", "no parquet", r"best-0\.parquet: expected a Parquet part"),
    ],
)
def test_damage_is_named_in_one_line(tmp_path: Path, file: str, content: str, reason: str) -> None:
    run = make_run(tmp_path / "run", [CLEAN], epochs=1, gallery="clean")
    put(run / file, content)
    with pytest.raises(LedgerError, match=reason) as caught:
        write_report([run], tmp_path / "report.html")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("missing", ["run.json", "ledger/best-0.parquet"])
def test_what_a_report_cannot_do_without(tmp_path: Path, missing: str) -> None:
    run = make_run(tmp_path / "run", [CLEAN])
    (run / missing).unlink()
    with pytest.raises(LedgerError, match=r"expected|was written and is missing"):
        read_run(run)


def test_no_run_and_no_directory_are_errors(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="got none"):
        read_runs([])
    with pytest.raises(LedgerError, match="expected a run directory"):
        read_run(tmp_path / "nowhere")


def test_numbers_that_are_not_finite_leave_the_page_readable(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [CLEAN])
    lines = [{"epoch": 1, "lr": 0.1, "train": {"total": float("nan")}}, {"epoch": 2, "train": {"total": 1.0}}]
    (run / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    page = read(write_report([run], tmp_path / "report.html"))
    assert page.specs["training-0"]["data"][0]["y"] == [1.0]
    assert "NaN" not in page.scripts[0]


def test_abstaining_is_counted_as_no_answer(tmp_path: Path) -> None:
    import polars as pl

    run = make_run(tmp_path / "run", [CLEAN])
    part = run / "ledger" / "best-0.parquet"
    put(part, to_parquet(pl.read_parquet(part).with_columns(prediction=pl.lit(-1, dtype=pl.Int32))))
    matrix = read(write_report([run], tmp_path / "report.html")).table("Rows are the true class")
    assert matrix["True class"] == ["cat", "dog", "no answer"]
    assert matrix["dog"] == ["0", "0", "1"]


def test_classes_beyond_the_names_get_numbers(tmp_path: Path) -> None:
    facts = {"name": "a", "data": {"classes": ["cat"]}}
    run = read_run(make_run(tmp_path / "run", [FakeCheck("clean", correct=[True] * 6)], facts=facts))
    assert run.classes == 2
    assert [run.class_name(index) for index in (-1, 0, 1)] == ["-1", "cat", "1"]


def test_many_classes_show_the_weakest(tmp_path: Path) -> None:
    names = [f"c{index}" for index in range(60)]
    right = np.arange(60) < 30
    run = make_run(tmp_path / "run", [FakeCheck("clean", correct=list(right))], classes=names)
    page = read(write_report([run], tmp_path / "report.html"))
    assert len(page.table("percent correct in each class")["Check"]) == 40
    assert "Of 60 classes, the 40 weakest on average are shown." in page.words
    assert "too many classes to show the whole matrix" in page.text


@pytest.mark.parametrize("name", [name for name in QUESTIONS if hasattr(QUESTIONS[name], "axes")])
def test_answers_that_cannot_be_presented_are_named_with_their_section(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path / "run", [CLEAN])
    key = AnswerKey(
        question=name, settings={}, weights="best", weights_hash="ab12", seed=0, examples=2, images="0", block=2
    )
    Store(run).write(key, [{"radius": [], "surfaces": 3, "within": "much"}])
    title = re.escape(QUESTIONS[name].title)
    with pytest.raises(LedgerError, match=f"section '{title}': expected answers as holdfast stores them") as caught:
        write_report([run], tmp_path / "report.html")
    assert str(caught.value).endswith("delete them and ask again")
    assert not (tmp_path / "report.html").exists()


def test_a_class_of_a_high_number_takes_no_memory_for_all_below_it(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [CLEAN])
    part = run / "ledger/best-0.parquet"
    rows = pl.read_parquet(part).with_columns(prediction=pl.Series([0, 99_999], dtype=pl.Int32))
    put(part, to_parquet(rows))
    page = read(write_report([run], tmp_path / "report.html"))
    assert "Most frequent mistakes: dog predicted as 99999 (1×)." in page.text
