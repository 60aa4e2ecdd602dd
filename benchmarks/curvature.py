"""What curvature costs beside bare gradients, and how much memory it takes on few and on many images.

Run with one thread: `OMP_NUM_THREADS=1 python benchmarks/curvature.py [width]`. `width` scales the channels of
`resnet10`. Rounds are interleaved and processor seconds are compared. Memory is the most that a process of its own had
while it measured 64, 256 or 1024 CIFAR-sized images in batches of 64.
"""

from __future__ import annotations

import dataclasses
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from holdfast.data import Split
from holdfast.gradients import expansion, input_gradient
from holdfast.losses import cross_entropy
from holdfast.models import MODELS
from holdfast.questions.answers import AnswerKey, Store
from holdfast.questions.asking import BLOCK, Inquiry, ask, digest_of
from holdfast.questions.curvature import Curvature
from holdfast.questions.curvature.eigenvalue import largest_eigenvalue
from holdfast.questions.curvature.measurement import curvature_of, input_curvature
from holdfast.rng import Streams

BATCH, DRAWS, STEPS, ROUNDS = 64, 20, 10, 7
COUNTS = (64, 256, 1024)
GOAL = 1.1


def network(width: float) -> torch.nn.Module:
    """A small residual network for CIFAR-sized images."""
    torch.manual_seed(0)
    architecture: Any = MODELS["resnet10"]
    made: torch.nn.Module = dataclasses.replace(architecture, width=width)((3, 32, 32), 10)
    return made.eval()


def seconds(work: Callable[[], Any]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def cost(width: float) -> None:
    """Measure in turns and print."""
    model, x, y = network(width), torch.rand(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))
    rng = Streams(0, "", BATCH)

    def bare() -> None:
        for _ in range(DRAWS + 1):
            input_gradient(cross_entropy, model, x, y)

    def both() -> None:
        around = expansion(cross_entropy, model, x, y, step=1e-2)
        curvature_of(around, draws=DRAWS, rng=rng)
        largest_eigenvalue(around, steps=STEPS, rng=rng)

    works: dict[str, Callable[[], Any]] = {
        f"{DRAWS + 1} gradients": bare,
        f"curvature, {DRAWS} differences": lambda: input_curvature(model, x, y, draws=DRAWS, rng=rng),
        f"curvature, {DRAWS} exact products": lambda: input_curvature(model, x, y, draws=DRAWS, step=None, rng=rng),
        f"{DRAWS} differences and {STEPS} Lanczos steps": both,
    }
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            times[name].append(seconds(work))
    first, second, *_ = times
    print(f"resnet10, width {width:g}, batch of {BATCH}, medians of {ROUNDS} rounds")
    print("| work | seconds | over the gradients |\n|---|---:|---:|")
    for name, taken in times.items():
        ratio = statistics.median(a / b for a, b in zip(taken, times[first], strict=True))
        print(f"| {name} | {statistics.median(taken):.2f} | {ratio:.3f} |")
    found = statistics.median(a / b for a, b in zip(times[second], times[first], strict=True))
    print(f"goal of the curvature: at most {GOAL} times {DRAWS + 1} gradients; measured {found:.3f}")


def held(count: int) -> None:
    """Measure the curvature of random images and print the most memory that the process had."""
    model = network(0.25)
    x = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8)
    split = Split(x, torch.arange(count) % 10, torch.arange(count))
    key = AnswerKey(
        question="curvature", settings={}, weights="given", weights_hash="", seed=0, examples=count,
        images=digest_of(split), block=BLOCK,
    )  # fmt: skip
    inquiry = Inquiry(
        measurement=Curvature(draws=4, lanczos=0, copies=1), key=key, model=model, run="model", split=split,
        where=torch.empty(0), batch_size=BATCH,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        for _ in ask(inquiry, Store(Path(place))):
            pass
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {count} | {megabytes:.0f} | {x.numel() * 4 / 2**20:.0f} |", flush=True)


def main() -> None:
    """Cost in this process, memory for each count in a process of its own."""
    cost(float(sys.argv[1]) if len(sys.argv) > 1 else 0.25)
    print("| images | most memory, MB | the images as float32, MB |\n|---:|---:|---:|", flush=True)
    for count in COUNTS:
        subprocess.run([sys.executable, __file__, "--held", str(count)], check=True)


if __name__ == "__main__":
    held(int(sys.argv[2])) if sys.argv[1:2] == ["--held"] else main()
