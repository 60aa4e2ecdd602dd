"""Tables over seeds: every cell says how many runs it is about, and numbers of different threats stay apart."""

import json

import pytest

from holdfast.cli.summary import other_images, summary
from holdfast.parquet import to_parquet
from holdfast.report import read_runs
from holdfast.report.accuracy import Accuracy
from holdfast.report.variants import over_seeds
from holdfast.runs import Run
from holdfast.show.items import Details
from holdfast.show.table import Table
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
    facts = json.loads((made / "run.json").read_text())
    hashes = {label: "same" if equal else label for label in ("best", "last")}
    weights = {label: {"sha256": digest} for label, digest in hashes.items()}
    (made / "run.json").write_text(json.dumps({**facts, "weights": weights}))
    return Run(made)


def table(runs):
    """The first table of the section, and what stays folded."""
    items = list(Accuracy().present(read_runs([run.path for run in runs])))
    shown = next(item for item in items if isinstance(item, Table))
    return shown, [item for item in items if isinstance(item, Details)]


def shown(runs):
    """The cells of the first table, without the number of examples, by the heading of their row."""
    rows = table(runs)[0].rows
    return {name: [" ".join(filter(None, (cell.text, cell.note))).replace("\u00a0", " ") for cell in cells[1:]]
            for name, cells in rows}  # fmt: skip


def clean(right):
    return FakeCheck("clean", correct=[T] * right + [F] * (10 - right))


def test_every_threat_has_a_row_and_a_record(tmp_path):
    checks = [clean(9), noise(0.5, [F] * 10), pgd(0.1, [T] * 8 + [F] * 2), pgd(0.5, [T] * 6 + [F] * 4, norm="l2")]
    checks.append(nearest("fmn", 2.0, [0.4, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 0.0], norm="l2"))
    one = run(tmp_path / "a", checks)
    rows = shown([one])
    worst = {name: cells[0].split(" [")[0] for name, cells in rows.items() if name.startswith("worst case")}
    assert worst == {
        "worst case, linf eps=0.1": "80.0 %",
        "worst case, l2 eps=0.5": "40.0 %",
        "worst case, l2 eps=2": "0.0 %",
    }
    records = {record["check"]: record for record in summary([one])}
    assert records["worst case, l2 eps=0.5"]["threat"] == {"norm": "l2", "eps": 0.5}
    assert records["clean"]["threat"] is None


def test_last_weights_of_several_seeds_are_a_mean_over_all_of_them(tmp_path):
    # Seeds 1 and 2 end with their best weights, which have no rows of their own as last weights.
    runs = [
        run(tmp_path / "0", [clean(9)], seed=0, last=[clean(3)]),
        run(tmp_path / "1", [clean(6)], seed=1, equal=True),
        run(tmp_path / "2", [clean(6)], seed=2, equal=True),
    ]
    rows = shown(runs)
    assert rows["clean"] == ["70.0 % ± 17.3", "50.0 % ± 17.3"]


def test_last_weights_that_were_not_checked_are_not_taken_for_the_best_ones(tmp_path):
    runs = [
        run(tmp_path / "0", [clean(9)], seed=0, last=[clean(3)]),
        run(tmp_path / "1", [clean(6)], seed=1),
        run(tmp_path / "2", [clean(6)], seed=0, variant="w"),
        run(tmp_path / "3", [clean(6)], seed=1, variant="w"),
    ]
    assert shown(runs)["clean"] == ["75.0 % ± 21.2", "30.0 % [10.8, 60.3], 1 of 2 seeds", "60.0 % ± 0.0"]
    assert table(runs)[0].groups == (("", 1), ("v", 2), ("w", 1))


def test_many_columns_have_the_main_weights_and_the_rest_is_folded(tmp_path):
    runs = [run(tmp_path / str(n), [clean(9 - n)], variant=f"v{n}", last=[clean(3)]) for n in range(3)]
    main, (every, cost) = table(runs)
    assert main.columns == ("Examples", *["best weights"] * 3)
    assert every.items[0].columns == ("Examples", *["best weights", "last weights"] * 3)
    assert not every.open
    assert not cost.open


