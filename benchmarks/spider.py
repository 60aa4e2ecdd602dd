"""What augmentations cost beside a training step of `resnet10` on batches of 128 CIFAR-sized images.

Run with one thread: `OMP_NUM_THREADS=1 python benchmarks/spider.py [width]`. `width` scales the network's channels; the
narrower it is, the larger the share of an augmentation. Rounds are interleaved and processor seconds are compared.
The last rows are SPIDER's rescaling by Newton's steps, as used, and by a sort of the knots.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.augment import AUGMENTATIONS, augmented
from holdfast.models import MODELS
from holdfast.rng import Streams
from holdfast.threat.l2 import rescale

BATCH, CLASSES, STEPS, ROUNDS = 128, 10, 3, 15
GOAL = 0.15


def seconds(work: Callable[[], Any]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """One step of training."""
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def main() -> None:
    """Measure in turns and print."""
    torch.manual_seed(0)
    width = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    x, y = torch.rand(BATCH, 3, 32, 32), torch.randint(CLASSES, (BATCH,))
    architecture: Any = MODELS["resnet10"]
    model = dataclasses.replace(architecture, width=width)((3, 32, 32), CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    direction, radius = torch.randn_like(x), 5 * torch.rand(BATCH)

    def applied(name: str) -> Callable[[], Any]:
        return lambda: augmented(AUGMENTATIONS[name], x, y, classes=CLASSES, rng=Streams(0, "", BATCH))

    works: dict[str, Callable[[], Any]] = {name: applied(name) for name in AUGMENTATIONS}
    works["rescale"] = lambda: rescale(x, direction, radius)
    for warm in (*works.values(), lambda: step(model, optimizer, x, y)):
        warm()
    times: dict[str, list[float]] = {name: [] for name in works}
    steps = []
    for turn in range(ROUNDS):
        for name, work in works.items():
            times[name].append(seconds(work))
        if turn % (ROUNDS // STEPS) == 0:
            steps.append(seconds(lambda: step(model, optimizer, x, y)))
    whole = statistics.median(steps)
    print(f"resnet10, width {width:g}: {1000 * whole:.0f} ms a step, batch of {BATCH}")
    print("| augmentation | ms | quarters | share of a step |\n|---|---:|---|---:|")
    for name, taken in times.items():
        low, middle, high = (1000 * value for value in statistics.quantiles(taken, n=4))
        print(f"| {name} | {middle:.1f} | {low:.1f} .. {high:.1f} | {middle / whole / 10:.2f} % |")
    share = statistics.median(times["spider"]) / whole
    print(f"goal of SPIDER: at most {GOAL:.0%}; measured {share:.2%}")


if __name__ == "__main__":
    main()
