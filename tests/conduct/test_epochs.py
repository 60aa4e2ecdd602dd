"""Weights that epochs leave on the way: which there are, what is tried on them, and where they show."""

import shutil

import polars as pl
import pytest

import holdfast
from holdfast.errors import RecipeError
from holdfast.recipe.load import recipes_of
from holdfast.report.epochs import Epochs, by_epoch, final_weights
from holdfast.report.runs import read_run, read_runs
from holdfast.results import Ledger
from holdfast.results.labels import epoch_label, epoch_of
from holdfast.runs import Run, load_model
from holdfast.show.chart import Chart
from holdfast.show.items import Details

FGSM = {"fgsm": {"threat": {"linf": 0.1}}}
RECIPE = {
    "name": "kept",
    "data": {"source": "digits", "subset": 60, "test_subset": 40},
    "model": {"mlp": {"hidden": [8]}},
    "train": {"epochs": 5, "batch_size": 32, "optimizer": {"sgd": {"lr": 0.1}}, "keep_every": 2},
    "checks": ["clean"],
    "epoch_checks": ["clean", FGSM],
    "seeds": [0, 1],
}
CLEAN, ATTACK = "clean", "fgsm linf eps=0.1"


def run(path, **changes):
    for _ in holdfast.run({**RECIPE, **changes}, out=path):
        pass
    return [path / "kept" / f"seed-{seed}" for seed in changes.get("seeds", RECIPE["seeds"])]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return run(tmp_path_factory.mktemp("kept"))


def weights(path):
    return (
        Ledger(path / "ledger").read().group_by("weights").agg(pl.col("check").unique().sort()).sort("weights").rows()
    )


def test_labels_of_epochs():
    assert epoch_label(12) == "epoch-12"
    assert [epoch_of(label) for label in ("epoch-12", "best", "epoch-", "epoch-0", "epoch-1x", "an epoch-1")] == [
        12, None, None, None, None, None,
    ]  # fmt: skip


def test_every_other_epoch_but_the_last_leaves_its_weights(finished):
    assert Run(finished[0]).epoch_labels() == ["epoch-2", "epoch-4"]
    assert Run(finished[0]).labels() == ["last"]
    cards = [load_model(finished[0] / f"{label}.safetensors").card for label in ("epoch-2", "epoch-4", "last")]
    assert [card.epoch for card in cards] == [2, 4, 5]
    assert len({card.hash for card in cards}) == 3


def test_they_are_the_weights_that_shorter_training_at_the_same_rate_ends_with(finished, tmp_path):
    recipe = {**RECIPE, "train": {**RECIPE["train"], "schedule": "constant"}}
    long, short = (tmp_path / name for name in ("long", "short"))
    for _ in holdfast.run({**recipe, "seeds": [0]}, out=long):
        pass
    for _ in holdfast.run({**recipe, "seeds": [0], "train": {**recipe["train"], "epochs": 2}}, out=short):
        pass
    kept, last = (load_model(file).card.hash for file in (
        long / "kept/seed-0/epoch-2.safetensors", short / "kept/seed-0/last.safetensors"
    ))  # fmt: skip
    assert kept == last


def test_checks_for_epochs_are_tried_on_each_and_on_the_last(finished):
    assert weights(finished[0]) == [
        ("epoch-2", [CLEAN, ATTACK]), ("epoch-4", [CLEAN, ATTACK]), ("last", [CLEAN, ATTACK]),
    ]  # fmt: skip


def test_repeating_measures_nothing_and_loses_nothing(finished):
    before = {part: part.read_bytes() for part in Ledger(finished[0] / "ledger").parts()}
    run(finished[0].parents[1])
    assert {part: part.read_bytes() for part in Ledger(finished[0] / "ledger").parts()} == before


def test_other_checks_may_be_asked_for_later(finished, tmp_path):
    shutil.copytree(finished[0].parents[1], tmp_path / "copy")
    noise = {"gaussian_noise": {"sigma": 0.1}}
    path, _ = run(tmp_path / "copy", epoch_checks=["clean", noise])
    assert dict(weights(path))["epoch-4"] == [CLEAN, ATTACK, "gaussian_noise sigma=0.1"]


def test_reports_show_them_in_a_section_of_their_own(finished):
    data = read_run(finished[0])
    assert data.weights == ("last",)
    assert set(data.epoch_rows["weights"]) == {"epoch-2", "epoch-4"}
    assert final_weights(data) == ("last", 5)
    course = by_epoch(data)
    assert {check: list(values) for check, values in course.items()} == {CLEAN: [2, 4, 5], ATTACK: [2, 4, 5]}
    rows = Ledger(finished[0] / "ledger").read().filter(pl.col("weights") == "epoch-4", pl.col("check") == ATTACK)
    assert course[ATTACK][4] == rows["correct"].mean()


def test_seeds_share_a_curve_with_the_lowest_and_the_highest(finished):
    runs = read_runs(finished)
    charts = [item for item in Epochs().present(runs) if isinstance(item, Chart)]
    assert [chart.title for chart in charts] == [CLEAN, ATTACK]
    (curve,) = charts[0].curves
    assert curve.x == (2.0, 4.0, 5.0)
    seeds = [by_epoch(one)[CLEAN] for one in runs]
    assert curve.y == tuple(pytest.approx((seeds[0][n] + seeds[1][n]) / 2) for n in (2, 4, 5))
    assert curve.low == tuple(min(seed[n] for seed in seeds) for n in (2, 4, 5))
    assert curve.high == tuple(max(seed[n] for seed in seeds) for n in (2, 4, 5))
    (table,) = (item.items[0] for item in Epochs().present(runs) if isinstance(item, Details))
    assert [len(cells) for _, cells in table.rows] == [3, 3]


def test_runs_without_such_weights_have_no_such_section(finished, tmp_path):
    train = {**RECIPE["train"], "keep_every": None}
    (path,) = run(tmp_path, train=train, epoch_checks=[], seeds=[0])
    assert Run(path).epoch_labels() == []
    assert list(Epochs().present(read_runs([path]))) == []


def test_checks_for_epochs_may_be_swept_and_come_once():
    swept = {"gaussian_noise": {"sigma": {"each": [0.1, 0.2]}}}
    (recipe, _) = recipes_of({**RECIPE, "epoch_checks": ["clean", swept]})
    assert [getattr(check, "sigma", None) for check in recipe.epoch_checks] == [None, 0.1, 0.2]
    with pytest.raises(RecipeError, match="epoch_checks: expected each check once; got 'clean' 2 times"):
        recipes_of({**RECIPE, "epoch_checks": ["clean", "clean"]})


def test_checks_for_epochs_need_epochs_that_are_kept():
    train = {**RECIPE["train"], "keep_every": None}
    with pytest.raises(RecipeError, match=r"epoch_checks: expected train\.keep_every"):
        recipes_of({**RECIPE, "train": train})
    with pytest.raises(RecipeError, match="keep_every must be at least 1, got 0"):
        recipes_of({**RECIPE, "train": {**train, "keep_every": 0}})
