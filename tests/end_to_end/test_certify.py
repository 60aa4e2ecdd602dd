"""`holdfast certify`: what provably holds of a run, a checkpoint or a foreign network."""

import json
import re
import shutil

import polars as pl
import pytest
import torch

from holdfast.certify.smoothing import GaussianSmoothing
from holdfast.data import Digits, write_npz
from holdfast.results import Ledger
from holdfast.rng import Streams
from holdfast.runs import load_model
from tests.end_to_end import foreign
from tests.end_to_end.command import good, holdfast, refused, said
from tests.report.reading import read
from tests.training.tiny import TEXT

RUN = "runs/tiny/seed-0"
SMALL = TEXT.replace("subset: 40", "subset: 40, test_subset: 40") + "evaluate: {block: 32, batch_size: 16}\n"
SMOOTHING = ["--method", "smoothing", "--sigma", "0.25", "--n", "128", "--alpha", "0.01"]
LABEL = "smoothing sigma=0.25 n=128 alpha=0.01"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")  # megabytes that these tests do not look at


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    (path / "tiny.yaml").write_text(SMALL)
    good("train", "tiny.yaml", "--set", "train.epochs=3", cwd=path)
    return path


@pytest.fixture
def place(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "here")
    return tmp_path / "here"


def rows_of(path, check):
    return Ledger(path / RUN / "ledger").read().filter(pl.col("check") == check)


def test_it_says_accuracy_abstentions_radius_curve_and_cost(place):
    found = said("certify", RUN, *SMOOTHING, "--radii", "0.25,0,1/8", cwd=place)
    rows = rows_of(place, LABEL)
    right = rows["correct"]
    assert (found["certificate"], found["norm"], found["smoothed"], found["weights"]) == (LABEL, "l2", True, "best")
    assert len(rows) == found["examples"] == 40
    assert found["network"]["accuracy"] == rows_of(place, "clean")["correct"].mean()
    assert found["certified"]["accuracy"] == right.mean()
    assert found["abstained"] == (rows["prediction"] == -1).sum()
    assert found["average_radius"]["mean"] == pytest.approx((rows["radius"] * right).mean())
    assert [point["radius"] for point in found["curve"]] == [0, 0.125, 0.25]
    for point in found["curve"]:
        assert point["accuracy"] == (right & (rows["radius"] >= point["radius"])).mean()
        assert point["low"] <= point["accuracy"] <= point["high"]
    assert found["samples"] == 100 + 128
    assert (found["refuted"], found["not_run"]) == ([], [])
    shown = good("certify", RUN, *SMOOTHING, cwd=place)
    summary, curve = re.findall(f"^ tiny/seed-0: {LABEL} .*", shown, re.MULTILINE)
    assert f"{100 * right.mean():.1f} %" in summary
    assert f"{found['average_radius']['mean']:.4g} in ℓ2" in summary
    assert f" {found['abstained']} " in summary
    assert curve.count("%") >= 4  # radii chosen for us
    assert f"tiny/seed-0: {LABEL}" in read(place / RUN / "report.html").words


def test_rows_are_those_of_the_certifier_itself(place):
    said("certify", RUN, *SMOOTHING, cwd=place)
    rows = rows_of(place, LABEL).head(16)  # a block
    index = torch.tensor(rows["example"].to_list())
    model, x = load_model(place / RUN).model.eval(), Digits()().test.batch(index)[0]
    again = GaussianSmoothing(sigma=0.25, n=128, alpha=0.01)(model, x, rng=Streams(0, "check", index))
    assert rows["prediction"].to_list() == again.prediction.tolist()
    assert rows["radius"].to_list() == pytest.approx(again.radius.tolist())


def test_repeated_it_resumes(place):
    first = said("certify", RUN, *SMOOTHING, cwd=place)
    parts = sorted((place / RUN / "ledger").glob("*.parquet"))
    kept = {part: part.stat().st_mtime_ns for part in parts}
    assert said("certify", RUN, *SMOOTHING, cwd=place) == first
    assert {part: part.stat().st_mtime_ns for part in parts} == kept
    rows = rows_of(place, LABEL)
    gone = [part for part in parts if pl.read_parquet(part)["method"][0] == "smoothing"][1]
    gone.unlink()
    assert said("certify", RUN, *SMOOTHING, cwd=place)["certified"] == first["certified"]
    assert rows_of(place, LABEL).drop("seconds").equals(rows.drop("seconds"))
    assert {part: part.stat().st_mtime_ns for part in parts if part != gone} == {
        part: time for part, time in kept.items() if part != gone
    }


def test_sampling_until_decided_is_told_the_radii(place):
    argv = ["--sampling", "decision", "--radii", "0,0.1", "--set", "sampling.decision.futility=0.1"]
    found = said("certify", RUN, *SMOOTHING, *argv, cwd=place)
    (params,) = set(rows_of(place, found["certificate"])["params"])
    assert json.loads(params)["sampling"] == {"decision": {"radii": [0.0, 0.1], "futility": 0.1}}
    assert found["samples"] < 228
    line = refused("certify", RUN, *SMOOTHING, "--sampling", "decision", cwd=place)
    assert "--sampling decision: expected --radii, which it decides about, such as 0,0.25,0.5" in line


