"""`holdfast analyse curvature` and `stability` as a user calls them."""

import math
import shutil
import signal
import statistics

import polars as pl
import pytest

from holdfast.analysis.store import read_answers
from holdfast.results import Ledger
from tests.end_to_end.command import Nursery, good, measured, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

RUN = "runs/tiny/seed-0"
BEND = ["analyse", "curvature", RUN, "--draws", "4", "--lanczos", "2", "--copies", "3"]
MOVE = ["analyse", "stability", RUN, "--draws", "4", "--copies", "8", "--deltas", "1,100", "--sigma", "0.1"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.report.page.plotly_script", lambda: "")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("bent")
    (path / "tiny.yaml").write_text(SMALL)
    good("run", "tiny.yaml", "--set", "train.epochs=2", "--set", "checks=[clean]", cwd=path)
    return path


@pytest.fixture
def place(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "here")
    return tmp_path / "here"


def test_curvature_is_printed_kept_by_example_and_shown(place):
    found = said(*BEND, cwd=place)
    rows = measured(place / RUN, "curvature")
    assert len(rows) == found["result"]["examples"] == 40
    assert found["result"]["median"] == pytest.approx(statistics.median(rows["curvature"]))
    assert found["result"]["right_under_noise"] == pytest.approx(rows["right"].mean() / 3)
    assert rows.select(pl.col("curvature", "curvature_error", "residual", "gradient_norm") >= 0).to_numpy().all()
    shown = good(*BEND, cwd=place)
    assert f"{found['result']['median']:.4g}" in shown
    assert "Curvature of the loss at the images" in read(place / found["report"]).tables


def test_measures_go_with_the_rows_of_the_ledger(place):
    assert "not asked" in good(*BEND, "--lanczos", "0", cwd=place)
    rows = measured(place / RUN, "curvature")
    ledger = Ledger(place / RUN / "ledger").read().filter(pl.col("check") == "clean")
    joined = ledger.join(rows, on=["weights_hash", "example"], suffix="_measured")
    assert len(joined) == 40
    assert joined["label"].to_list() == joined["label_measured"].to_list()
    assert joined["loss"].to_list() == pytest.approx(joined["loss_measured"].to_list(), abs=1e-5)
    assert joined["run"].to_list() == joined["run_measured"].to_list()


def test_batches_and_resuming_do_not_change_the_rows(place):
    said(*BEND, cwd=place)
    before = measured(place / RUN, "curvature")
    part = sorted((place / RUN / "measures").iterdir())[1]
    part.unlink()
    said(*BEND, "--batch-size", "7", cwd=place)
    after = measured(place / RUN, "curvature")
    assert after["right"].to_list() == before["right"].to_list()
    assert after["curvature"].to_list() == pytest.approx(before["curvature"].to_list(), rel=1e-3, abs=1e-9)
    assert after.head(32).equals(before.head(32))


def test_what_is_known_is_not_measured_again(place, monkeypatch):
    first = said(*BEND, cwd=place)
    monkeypatch.setattr("holdfast.analysis.curvature.curvature_of", None)
    assert said(*BEND, cwd=place) == first


def test_ways_of_measuring_are_questions_of_their_own(place):
    plain = said(*BEND, cwd=place)["result"]
    exact = said(*BEND, "--exact", cwd=place)["result"]
    assert exact["median"] != plain["median"]
    normalised = said(*BEND, "--normalised", "--noise", "uniform", "--lanczos", "0", cwd=place)
    assert normalised["result"]["median"] != plain["median"]
    assert normalised["result"]["eigenvalue"] is None
    assert len(read_answers(place / RUN)) == 3


def test_stability_is_printed_kept_by_example_and_shown(place):
    found = said(*MOVE, cwd=place)
    rows = measured(place / RUN, "stability")
    near, far = found["result"]["curve"]
    assert far["eta"]["mean"] == 1
    assert far["loss_gap"] is None
    assert near["eta"]["mean"] == pytest.approx(rows["inside"].list.get(0).mean() / 8)
    assert found["settings"]["step"] == 0.1  # that of the noise
    assert found["result"]["largest_logit"] == pytest.approx(rows["largest_logit"].max())
    assert math.isfinite(found["result"]["quadratic_share"])
    shown = good(*MOVE, cwd=place)
    assert "lower bound says nothing" in shown
    assert "the theorem takes the loss for quadratic" in shown
    assert "Stability, and the bounds of theorem 6.1, at each distance" in read(place / found["report"]).tables


@pytest.mark.slow
def test_a_kill_keeps_whole_blocks_and_repeating_ends_the_same(place, tmp_path):
    whole = tmp_path / "whole"
    shutil.copytree(place, whole)
    asked = [*BEND, "--draws", "60", "--batch-size", "4"]
    said(*asked, cwd=whole)
    nursery = Nursery()
    try:
        done = nursery(*asked, cwd=place, number=signal.SIGTERM, until=f"{RUN}/measures/*-000000.parquet")
    finally:
        nursery.close()
    if done.sent and done.code:
        assert done.code == 130
        assert "repeat the same command to resume" in done.err
    said(*asked, cwd=place)
    assert measured(place / RUN, "curvature").equals(measured(whole / RUN, "curvature"))


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["curvature", RUN, "--noise", "gausian"], "--noise: unknown name 'gausian'; known: gaussian, uniform."),
        (["curvature", RUN, "--strength", "-1"], "--strength: the noise must have a finite size"),
        (["curvature", RUN, "--step", "0"], "--step: expected a positive number, got 0"),
        (["curvature", RUN, "--draws", "1"], "--draws"),
        (["stability", RUN, "--sigma", "0"], "--sigma: expected a positive number, got 0"),
        (["stability", RUN, "--deltas", "a"], "--deltas"),
    ],
)
def test_bad_questions_are_one_line(trained, argv, says):
    assert says in refused("analyse", *argv, cwd=trained)
