"""Killed or interrupted at any moment, a run that is repeated ends as if nothing had happened."""

import random
import signal

import pytest

from tests.end_to_end.command import Nursery, results

RECIPE = """
name: tiny
data: {source: digits, validation: 0.1, subset: 640, test_subset: 150, augment: [{random_crop: 1}]}
model: {cnn: {width: 0.5, feature_dim: null, norm: batch}}
train:
  epochs: 6
  batch_size: 16
  ema: 0.9
  optimizer: {sgd: {lr: 0.02}}
  selection: {metric: robust_accuracy, attack: {pgd: {threat: {linf: 0.1}, steps: 2}}}
checks:
  - clean
  - gaussian_noise: 0.2
  - pgd: {threat: {linf: 0.1}, steps: 10}
  - autoattack: {threat: {linf: 0.1}, steps: 6, targets: 3, queries: 40}
evaluate: {block: 100, batch_size: 64}
"""
COMMAND = ("run", "tiny.yaml")
RUN = "runs/tiny/seed-0"


@pytest.fixture(scope="module")
def nursery():
    nursery = Nursery()
    yield nursery
    nursery.close()


def directory(path):
    path.mkdir()
    (path / "tiny.yaml").write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def whole(nursery, tmp_path_factory):
    """The run that nobody interrupted: how long it took, what it left and what it printed."""
    path = directory(tmp_path_factory.mktemp("whole") / "here")
    done = nursery(*COMMAND, cwd=path)
    assert (done.code, done.err) == (0, "")
    return done, results(path / RUN)


KILLS = [round(random.Random(7).uniform(n / 5, (n + 1) / 5), 3) for n in range(5)]


@pytest.mark.parametrize("share", [*KILLS[1::2], *(pytest.param(one, marks=pytest.mark.slow) for one in KILLS[::2])])
def test_killed_at_any_moment_the_repeated_run_ends_with_the_same_bits(nursery, whole, tmp_path, share):
    uninterrupted, expected = whole
    path = directory(tmp_path / "here")
    killed = nursery(*COMMAND, cwd=path, number=signal.SIGKILL, after=share * uninterrupted.seconds)
    assert killed.code in (-signal.SIGKILL, 0)  # 0 where it was faster than the first time
    again = nursery(*COMMAND, cwd=path)
    assert (again.code, again.err) == (0, "")
    assert again.out == uninterrupted.out
    assert results(path / RUN) == expected


def test_killed_again_and_again_it_still_ends_with_the_same_bits(nursery, whole, tmp_path):
    uninterrupted, expected = whole
    path, kills = directory(tmp_path / "here"), 0
    while (done := nursery(*COMMAND, cwd=path, after=(1 + kills) / 4 * uninterrupted.seconds)).code != 0:
        assert done.code == -signal.SIGKILL
        kills += 1
        assert kills < 12
    assert kills
    assert results(path / RUN) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "kill"])
@pytest.mark.parametrize(
    "until", ["runs/**/metrics.jsonl", "runs/**/*.parquet"], ids=["while training", "while checking"]
)
def test_interrupted_it_says_how_to_resume_and_resumes_to_the_same_bits(nursery, whole, tmp_path, number, until):
    uninterrupted, expected = whole
    path = directory(tmp_path / "here")
    stopped = nursery(*COMMAND, cwd=path, number=number, until=until)
    assert stopped.sent
    assert stopped.code == 130
    assert stopped.err == "holdfast: interrupted; everything done is saved, repeat the same command to resume\n"
    assert stopped.out == ""
    again = nursery(*COMMAND, cwd=path)
    assert (again.code, again.err, again.out) == (0, "", uninterrupted.out)
    assert results(path / RUN) == expected


def test_no_temporary_file_stays_behind(nursery, whole, tmp_path):
    path = directory(tmp_path / "here")
    nursery(*COMMAND, cwd=path, number=signal.SIGINT, until="runs/**/*.parquet")
    assert not [file for file in path.rglob("*") if file.name.endswith((".tmp", ".part"))]