def test_a_checkpoint_on_a_subset_and_a_foreign_network_get_runs_of_their_own(place):
    found = said("certify", f"{RUN}/best.safetensors", "--method", "margin", "--subset", "20", cwd=place)
    assert found["run"].startswith("runs/evaluations/best-")
    assert (found["weights"], found["examples"], found["smoothed"], found["samples"]) == ("given", 20, False, 1)
    write_npz(Digits()(), place / "digits.npz")
    torch.save(foreign.network().state_dict(), place / "w.pt")
    argv = ["--model", "python:tests.end_to_end.foreign:network", "--weights", "w.pt", "--data", "digits.npz"]
    more = ["--subset", "20", "--seed", "3", "--name", "mine", "--batch-size", "8"]
    found = said("certify", *argv, *SMOOTHING, *more, cwd=place)
    assert (found["run"], found["examples"]) == ("runs/mine", 20)
    assert set(Ledger(place / "runs/mine/ledger").read()["seed"]) == {3}


def test_a_refuted_certificate_ends_with_1_after_everything_is_saved(place):
    margin = ["certify", RUN, "--method", "margin", "--set", "constant=1e-3"]  # the true one is near 10
    assert said(*margin, cwd=place)["refuted"] == []
    attack = ["attack", RUN, "--attack", "pgd", "--norm", "l2", "--eps", "0.5", "--steps", "5"]
    for argv in (attack, margin):
        done = holdfast(*argv, "--json", cwd=place)
        assert done.code == 1
        assert done.err.count("\n") == 1
        assert "holdfast: error: tiny/seed-0 (best): 'margin constant=0.001' is refuted on" in done.err
        assert "but 'pgd l2 eps=0.5 steps=5' has another answer at 0." in done.err
    found = json.loads(done.out)
    lost = rows_of(place, "pgd l2 eps=0.5 steps=5").filter(~pl.col("correct") & rows_of(place, "clean")["correct"])
    assert sorted(one["example"] for one in found["refuted"]) == lost["example"].to_list()
    assert "are refuted: a check found another answer" in read(place / RUN / "report.html").words
    done = holdfast("evaluate", RUN, cwd=place)
    assert (done.code, "is refuted" in done.err, "report:" in done.out) == (1, True, True)


def test_a_recipe_may_certify(tmp_path):
    checks = (
        "checks: [clean, {margin: {norm: linf}}, {smoothing: {sigma: 0.25, n: 64, alpha: 0.05, sampling: fixed}}]\n"
    )
    (tmp_path / "tiny.yaml").write_text(SMALL + checks)
    found = said("run", "tiny.yaml", "--set", "train.epochs=1", cwd=tmp_path)["results"]
    names = {record["check"] for record in found if record["weights"] == "best"}
    assert {"clean", "margin norm=linf", "smoothing sigma=0.25 n=64 alpha=0.05"} == names  # no attack, no worst case
    assert "Certified accuracy of the network, ℓ∞" in read(tmp_path / "runs/tiny/report.html").words


def test_without_time_it_says_what_is_missing(place):
    good("certify", RUN, "--method", "margin", cwd=place)
    line = refused("certify", RUN, *SMOOTHING, "--budget", "0s", cwd=place)
    assert f"{RUN}: nothing was certified within the budget; allow more time" in line
    assert json.loads((place / RUN / "run.json").read_text())["not_run"]["best"] == {LABEL: 40}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--method", "smothing"], "--method: unknown name 'smothing'; known: "),
        (["--method", "smoothing"], "--method smoothing.sigma: expected a value; got nothing"),
        (["--method", "smoothing", "--sigma", "x"], "--method smoothing.sigma: expected a number or a fraction"),
        (["--method", "smoothing", "--sigma", "0.1", "--n", "3"], "--method smoothing: n must be at least 10"),
        (
            ["--method", "margin", "--sigma", "0.1"],
            "--method margin.sigma: unknown name 'sigma'; known: constant, norm.",
        ),
        (["--method", "margin", "--norm", "l3"], "--method margin.norm: expected 'l1', 'l2' or 'linf'; got 'l3'"),
        (["--method", "margin", "--set", "constant"], "--set: expected something like alpha=0.01; got 'constant'"),
        (["--method", "margin", "--radii", "0,x"], "--radii: expected a number or a fraction"),
        (["--method", "margin", "--radii", "-1"], "--radii: expected numbers from 0 on, such as 0,0.25,0.5; got '-1'"),
        (["--method", "margin", "--seed", "1"], "go with --model; got a RUN too"),
    ],
)
def test_bad_input_is_one_line(trained, argv, says):
    assert says in refused("certify", RUN, *argv, cwd=trained)
    assert not (trained / RUN / "ledger").exists()


def test_something_to_certify_is_needed(trained):
    line = refused("certify", "--method", "margin", cwd=trained)
    assert "certify: expected a RUN, or --model with --weights and --data; got neither; see --help" in line


def test_a_network_without_a_bound_is_refused_before_it_is_trained(tmp_path):
    (tmp_path / "tiny.yaml").write_text(SMALL + "checks: [clean, margin]\n")
    line = refused("run", "tiny.yaml", "--set", "model=vit-tiny", cwd=tmp_path)
    assert re.search("checks: Margin: lipschitz bound: layer .*LayerNorm", line)
    assert not list(tmp_path.rglob("*.safetensors"))
