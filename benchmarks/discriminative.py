"""What a step of `discriminative` costs beside a plain one: `resnet10` of width 0.25 on batches of 128 32x32 images.

Run with one thread: `OMP_NUM_THREADS=1 python benchmarks/discriminative.py [width]`. Steps are those of training:
views, forward and backward passes, optimizer. Rounds are interleaved and processor seconds are compared. The last
column is a step from features that are there already: head, loss terms, their backward pass and the optimizer.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.models import MODELS
from holdfast.objectives import Center, CleanAndNoisy, Discriminative, LargeMargin, Stability, Standard, TermWeights
from holdfast.objectives.hooks import hooks_of
from holdfast.rng import Streams

BATCH, FEATURES, ROUNDS = 128, 128, 15
GOAL = 2.2

OBJECTIVES: dict[str, Any] = {
    "standard": Standard(),
    "clean_and_noisy": CleanAndNoisy(sigma=0.06),
    "stability": Stability(sigma=0.06),
    "discriminative": Discriminative(),
    "discriminative, clean only": Discriminative(weights=TermWeights(noisy=0.0)),
    "center": Center(),
    "large_margin": LargeMargin(),
}


class Given(nn.Module):
    """Features that are there already: what is left is the loss."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(FEATURES, classes)

    def features(self, x: Tensor) -> Tensor:
        """The input."""
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(x)
        return logits


def stepper(objective: Any, model: nn.Module, x: Tensor, y: Tensor, classes: int) -> Callable[[], float]:
    """A function that makes one step and returns its processor seconds."""
    make = hooks_of(objective).start
    started = objective if make is None else make(model, classes, torch.arange(BATCH))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> float:
        start = time.process_time()
        optimizer.zero_grad()
        started(model, x, y, rng=Streams(0, "", BATCH)).total.backward()
        optimizer.step()
        return time.process_time() - start

    return step


def measure(classes: int, width: float) -> None:
    """One table."""
    torch.manual_seed(0)
    x, y = torch.rand(BATCH, 3, 32, 32), torch.randint(classes, (BATCH,))
    points = torch.randn(BATCH, FEATURES).requires_grad_()
    architecture: Any = dataclasses.replace(MODELS["resnet10"], width=width, feature_dim=FEATURES)  # type: ignore[type-var]
    steps = {n: stepper(o, architecture((3, 32, 32), classes), x, y, classes) for n, o in OBJECTIVES.items()}
    alone = {n: stepper(_quiet(o), Given(classes), points, y, classes) for n, o in OBJECTIVES.items()}
    times: dict[str, list[float]] = {name: [] for name in steps}
    losses: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(ROUNDS + 1):
        for name in steps:
            spent, loss = steps[name](), alone[name]()
            if turn:  # the first is to warm up
                times[name].append(spent)
                losses[name].append(loss)
    base = statistics.median(times["standard"])
    print(f"{classes} classes, width {width:g}: {1000 * base:.0f} ms a plain step")
    print("| objective | ms | quarters | times a plain step | loss alone, ms |\n|---|---:|---|---:|---:|")
    for name, taken in times.items():
        low, middle, high = (1000 * value for value in statistics.quantiles(taken, n=4))
        loss = 1000 * statistics.median(losses[name])
        print(f"| {name} | {middle:.0f} | {low:.0f} .. {high:.0f} | {middle / base / 1000:.2f} | {loss:.2f} |")
    found = statistics.median(times["discriminative"]) / base
    print(f"goal of discriminative: at most {GOAL}; measured {found:.2f}\n")


def _quiet(objective: Any) -> Any:
    """Without noise, which is made of images and not of features."""
    from holdfast.corruptions import Clean

    return dataclasses.replace(objective, noise=Clean()) if isinstance(objective, Discriminative) else objective


def main() -> None:
    """Ten and a hundred classes."""
    width = float(sys.argv[1]) if len(sys.argv) > 1 else 0.25
    for classes in (10, 100):
        measure(classes, width)


if __name__ == "__main__":
    main()