def test_runs_of_the_same_name_are_no_seeds_of_each_other(tmp_path):
    runs = [run(tmp_path / str(n), [clean(9)]) for n in range(2)]
    assert len(shown(runs)["clean"]) == 2


def test_a_cell_about_fewer_seeds_than_the_heading_says_so(tmp_path):
    runs = [
        run(tmp_path / "0", [clean(9), pgd(0.1, [T] * 10)], seed=0),
        run(tmp_path / "1", [clean(7)], seed=1),
        run(tmp_path / "2", [clean(6)], seed=0, variant="w"),
    ]
    rows = shown(runs)
    assert table(runs)[0].caption == "Accuracy in each check, mean ± standard deviation over 2 seeds."
    assert rows["clean"] == ["80.0 % ± 14.1", "60.0 % [31.3, 83.2], 1 seed"]
    assert rows["pgd linf eps=0.1 steps=20"] == ["100.0 % [72.2, 100.0], 1 of 2 seeds", "not run"]


@pytest.mark.parametrize(("values", "cell"), [([1.0], ("1.0", "1 of 3 seeds")), ([1.0, 2.0, 3.0], ("2.0", "± 1.0"))])
def test_means_over_seeds(values, cell):
    mean = over_seeds(values, "{:.1f}".format, column=3, table=3)
    assert (mean.text, mean.note) == cell


def test_a_worst_case_that_a_check_not_run_could_lower_is_an_upper_bound(tmp_path):
    one = run(tmp_path / "a", [clean(9), pgd(0.1, [T] * 8 + [F] * 2), pgd(0.5, [T] * 10, norm="l2")])
    one.record(not_run={"best": {"autoattack linf eps=0.1": 10, "gaussian_noise sigma=0.1": 10}})
    rows = shown([one])
    assert rows["worst case, linf eps=0.1"][0].startswith("at most 80.0 %")
    assert rows["worst case, l2 eps=0.5"][0].startswith("90.0 %")
    (record,) = [r for r in summary([one]) if r["check"] == "worst case, linf eps=0.1"]
    assert (record["accuracy"], record["at_most"]) == (None, 0.8)


def test_what_waits_for_a_component_is_an_upper_bound_in_its_threat(tmp_path):
    rows = shown([run(tmp_path / "a", [clean(9), composed("aabswwwwxc")])])
    assert rows["worst case, linf eps=0.1"] == rows["autoattack linf eps=0.1"]
    assert rows["worst case, linf eps=0.1"][0].startswith("at most 60.0 %")


def test_worst_cases_over_other_checks_say_how_many(tmp_path):
    strong = [clean(9), pgd(0.1, [T] * 10), pgd(0.1, [F] * 10, steps=50)]
    runs = [run(tmp_path / "0", strong), run(tmp_path / "1", strong[:2], variant="w")]
    assert [cell.rpartition(", ")[2] for cell in shown(runs)["worst case, linf eps=0.1"]] == ["3 checks", "2 checks"]
    same = shown([*runs[:1], run(tmp_path / "2", strong, variant="w")])
    assert not any("checks" in cell for cell in same["worst case, linf eps=0.1"])


def test_runs_on_other_images_are_named(tmp_path):
    runs = [run(tmp_path / str(seed), [clean(9)], seed=seed) for seed in range(3)]
    assert other_images(runs) is None
    import polars as pl

    part = tmp_path / "2" / "ledger" / "best-0.parquet"
    put(part, to_parquet(pl.read_parquet(part).with_columns(example=pl.col("example") + 7)))
    note = other_images(runs)
    assert note.startswith("tested on other images than r/v/seed-0: r/v/seed-2 (3 of 10 in common); ")
    assert "data.test_seed" in note
