"""Training on two devices: one run, one voice, and weights like those of one device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from holdfast.models import read_state
from tests.training.tiny import metrics

pytestmark = pytest.mark.distributed

RECIPE = """
name: two
data: {source: digits, validation: 0.1, subset: 64, test_subset: 50}
model: {mlp: {hidden: [8]}}
train: {epochs: 2, batch_size: 16, optimizer: {sgd: {lr: 0.05}}}
checks: [clean, {gaussian_noise: 0.1}]
"""
OBJECTIVES = {
    "standard": "standard",
    "adversarial": "{adversarial: {pgd: {threat: {linf: 0.1}, steps: 2, until_lost: false}}}",
    "trades": "{trades: {threat: {linf: 0.1}, steps: 2}}",
    "mma": "{mma: {threat: {linf: 0.2}, steps: 2, least: 0.05}}",
    "awp": "{awp: {objective: {adversarial: {fgsm: {linf: 0.1}}}, gamma: 0.01}}",
    "stability": "stability",
    "center": "{center: {weight: 0.1}}",
    "large_margin": "{large_margin: {annealing: {base: 1}}}",
}


def run(path, *overrides):
    sets = [word for override in overrides for word in ("--set", override)]
    # A port of the test's own, so that two of them can run at once.
    own = {"MASTER_PORT": str(20000 + os.getpid() % 20000), "PYTHONPATH": str(Path(__file__).parents[2])}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **own}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "run", "two.yaml", "--fresh", *sets],
        cwd=path, env=environment, capture_output=True, text=True, timeout=200,
    )  # fmt: skip


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_two_processes_end_close_to_one_and_speak_once(tmp_path, objective):
    found = {}
    for devices in (1, 2):
        path = tmp_path / str(devices)
        path.mkdir()
        (path / "two.yaml").write_text(RECIPE)
        fabric = f"train.fabric={{accelerator: cpu, devices: {devices}, strategy: {'ddp' if devices > 1 else 'auto'}}}"
        # Two runs in a row: the second must find its helpers again.
        done = run(path, fabric, f"train.objective={objective}", "seeds=[0, 1]")
        assert done.returncode == 0, done.stderr
        assert "holdfast:" not in done.stderr
        assert done.stdout.count("report: runs/two/report.html") == 1
        found[devices] = path / "runs" / "two"
    for seed in (0, 1):
        one, two = (read_state(found[devices] / f"seed-{seed}" / "last.safetensors") for devices in (1, 2))
        for name, tensor in one.items():
            torch.testing.assert_close(two[name], tensor, rtol=1e-4, atol=1e-5)
        one, two = (metrics(found[devices] / f"seed-{seed}") for devices in (1, 2))
        assert [line["validation"]["accuracy"] for line in one] == [line["validation"]["accuracy"] for line in two]


def test_two_processes_train_a_policy_though_their_attacks_differ_in_length(tmp_path):
    """Each has its own images, whose random numbers of steps end at different times."""
    (tmp_path / "two.yaml").write_text(RECIPE)
    done = run(
        tmp_path,
        "model={python: 'tests.training.tiny:adaptive'}",
        "train.objective={policy: {threat: {linf: 0.1}, steps: 6, strengths: [0, 1, .inf]}}",
        "train.fabric={accelerator: cpu, devices: 2, strategy: ddp}",
    )
    assert done.returncode == 0, done.stderr
    losses = [line["train"]["total"] for line in metrics(tmp_path / "runs/two/seed-0")]
    assert len(losses) == 2
