"""Whole commands: from a recipe to results, foreign networks, and what goes to stdout."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import save_file

from holdfast.data import Digits, Npz, write_npz
from holdfast.results import Ledger
from tests.end_to_end import foreign
from tests.end_to_end.command import good, holdfast, results
from tests.training.tiny import TEXT

RUN = "runs/tiny/seed-0"
CHECKS = "checks: [clean, {gaussian_noise: 0.2}, {fgsm: {threat: {linf: 0.1}}}]\nevaluate: {block: 250}\n"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished")
    (path / "tiny.yaml").write_text(TEXT + CHECKS)
    return path, good("run", "tiny.yaml", cwd=path)


@pytest.fixture
def place(finished, tmp_path):
    """A directory of one's own with the finished run in it."""
    shutil.copytree(finished[0], tmp_path / "here")
    return tmp_path / "here"


def state(path):
    """Names and times of all files but the report, which is written again."""
    return {file: file.stat().st_mtime_ns for file in path.rglob("*") if file.suffix in (".parquet", ".safetensors")}


def test_a_run_leaves_all_its_files_and_shows_a_table(finished):
    path, out = finished
    names = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    fixed = {f"{RUN}/{name}" for name in ("recipe.yaml", "run.json", "metrics.jsonl", "state.pt", "last.safetensors")}
    assert fixed <= names
    assert "runs/tiny/report.html" in names
    assert sum(name.endswith(".parquet") for name in names) % 6 == 0  # three checks on two blocks
    rows = Ledger(path / RUN / "ledger").read()
    assert rows.filter(pl.col("weights") == "best").group_by("check").len()["len"].to_list() == [500] * 3
    for check in ("clean", "gaussian_noise sigma=0.2", "fgsm linf eps=0.1", "worst case, linf eps=0.1"):
        assert check in out
    assert "report: runs/tiny/report.html" in out


def test_repeated_it_does_nothing_new_and_prints_the_same(finished, place):
    before, files = results(place / RUN), state(place)
    assert good("run", "tiny.yaml", cwd=place) == finished[1]
    assert state(place) == files
    assert results(place / RUN) == before


def test_fresh_starts_over_to_the_same_results(finished, place):
    before, files = results(place / RUN), state(place)
    assert good("run", "tiny.yaml", "--fresh", cwd=place) == finished[1]
    assert not set(files.items()) & set(state(place).items())
    assert results(place / RUN) == before


def test_train_then_evaluate_is_run(finished, tmp_path):
    shutil.copy(finished[0] / "tiny.yaml", tmp_path)
    good("train", "tiny.yaml", cwd=tmp_path)
    assert not (tmp_path / RUN / "ledger").exists()
    good("evaluate", RUN, cwd=tmp_path)
    assert results(tmp_path / RUN) == results(finished[0] / RUN)


def test_results_of_weights_that_training_replaced_are_not_counted(finished, tmp_path):
    """Checked in the middle of training, resumed, checked again: the ledger holds the final weights only."""
    recipe = (finished[0] / "tiny.yaml").read_text()
    (tmp_path / "tiny.yaml").write_text(recipe)
    from holdfast.recipe import load_recipes
    from holdfast.runs import Run
    from tests.training.tiny import train

    (of,) = load_recipes(tmp_path / "tiny.yaml")
    Run(tmp_path / RUN).claim(of)
    train(of, tmp_path / RUN, records=4)
    good("evaluate", RUN, cwd=tmp_path)
    good("run", "tiny.yaml", cwd=tmp_path)
    assert results(tmp_path / RUN) == results(finished[0] / RUN)


def test_new_checks_are_added_and_old_ones_not_repeated(place):
    files = state(place)
    checks = "checks=[clean, {gaussian_noise: 0.2}, {fgsm: {threat: {linf: 0.1}}}, {uniform_noise: 0.1}]"
    assert "uniform_noise eps=0.1" in good("run", "tiny.yaml", "--set", checks, cwd=place)
    assert set(files.items()) < set(state(place).items())


