"""Commands that run out of memory continue with fewer images, say so once, or end with one line."""

import pytest

from holdfast.results import Ledger
from tests.cramped import cramp, on_a_gpu
from tests.end_to_end.command import good, holdfast, refused
from tests.end_to_end.test_budget import RECIPE

CHECKS = "checks=[clean, {pgd: {threat: {linf: 0.1}, steps: 3}}, {smoothing: {sigma: 0.2, n: 100, n0: 10}}]"
COMMAND = ["run", "short.yaml", "--set", CHECKS, "--set", "train.epochs=1", "--set", "evaluate.batch_size=64"]
RUN = "runs/short/seed-0"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("holdfast.show.page.plotly_script", lambda: "")  # megabytes that these tests do not look at


@pytest.fixture
def here(tmp_path):
    (tmp_path / "short.yaml").write_text(RECIPE)
    return tmp_path


def test_a_run_goes_on_and_says_so_once(here, monkeypatch):
    good(*COMMAND, "--out", "plenty", cwd=here)
    cramp(monkeypatch, lambda network, x: not network.training and len(x) > 10, on_a_gpu)
    done = holdfast(*COMMAND, "--out", "cramped", cwd=here)
    line = "short/seed-0 (last): out of memory with 64 images at once: continues with 8, with the same results"
    assert (done.code, done.err.splitlines()) == (0, [line])
    one, other = (Ledger(here / out / "short/seed-0/ledger").read() for out in ("plenty", "cramped"))
    names = ["check", "example", "prediction", "queries"]
    assert one.select(names).equals(other.select(names))


def test_a_question_goes_on_and_says_so_once(here, monkeypatch):
    good("train", "short.yaml", "--set", "train.epochs=1", cwd=here)
    cramp(monkeypatch, lambda network, x: len(x) > 20, on_a_gpu)
    done = holdfast("analyse", "gradient-norm", RUN, cwd=here)
    line = "gradient-norm short/seed-0: out of memory with 64 images at once: continues with 16, with the same results"
    assert (done.code, done.err.splitlines()) == (0, [line])


def test_a_network_that_fits_no_image_is_one_line(here, monkeypatch):
    good("train", "short.yaml", "--set", "train.epochs=1", cwd=here)
    calls = []
    cramp(monkeypatch, lambda network, x: calls.append(x) or len(calls) > 3, on_a_gpu)
    assert "out of memory with a single image (CUDA out of memory" in refused("evaluate", RUN, cwd=here)


def test_training_that_does_not_fit_is_one_line(here, monkeypatch):
    cramp(monkeypatch, lambda network, x: network.training and len(x) > 16, on_a_gpu)
    line = refused("train", "short.yaml", cwd=here)
    assert "short/seed-0: step 1 (epoch 1): out of memory with a batch of 32 images" in line
    assert "--set train.batch_size=16 --fresh" in line
    assert good("train", "short.yaml", "--set", "train.batch_size=16", "--set", "train.epochs=1", "--fresh", cwd=here)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA error: out of memory\nCompile with ...")])
def test_memory_that_runs_out_anywhere_else_is_one_line(here, monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("holdfast.conduct.runs.prepared_images", fail)
    assert refused("run", "short.yaml", cwd=here).startswith("holdfast: out of memory: free some, or take fewer")
