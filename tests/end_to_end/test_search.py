"""`holdfast search` as a user runs it: killed, continued by several workers, and read back."""

import errno
import json
import os
import queue
import signal
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import yaml

from holdfast.cli.workers import _worker
from holdfast.recipe import load_recipes
from tests.end_to_end.command import Nursery, good, refused, said
from tests.report.reading import read

RECIPE = """
name: tiny
data: {source: digits, validation: 0.2, subset: 200, test_subset: 50}
model: {mlp: {hidden: [8]}}
train:
  epochs: 6
  batch_size: 16
  optimizer: {sgd: {lr: {search: log, low: 0.01, high: 1}, momentum: 0.9}}
checks: [clean]
search: {trials: 5, sampler: random, pruner: none}
"""
COMMAND = ("search", "tiny.yaml", "--json")


@pytest.fixture(scope="module")
def nursery():
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def second():
    nursery = Nursery()
    yield nursery
    nursery.close()


def directory(path, recipe=RECIPE):
    path.mkdir()
    (path / "tiny.yaml").write_text(recipe)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The search that nobody interrupted."""
    path = directory(tmp_path_factory.mktemp("whole") / "here")
    return path, said("search", "tiny.yaml", cwd=path)


def trials(record):
    """All but the times."""
    return [{key: value for key, value in trial.items() if key != "seconds"} for trial in record["trials"]]


def test_finds_the_best_trial_and_writes_it_as_a_recipe_that_runs(whole):
    path, record = whole
    assert [trial["state"] for trial in record["trials"]] == ["complete"] * 5
    (best,) = record["best"]
    assert record["trials"][best]["values"][0] == max(trial["values"][0] for trial in record["trials"])
    assert record["recipes"] == ["runs/tiny/best.yaml"]
    (recipe,) = load_recipes(path / "runs/tiny/best.yaml")
    assert recipe.train.optimizer.lr == record["trials"][best]["parameters"]["train.optimizer.sgd.lr"]
    run = said("run", "runs/tiny/best.yaml", "--set", "train.epochs=1", cwd=path)
    assert run["runs"] == ["runs/tiny-best/seed-0"]
    page = read(path / record["report"])
    assert len(page.table("Trials by number")) == 6  # with its head


def test_says_the_same_to_people(whole):
    path, record = whole
    out = good("search", "tiny.yaml", cwd=path)  # nothing is left to do
    assert "Best 5 of 5 trials" in out
    assert "5 trials: 5 complete" in out
    assert "recipe: runs/tiny/best.yaml" in out
    assert trials(said("search", "tiny.yaml", cwd=path)) == trials(record)


@pytest.mark.slow
def test_killed_and_continued_by_two_commands_every_trial_is_accounted_for(nursery, second, whole, tmp_path):
    path = directory(tmp_path / "here")
    killed = nursery(*COMMAND, cwd=path, number=signal.SIGKILL, until="runs/tiny/trials/0001/metrics.jsonl")
    assert killed.code == -signal.SIGKILL
    with ThreadPoolExecutor() as pool:  # two processes that know nothing of each other
        (path / "other").mkdir()
        out = ("--out", "../runs")
        other = pool.submit(second, "search", "../tiny.yaml", "--json", *out, cwd=path / "other")
        again = nursery(*COMMAND, cwd=path)
    for done in (again, other.result()):
        assert (done.code, done.err) == (0, "")
        assert trials(json.loads(done.out)) == trials(whole[1])  # random values, nothing pruned: in whatever order
    assert sorted(p.name for p in (path / "runs/tiny/trials").iterdir()) == [f"{n:04d}" for n in range(5)]
    for number in range(5):
        assert load_recipes(path / f"runs/tiny/trials/{number:04d}/recipe.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("until", ["runs/tiny/search.journal", "runs/tiny/trials/0002/metrics.jsonl"])
def test_killed_and_continued_it_ends_as_if_nothing_had_happened(nursery, whole, tmp_path, until):
    path = directory(tmp_path / "here")
    killed = nursery(*COMMAND, cwd=path, number=signal.SIGKILL, until=until)
    assert killed.code == -signal.SIGKILL
    again = nursery(*COMMAND, cwd=path)
    assert (again.code, again.err) == (0, "")
    assert trials(json.loads(again.out)) == trials(whole[1])


@pytest.mark.slow
def test_killed_and_continued_by_two_workers_every_trial_is_accounted_for(nursery, whole, tmp_path):
    path = directory(tmp_path / "here")
    killed = nursery(*COMMAND, cwd=path, number=signal.SIGKILL, until="runs/tiny/trials/0001/metrics.jsonl")
    assert killed.code == -signal.SIGKILL
    again = nursery(*COMMAND, "--workers", "2", cwd=path)
    assert (again.code, again.err) == (0, "")
    record = json.loads(again.out)
    assert trials(record) == trials(whole[1])


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)], ids=["ctrl-c", "kill"]
)
def test_interrupted_it_says_how_to_resume_and_resumes(nursery, whole, tmp_path, number):
    path = directory(tmp_path / "here")
    stopped = nursery(*COMMAND, cwd=path, number=number, until="runs/tiny/trials/0001/metrics.jsonl")
    assert stopped.code == 130
    assert stopped.err == "holdfast: interrupted; everything done is saved, repeat the same command to resume\n"
    assert stopped.out == ""
    again = nursery(*COMMAND, cwd=path)
    assert (again.code, again.err) == (0, "")
    assert trials(json.loads(again.out)) == trials(whole[1])


@pytest.mark.slow
def test_interrupted_workers_stop_and_leave_their_trials_to_be_resumed(nursery, whole, tmp_path):
    path = directory(tmp_path / "here")
    two = (*COMMAND, "--workers", "2")
    stopped = nursery(*two, cwd=path, number=signal.SIGINT, until="runs/tiny/trials/0001/metrics.jsonl")
    assert (stopped.code, stopped.out) == (130, "")
    again = nursery(*two, cwd=path)
    assert (again.code, again.err) == (0, "")
    assert trials(json.loads(again.out)) == trials(whole[1])


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(nursery, whole, tmp_path):
    path = directory(tmp_path / "here")
    nursery(*COMMAND, "--workers", "2", cwd=path, number=signal.SIGKILL, until="runs/tiny/trials/0001/metrics.jsonl")
    again = nursery(*COMMAND, cwd=path)  # while they may still be about to notice
    assert (again.code, again.err) == (0, "")
    assert trials(json.loads(again.out)) == trials(whole[1])


def test_several_objectives_leave_a_recipe_for_each_trial_of_the_front(tmp_path):
    objective = "search.objective=[accuracy, {checks: [{gaussian_noise: 0.3}]}]"
    path = directory(tmp_path / "here", RECIPE.replace("pruner: none", "seed: 1"))
    record = said("search", "tiny.yaml", "--set", objective, "--set", "train.epochs=1", cwd=path)
    assert record["best"]
    assert record["recipes"] == [f"runs/tiny/pareto/{number:04d}.yaml" for number in record["best"]]
    assert "Pareto front" in good("search", "tiny.yaml", "--set", objective, "--set", "train.epochs=1", cwd=path)


def test_fresh_starts_over(tmp_path):
    path = directory(tmp_path / "here")
    short = ("--set", "train.epochs=1", "--set", "search.trials=1")
    said("search", "tiny.yaml", *short, cwd=path)
    assert "holds a search of another recipe (differs in train.epochs)" in refused(
        "search", "tiny.yaml", "--set", "train.epochs=2", cwd=path
    )
    record = said("search", "tiny.yaml", *short, "--set", "train.epochs=2", "--fresh", cwd=path)
    assert record["trials"][0]["epochs"] == 2


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("low: 0.01", "low: 0", "tiny.yaml:8: train.optimizer.sgd.lr: low must be positive in a log range"),
        ("trials: 5", "trials: 0", "tiny.yaml:10: search: trials and startup must be at least 1"),
        ("sampler: random", "sampler: bayes", "tiny.yaml:10: search.sampler: expected 'tpe', 'random' or 'grid'"),
        ("name: tiny", "name: [", "expected YAML"),
    ],
)
def test_bad_input_is_one_line(tmp_path, old, new, expected):
    path = directory(tmp_path / "here", RECIPE.replace(old, new))
    assert expected in refused("search", "tiny.yaml", cwd=path)
    assert not (path / "runs").exists()


def test_a_range_is_for_search_alone(tmp_path):
    ranges = {key: value for key, value in yaml.safe_load(RECIPE).items() if key != "search"}
    path = directory(tmp_path / "here", yaml.safe_dump(ranges, sort_keys=False))
    line = refused("run", "tiny.yaml", cwd=path)
    assert "train.optimizer.sgd.lr: expected a number or a fraction such as 8/255; got {'search': 'log'" in line
    assert "tiny.yaml:" in line


def test_when_every_trial_fails_the_first_reason_is_given(tmp_path):
    path = directory(tmp_path / "here", RECIPE.replace("low: 0.01, high: 1", "low: 1.0e+29, high: 1.0e+30"))
    line = refused("search", "tiny.yaml", "--set", "search.trials=2", cwd=path)
    assert "no trial of 2 was completed; the first failed with: tiny/trials/0000: step" in line


def test_a_full_disk_under_a_worker_is_one_line_for_the_process_that_began_it():
    def records():
        yield None
        raise OSError(errno.ENOSPC, "No space left on device", "runs/a")

    problems, before = queue.SimpleQueue(), signal.getsignal(signal.SIGTERM)
    try:
        _worker(SimpleNamespace(records=records), os.getppid(), problems)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert problems.get_nowait() == "runs/a: No space left on device; free some space"