def test_another_recipe_does_not_take_over_the_directory(place):
    done = holdfast("run", "tiny.yaml", "--set", "train.epochs=3", cwd=place)
    assert done.code == 2
    assert "differs in train.epochs" in done.err


@pytest.mark.parametrize(
    "argv",
    [
        ["run", "tiny.yaml", "--json"],
        ["train", "tiny.yaml", "--json"],
        ["evaluate", RUN, "--json"],
        ["evaluate", f"{RUN}/last.safetensors", "--subset", "20", "--checks", "quick", "--json"],
        ["report", RUN, "--json"],
        ["show", "tiny.yaml", "--json"],
        ["show", RUN, "--json"],
        ["list", "--json"],
        ["list", "models", "--json"],
        ["schema"],
        ["data", "info", "digits", "--json"],
    ],
    ids=" ".join,
)
def test_json_is_json_and_nothing_else(place, argv):
    out = good(*argv, cwd=place)
    assert json.loads(out)
    assert out.count("\n") == 1 or argv[0] in ("schema", "data")


def test_json_has_the_numbers_of_the_table(place):
    said = json.loads(good("run", "tiny.yaml", "--json", cwd=place))
    rows = Ledger(place / RUN / "ledger").read()
    for record in said["results"]:
        if not record["threat"]:
            part = rows.filter((pl.col("check") == record["check"]) & (pl.col("weights") == record["weights"]))
            assert (record["examples"], record["correct"]) == (len(part), part["correct"].sum())


def test_two_runs_of_one_name_are_told_apart(finished, place):
    shutil.copytree(place / "runs", place / "more")
    said = json.loads(good("compare", RUN, "more/tiny/seed-0", "--json", cwd=place))
    assert {record["examples"] for record in said["results"]} == {500}
    assert {str(record["difference"]) for record in said["paired"]} == {"0.0"}
    shown = good("compare", RUN, "more/tiny/seed-0", cwd=place)
    assert "= 0.0" in shown
    assert "-0.0" not in shown


