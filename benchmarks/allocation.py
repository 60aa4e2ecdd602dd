"""What it costs that the C library gives large blocks back at once: `resnet10` of width 0.25, batches of 128 images.

`OMP_NUM_THREADS=1 python benchmarks/allocation.py`. The command line keeps freed memory (`cli/memory.py`); in Python it
is `MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=2147483647` in the environment. Each way has processes of its own, in
turns, and processor seconds are compared.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F

from holdfast.attacks import PGD
from holdfast.cli.memory import keep_freed_memory
from holdfast.models import MODELS, build
from holdfast.models.resnet import ResNet
from holdfast.threat import Linf

PROCESSES, ROUNDS = 5, 8


def works() -> dict[str, Callable[[], object]]:
    """A step of standard training, and an attack that nobody leaves early."""
    architecture = MODELS["resnet10"]
    assert isinstance(architecture, ResNet)
    model = build(replace(architecture, width=0.25), (3, 32, 32), 10)
    x, y = torch.rand(128, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(128) % 10
    optimizer, attack = torch.optim.SGD(model.parameters(), 1e-3), PGD(threat=Linf(4 / 255), steps=5, until_lost=False)

    def step() -> None:
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return {"training step": step, "PGD-5": lambda: attack(model.eval(), x, y)}


def measure() -> None:
    """Print median seconds of each work, and the most memory."""
    found = {}
    for name, work in works().items():
        taken = []
        for number in range(ROUNDS + 2):
            started = time.process_time()
            work()
            if number > 1:
                taken.append(time.process_time() - started)
        found[name] = statistics.median(taken)
    print(json.dumps({**found, "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


def main() -> None:
    """Print a table."""
    if "measure" in sys.argv:
        if "kept" in sys.argv:
            assert keep_freed_memory()
        measure()
        return
    found: dict[str, list[dict[str, float]]] = {"given back": [], "kept": []}
    for _ in range(PROCESSES):
        for way, seen in found.items():
            call = [sys.executable, __file__, "measure", way]
            seen.append(json.loads(subprocess.run(call, check=True, capture_output=True, text=True).stdout))
    print("| work | memory given back | memory kept | faster |\n|---|---:|---:|---:|")
    for name in found["kept"][0]:
        before, after = (statistics.median(one[name] for one in found[way]) for way in ("given back", "kept"))
        print(f"| {name} | {before:.3f} | {after:.3f} | {before / after:.2f} |")


if __name__ == "__main__":
    main()
