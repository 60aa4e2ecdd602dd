"""What composites cost beside their two classifiers: `resnet10` of width 0.25 on batches of 128 images of 32x32x3.

Run with one thread: `OMP_NUM_THREADS=1 python benchmarks/composites.py 10 100`, or one number of classes alone. Rounds
are interleaved, forwards and backwards in turn, and processor seconds are compared. Freed memory is kept, as in the
commands. Memory is the most that a process of its own has held, with the libraries.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from holdfast.cli.memory import keep_freed_memory
from holdfast.ensembles import Composite, GradientRatio, Probability
from holdfast.ensembles.mixing import mix_logits, robust_share
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.models import MODELS, build
from holdfast.models.resnet import ResNet

BATCH = 128
ROUNDS = {10: 6, 100: 2}
"""By the number of classes, after one round to warm up."""
GOAL = 2.3
LONG = ("attack step, all classes",)
"""What is not timed with 100 classes, since it takes minutes."""


def pair(classes: int) -> tuple[torch.nn.Module, torch.nn.Module]:
    """Two networks with different weights."""
    architecture = MODELS["resnet10"]
    assert isinstance(architecture, ResNet)
    made = [build(replace(architecture, width=0.25), (3, 32, 32), classes, seed=seed) for seed in (0, 1)]
    return made[0].eval().requires_grad_(False), made[1].eval().requires_grad_(False)


def loop_over_classes(g: torch.nn.Module, h: torch.nn.Module, x: Tensor) -> Tensor:
    """Equation 5 with a backward pass for each class."""
    found = []
    for model in (g, h):
        z = x.detach().requires_grad_()
        logits = model(z)
        rows = [torch.autograd.grad(one.sum(), z, retain_graph=True)[0] for one in logits.unbind(1)]
        found.append((logits.detach(), torch.stack([row.abs().flatten(1).sum(1) for row in rows], dim=1)))
    (a, steep_a), (b, steep_b) = found
    return mix_logits(a, b, robust_share(steep_a, steep_b + 1e-8, 1.0))


def bare_gradient(model: torch.nn.Module, x: Tensor) -> Tensor:
    """A forward and a backward pass, without any norm or mixture."""
    z = x.detach().requires_grad_()
    return torch.autograd.grad(model(z).amax(1).sum(), z)[0]


def works(classes: int, batch: int = BATCH) -> dict[str, Callable[[], object]]:
    """What is measured."""
    g, h = pair(classes)
    x, y = torch.rand(batch, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.arange(batch) % classes

    def ask(mixing: GradientRatio | Probability) -> Callable[[], object]:
        composite = Composite(g, h, mixing, 1.0)
        return lambda: composite(x)

    fast = Composite(g, h, GradientRatio(gradients="largest"), 1.0)
    full = Composite(g, h, GradientRatio(), 1.0)
    return {
        "g and h": lambda: (g(x), h(x)),
        "probabilities": ask(Probability()),
        "largest logit": ask(GradientRatio(gradients="largest")),
        "bare gradients of the largest logits": lambda: [bare_gradient(model, x) for model in (g, h)],
        "all classes": ask(GradientRatio()),
        "loop over classes": lambda: loop_over_classes(g, h, x),
        "attack step, largest logit": lambda: input_gradient(cross_entropy, fast, x, y),
        "attack step, all classes": lambda: input_gradient(cross_entropy, full, x, y),
    }


def seconds(chosen: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median processor seconds of each, in turns."""
    taken: dict[str, list[float]] = {name: [] for name in chosen}
    for number in range(rounds + 1):
        for name in sorted(chosen, reverse=bool(number % 2)):
            work, started = chosen[name], time.process_time()
            with torch.no_grad() if name == "g and h" else torch.enable_grad():
                work()
            if number:
                taken[name].append(time.process_time() - started)
    return {name: statistics.median(times) for name, times in taken.items()}


def highest_memory() -> int:
    """MB held at most since the program began; `getrusage` would count the parent, too."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return 0


def memory(work: str, classes: int) -> int:
    """MB that a process of its own needs at most for one call."""
    call = [sys.executable, __file__, "memory", work, str(classes)]
    return int(subprocess.run(call, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Print tables."""
    keep_freed_memory()
    if sys.argv[1:2] == ["memory"]:
        works(int(sys.argv[3]))[sys.argv[2]]()
        print(highest_memory())
        return
    for classes in [int(said) for said in sys.argv[1:]] or [*ROUNDS]:
        chosen = works(classes)
        timed = {name: work for name, work in chosen.items() if classes == 10 or name not in LONG}
        found = seconds(timed, ROUNDS[classes])
        print(f"\n{classes} classes, batch of {BATCH}")
        print("| work | seconds | of g and h | most memory, MB |\n|---|---:|---:|---:|")
        for name in chosen:
            value = found.get(name, float("nan"))
            print(f"| {name} | {value:.3f} | {value / found['g and h']:.2f} | {memory(name, classes)} |", flush=True)
        print(f"goal of the largest logit: at most {GOAL}; measured {found['largest logit'] / found['g and h']:.2f}")


if __name__ == "__main__":
    main()
