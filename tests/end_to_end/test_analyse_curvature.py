"""`holdfast analyse curvature` and `stability` as a user calls them."""

import math
import shutil
import signal
import statistics

import polars as pl
import pytest

from holdfast.questions.answers import Store
from holdfast.results import Ledger
from tests.end_to_end.command import Nursery, good, refused, said
from tests.end_to_end.test_certify import SMALL
from tests.report.reading import read

RUN = "runs/tiny/seed-0"
BEND = ["analyse", "curvature", RUN, "--draws", "4", "--lanczos", "2", "--copies", "3"]
MOVE = ["analyse", "stability", RUN, "--draws", "4", "--copies", "8", "--deltas", "1,100", "--sigma", "0.1"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")


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


def answer(output):
    """The only answer, with its columns as a frame."""
    (one,) = output["answers"]
    return one, pl.DataFrame(one["columns"], strict=False)


def cells(output, caption):
    """The first row of a table that a command presents."""
    (table,) = [item for item in output["shown"] if item.get("caption") == caption]
    return table["rows"][0]["cells"]


def forget(run, block):
    """Delete one block of rows, as if the command had been interrupted."""
    block.unlink()
    sums = run / "answers" / "checksums.txt"
    sums.write_text("".join(line for line in sums.read_text().splitlines(keepends=True) if block.name not in line))


def test_curvature_is_printed_kept_by_example_and_shown(place):
    output = said(*BEND, cwd=place)
    one, rows = answer(output)
    assert len(rows) == one["examples"] == 40
    median, mean, _, _, _, right, examples = cells(output, "Curvature of the loss at the images")
    assert median == pytest.approx(statistics.median(rows["curvature"]))
    assert mean == pytest.approx(statistics.fmean(rows["curvature"]))
    assert right == pytest.approx(rows["right"].mean() / 3)
    assert examples == 40
    assert rows.select(pl.col("curvature", "curvature_error", "residual", "gradient_norm") >= 0).to_numpy().all()
    shown = good(*BEND, cwd=place)
    assert f"{median:.4g}" in shown
    page = read(place / output["reports"][0])
    assert "Curvature of the loss at the images" in page.tables
    assert page.specs["curvature-0"]["layout"]["yaxis"]["type"] == "log"


def test_rows_go_with_those_of_the_ledger(place):
    assert "not measured" in good(*BEND, "--lanczos", "0", cwd=place)
    (stored,) = Store(place / RUN).read_all()
    ledger = Ledger(place / RUN / "ledger").read().filter(pl.col("check") == "clean")
    joined = ledger.join(stored.rows, on=["weights_hash", "example"], suffix="_measured")
    assert len(joined) == 40
    assert joined["label"].to_list() == joined["label_measured"].to_list()
    assert joined["loss"].to_list() == pytest.approx(joined["loss_measured"].to_list(), abs=1e-5)
    assert joined["run"].to_list() == joined["run_measured"].to_list()


def test_batches_and_resuming_do_not_change_the_rows(place):
    _, before = answer(said(*BEND, cwd=place))
    forget(place / RUN, max((place / RUN / "answers").glob("curvature-*.parquet")))
    _, after = answer(said(*BEND, "--batch-size", "7", cwd=place))
    assert after["right"].to_list() == before["right"].to_list()
    assert after["curvature"].to_list() == pytest.approx(before["curvature"].to_list(), rel=1e-3, abs=1e-9)
    assert after.head(32).equals(before.head(32))


def test_a_stored_answer_is_not_measured_again(place, monkeypatch):
    first = said(*BEND, cwd=place)
    monkeypatch.setattr("holdfast.questions.curvature.measurement.curvature_of", None)
    assert said(*BEND, cwd=place) == first


def test_ways_of_measuring_are_answers_of_their_own(place):
    def median(*options):
        one, rows = answer(said(*BEND, *options, cwd=place))
        assert (one["columns"]["eigenvalue"][0] is None) == ("--lanczos" in options)
        return statistics.median(rows["curvature"])

    medians = [
        median(), median("--exact"), median("--normalised", "--noise", "uniform", "--lanczos", "0"),
    ]  # fmt: skip
    assert len(set(medians)) == 3
    assert len(Store(place / RUN).read_all()) == 3


def test_stability_is_printed_kept_by_example_and_shown(place):
    output = said(*MOVE, cwd=place)
    one, rows = answer(output)
    (details,) = [item for item in output["shown"] if "details" in item]
    (table,) = details["items"]
    near, far = (row["cells"] for row in table["rows"])
    assert far[:2] == [1, ""]
    assert near[0] == pytest.approx(rows["inside"].list.get(0).mean() / 8)
    _, _, examples, largest, _, quadratic, products = cells(output, "What the bounds rest on")
    assert products == "4 differences at 0.1"  # the step is the deviation of the noise
    assert one["settings"]["step"] is None
    assert (examples, largest) == (40, pytest.approx(max(rows["largest_logit"])))
    assert math.isfinite(quadratic)
    shown = good(*MOVE, cwd=place)
    assert "Lower bound vacuous" in " ".join(shown.split())
    assert "the quadratic that the theorem assumes" in shown
    assert "Stability, and the bounds of theorem 6.1, at each distance" in read(place / output["reports"][0]).tables


def test_a_recipe_asks_both_questions(place):
    analyses = "analyses=[{curvature: {draws: 2, lanczos: 0}}, {stability: {copies: 2, draws: 2, deltas: [1]}}]"
    (place / "asks.yaml").write_text(SMALL.replace("name: tiny", "name: asks"))
    output = said("run", "asks.yaml", "--set", "checks=[clean]", "--set", analyses, cwd=place)
    page = read(place / output["report"])
    assert {"Curvature of the loss at the images", "What the bounds rest on"} <= set(page.tables)


@pytest.mark.slow
def test_a_kill_keeps_whole_blocks_and_repeating_ends_the_same(place, tmp_path):
    whole = tmp_path / "whole"
    shutil.copytree(place, whole)
    asked = [*BEND, "--draws", "60", "--batch-size", "4"]
    said(*asked, cwd=whole)
    nursery = Nursery()
    try:
        done = nursery(*asked, cwd=place, number=signal.SIGTERM, until=f"{RUN}/answers/*-000000.parquet")
    finally:
        nursery.close()
    if done.sent and done.code:
        assert done.code == 130
        assert "repeat the same command to resume" in done.err
    said(*asked, cwd=place)
    (resumed,), (undisturbed,) = Store(place / RUN).read_all(), Store(whole / RUN).read_all()
    assert resumed.rows.equals(undisturbed.rows)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["curvature", RUN, "--noise", "gausian"], "--noise: expected 'gaussian' or 'uniform'; got 'gausian'"),
        (["curvature", RUN, "--strength", "-1"], "strength: expected a number from 0 on; got -1"),
        (["curvature", RUN, "--step", "0"], "step: expected a positive number; got 0"),
        (["curvature", RUN, "--draws", "1"], "draws: expected at least 2; got 1"),
        (["stability", RUN, "--sigma", "0"], "sigma: expected a positive number; got 0"),
        (["stability", RUN, "--deltas", "a"], "--deltas"),
    ],
)
def test_bad_questions_are_one_line(trained, argv, says):
    assert says in refused("analyse", *argv, cwd=trained)
