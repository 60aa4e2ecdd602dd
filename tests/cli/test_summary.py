"""Tables over seeds: every cell says how many runs it is about, and numbers of different threats stay apart."""

import re

import pytest
import torch
from safetensors.torch import save_file

from holdfast.cli.seeds import Seeds
from holdfast.cli.summary import other_images, show_summary, summary
from holdfast.parquet import to_parquet
from holdfast.runs import Run
from tests.report.factory import FakeCheck, composed, make_run, nearest, noise, pgd
from tests.tampering import put

T, F = True, False


def run(path, checks, *, seed=0, weights=("best",), variant="v", equal=False, last=None):
    """A run with the weights it was checked with; `last` replaces the checks of the last weights."""
    made = make_run(path, checks, name=f"r/{variant}/seed-{seed}", weights=weights)
    if last is not None:
        make_run(path / "other", last, name=f"r/{variant}/seed-{seed}", weights=("last",))
        for part in (path / "other" / "ledger").iterdir():
            part.rename(path / "ledger" / part.name)
    for label in ("best", "last"):
        content = "same" if equal else label
        save_file({"a": torch.zeros(1)}, path / f"{label}.safetensors", metadata={"hash": content})
    return Run(made)


def shown(runs, capsys):
    """The rows of the printed table, by their first cell."""
    show_summary(summary(runs))
    lines = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines() if line.strip()]
    return {cells[0]: cells[1:] for cells in lines}


def clean(right):
    return FakeCheck("clean", correct=[T] * right + [F] * (10 - right))


def test_every_threat_has_a_row_and_a_record(tmp_path, capsys):
    checks = [clean(9), noise(0.5, [F] * 10), pgd(0.1, [T] * 8 + [F] * 2), pgd(0.5, [T] * 6 + [F] * 4, norm="l2")]
    checks.append(nearest("fmn", 2.0, [0.4, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 0.0], norm="l2"))
    one = run(tmp_path / "a", checks)
    rows = shown([one], capsys)
    worst = {name: cells[0].split(" [")[0] for name, cells in rows.items() if name.startswith("worst case")}
    assert worst == {
        "worst case, linf eps=0.1": "80.0 %",
        "worst case, l2 eps=0.5": "40.0 %",
        "worst case, l2 eps=2": "0.0 %",
    }
    records = {record["check"]: record for record in summary([one])}
    assert records["worst case, l2 eps=0.5"]["threat"] == {"norm": "l2", "eps": 0.5}
    assert records["clean"]["threat"] is None


def test_last_weights_of_several_seeds_are_a_mean_over_all_of_them(tmp_path, capsys):
    # Seeds 1 and 2 end with their best weights, which have no rows of their own as last weights.
    runs = [
        run(tmp_path / "0", [clean(9)], seed=0, last=[clean(3)]),
        run(tmp_path / "1", [clean(6)], seed=1, equal=True),
        run(tmp_path / "2", [clean(6)], seed=2, equal=True),
    ]
    rows = shown(runs, capsys)
    assert rows["clean"] == ["70.0 % ± 17.3"]
    assert rows["clean, last weights"] == ["50.0 % ± 17.3"]


def test_last_weights_that_were_not_checked_are_not_taken_for_the_best_ones(tmp_path, capsys):
    runs = [
        run(tmp_path / "0", [clean(9)], seed=0, last=[clean(3)]),
        run(tmp_path / "1", [clean(6)], seed=1),
        run(tmp_path / "2", [clean(6)], seed=0, variant="w"),
        run(tmp_path / "3", [clean(6)], seed=1, variant="w"),
    ]
    assert shown(runs, capsys)["clean, last weights"] == ["30.0 % [10.8, 60.3] (1 of 2 seeds)", "-"]


def test_equal_last_weights_of_every_seed_are_the_same_as_the_best(tmp_path, capsys):
    runs = [
        run(tmp_path / "0", [clean(9)], seed=0, last=[clean(3)]),
        run(tmp_path / "1", [clean(6)], seed=0, variant="w", equal=True),
    ]
    assert shown(runs, capsys)["clean, last weights"] == ["30.0 % [10.8, 60.3]", "same as best"]


def test_a_cell_about_fewer_seeds_than_the_heading_says_so(tmp_path, capsys):
    runs = [
        run(tmp_path / "0", [clean(9), pgd(0.1, [T] * 10)], seed=0),
        run(tmp_path / "1", [clean(7)], seed=1),
        run(tmp_path / "2", [clean(6)], seed=0, variant="w"),
    ]
    rows = shown(runs, capsys)
    assert rows["accuracy [± standard deviation over 2 seeds]"] == ["v", "w"]
    assert rows["clean"] == ["80.0 % ± 14.1", "60.0 % [31.3, 83.2] (1 seed)"]
    assert rows["pgd linf eps=0.1 steps=20"] == ["100.0 % [72.2, 100.0] (1 of 2 seeds)", "-"]


@pytest.mark.parametrize(
    ("values", "text"), [([], ""), ([1.0], "1.0 % (1 of 3 seeds)"), ([1.0, 2.0, 3.0], "2.0 % ± 1.0")]
)
def test_means_over_seeds(values, text):
    assert Seeds(3, 3).mean(values, "{:.1f}".format, " %") == text


def test_a_worst_case_that_a_check_not_run_could_lower_is_an_upper_bound(tmp_path, capsys):
    one = run(tmp_path / "a", [clean(9), pgd(0.1, [T] * 8 + [F] * 2), pgd(0.5, [T] * 10, norm="l2")])
    one.record(not_run={"best": {"autoattack linf eps=0.1": 10, "gaussian_noise sigma=0.1": 10}})
    rows = shown([one], capsys)
    assert rows["worst case, linf eps=0.1"][0].startswith("at most 80.0 %")
    assert rows["worst case, l2 eps=0.5"][0].startswith("90.0 %")
    (record,) = [r for r in summary([one]) if r["check"] == "worst case, linf eps=0.1"]
    assert (record["accuracy"], record["at_most"]) == (None, 0.8)


def test_what_waits_for_a_component_is_an_upper_bound_in_its_threat(tmp_path, capsys):
    rows = shown([run(tmp_path / "a", [clean(9), composed("aabswwwwxc")])], capsys)
    assert rows["worst case, linf eps=0.1"] == rows["autoattack linf eps=0.1"]
    assert rows["worst case, linf eps=0.1"][0].startswith("at most 60.0 %")


def test_worst_cases_over_other_checks_are_named(tmp_path, capsys):
    strong = [clean(9), pgd(0.1, [T] * 10), pgd(0.1, [F] * 10, steps=50)]
    runs = [run(tmp_path / "0", strong), run(tmp_path / "1", strong[:2], variant="w")]
    show_summary(summary(runs))
    line = "not comparable: 'worst case, linf eps=0.1' of r/w/seed-0 is over other checks than of r/v/seed-0"
    assert line in capsys.readouterr().out.splitlines()
    show_summary(summary([*runs[:1], run(tmp_path / "2", strong, variant="w")]))
    assert "not comparable" not in capsys.readouterr().out


def test_runs_on_other_images_are_named(tmp_path):
    runs = [run(tmp_path / str(seed), [clean(9)], seed=seed) for seed in range(3)]
    assert other_images(runs) is None
    import polars as pl

    part = tmp_path / "2" / "ledger" / "best-0.parquet"
    put(part, to_parquet(pl.read_parquet(part).with_columns(example=pl.col("example") + 7)))
    note = other_images(runs)
    assert note.startswith("tested on other images than r/v/seed-0: r/v/seed-2 (3 of 10 in common); ")
    assert "data.test_seed" in note