def piped(*argv, cwd):
    """The command in a process of its own, its output piped."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *argv], cwd=cwd, capture_output=True, text=True, env=environment
    )


def test_piped_output_has_no_colours_or_progress(finished, place):
    done = piped("run", "tiny.yaml", "--out", "elsewhere", cwd=place)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout == finished[1].replace("runs/", "elsewhere/")


def test_an_error_in_a_process_of_its_own_is_one_line_and_exit_code_2(tmp_path):
    done = piped("run", "missing.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "holdfast: missing.yaml: expected a recipe in YAML; No such file or directory\n"


def test_a_closed_pipe_is_no_traceback(tmp_path):
    command = f"{sys.executable} -m holdfast schema | head -c 10"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """Digits in an archive, and the weights of a foreign network in every wrapping."""
    path = tmp_path_factory.mktemp("stranger")
    write_npz(Digits()(), path / "digits.npz")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        weights = foreign.network().state_dict()
    save_file(weights, path / "bare.safetensors")
    torch.save(weights, path / "bare.pt")
    torch.save({"state_dict": weights, "epoch": 3}, path / "nested.pth")
    torch.save({"model": {f"module.{name}": tensor for name, tensor in weights.items()}}, path / "parallel.ckpt")
    torch.save({f"_orig_mod.{name}": tensor for name, tensor in weights.items()}, path / "compiled.pt")
    return path


def evaluated(stranger, cwd, *more, weights="bare.safetensors", model="python:tests.end_to_end.foreign:network"):
    said = good(
        "evaluate",
        "--model",
        model,
        "--weights",
        stranger / weights,
        "--data",
        stranger / "digits.npz",
        "--json",
        *more,
        cwd=cwd,
    )
    return json.loads(said)


def test_a_foreign_network_is_evaluated_from_any_wrapping_of_its_weights(stranger, tmp_path):
    found = {
        weights: evaluated(stranger, tmp_path, "--subset", "60", weights=weights)
        for weights in ("bare.safetensors", "bare.pt", "nested.pth", "parallel.ckpt", "compiled.pt")
    }
    numbers = [
        [{k: v for k, v in record.items() if k != "run"} for record in said["results"]] for said in found.values()
    ]
    assert all(one == numbers[0] for one in numbers)
    model = foreign.network()
    model.load_state_dict(torch.load(stranger / "bare.pt", weights_only=True))
    rows = Ledger(tmp_path / found["bare.pt"]["run"] / "ledger").read().filter(pl.col("check") == "clean")
    data = Npz(path=str(stranger / "digits.npz"))().test
    with torch.no_grad():
        expected = model(data.batch(torch.tensor(rows["example"].to_list()))[0]).argmax(1)
    assert rows["prediction"].to_list() == expected.tolist()
    assert len(rows) == 60


def test_mean_and_std_go_in_front(stranger, tmp_path):
    shifted = evaluated(stranger, tmp_path, "--subset", "60", "--mean", "0.5", "--std", "0.25", "--name", "shifted")
    rows = Ledger(tmp_path / shifted["run"] / "ledger").read().filter(pl.col("check") == "clean")
    model = foreign.network()
    model.load_state_dict(torch.load(stranger / "bare.pt", weights_only=True))
    x, _ = Npz(path=str(stranger / "digits.npz"))().test.batch(torch.tensor(rows["example"].to_list()))
    with torch.no_grad():
        assert rows["prediction"].to_list() == model((x - 0.5) / 0.25).argmax(1).tolist()


def test_a_repeated_evaluation_resumes_and_another_subset_seed_or_weights_is_refused(stranger, tmp_path):
    first = evaluated(stranger, tmp_path, "--subset", "60", "--name", "mine")
    files = state(tmp_path)
    assert evaluated(stranger, tmp_path, "--subset", "60", "--name", "mine") == first
    assert state(tmp_path) == files
    base = ["evaluate", "--model", "python:tests.end_to_end.foreign:network", "--name", "mine"]
    data = ["--data", stranger / "digits.npz", "--weights", stranger / "bare.pt"]
    for more, what in (
        (["--subset", "70"], "test images (60, not 70)"),
        ([], "test images (60, not 500)"),
        (["--subset", "60", "--seed", "1"], "seed (0, not 1)"),
        (["--subset", "60", "--batch-size", "300"], "block (256, not 300)"),
        (["--subset", "60", "--std", "0.5"], "weights ("),
    ):
        done = holdfast(*base, *data, *more, cwd=tmp_path)
        assert done.code == 2
        assert f"mine: holds results of other {what}" in done.err
    assert state(tmp_path) == files


def test_other_data_under_the_same_name_is_refused(stranger, tmp_path):
    shutil.copy(stranger / "digits.npz", tmp_path / "d.npz")
    argv = ["evaluate", "--model", "python:tests.end_to_end.foreign:network", "--data", "d.npz", "--subset", "20"]
    argv += ["--weights", stranger / "bare.pt"]
    good(*argv, cwd=tmp_path)
    with np.load(tmp_path / "d.npz") as arrays:
        changed = {**arrays, "x_test": 1 - arrays["x_test"]}
    np.savez(tmp_path / "d.npz", **changed)
    done = holdfast(*argv, cwd=tmp_path)
    assert done.code == 2
    assert "holds results of other data" in done.err


def test_weights_by_holdfast_are_evaluated_on_other_data_in_a_run_of_their_own(stranger, place):
    files = state(place)
    said = json.loads(good("evaluate", RUN, "--data", stranger / "digits.npz", "--subset", "30", "--json", cwd=place))
    assert said["run"].startswith("runs/evaluations/seed-0-")
    assert {record["examples"] for record in said["results"]} == {30}
    more = json.loads(good("evaluate", RUN, "--data", stranger / "digits.npz", "--subset", "40", "--json", cwd=place))
    assert {record["examples"] for record in more["results"]} == {40}
    assert files.items() <= state(place).items()


def test_help_is_there_for_every_verb(tmp_path):
    assert "Usage" in good(cwd=tmp_path)
    for verb in ("run", "train", "evaluate", "attack", "audit", "report", "compare", "list", "show", "schema", "data"):
        assert "Usage" in good(verb, "--help", cwd=tmp_path)
