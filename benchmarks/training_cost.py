"""What a training step of each objective costs, over a standard step and over what its passes predict.

Run with one thread: `OMP_NUM_THREADS=1 python benchmarks/training_cost.py [rounds] [width]`. The network is `resnet10`
without BatchNorm, a quarter as wide as usual, on batches of 128 images of 32x32. Rounds are interleaved, processor
seconds are compared and medians printed.

Two predictions stand beside the measurement. `counted` takes every forward and every backward pass for one of a
standard step, both measured here. `multiplied` counts products of matrices, in units of those of a forward pass: a
gradient of the input alone costs 1, one of the weights as well 2, and going back through a gradient and the forward
pass below it costs 4, since each has two factors to differentiate. That last number is why double backpropagation costs
more than its passes: SOAR has 14 products where 3 forward and 4 backward passes of a standard step have 11. The second
`soar` is a loop without anything around it, the least that algorithm 3.1 can do in PyTorch. All labels are one class
that the network prefers, so that MMA takes all examples for right. A step of `free` is all its replays, with a step of
the optimizer for each, as in the training loop.
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
from torch import Tensor, nn

from holdfast.attacks import PGD
from holdfast.models import MODELS
from holdfast.objectives import (
    AWP,
    CURE,
    FOAR,
    LLR,
    MART,
    MMA,
    SOAR,
    TRADES,
    Adversarial,
    Fast,
    Free,
    InputGradient,
    Jacobian,
    Passes,
    Standard,
)
from holdfast.objectives.hooks import hooks_of
from holdfast.rng import Streams
from holdfast.threat import Linf
from holdfast.types import Terms

BATCH, CLASSES, ROUNDS, WIDTH = 128, 10, 11, 0.25
GOAL, GOAL_OF_PGD = 1.15, 1.05
BALL = Linf(8 / 255)


@dataclasses.dataclass(frozen=True)
class Entry:
    """An objective to measure.

    Args:
        objective: the instance.
        products: matrix products of a step in units of a forward pass, a standard step being 3.
        passes: what it states, where the objective itself does not.
    """

    objective: Any
    products: float
    passes: Passes | None = None

    def stated(self) -> Passes:
        """Passes of a step."""
        found: Passes = self.passes or self.objective.passes
        return found


def bare_soar(model: nn.Module, x: Tensor, y: Tensor, *, rng: Any = None) -> Terms:
    """Algorithm 3.1 written down: finite differences, one draw, clip at 10."""
    eps, h, size = BALL.eps / 2, 1e-2, x[0].numel()
    u = (x + eps * (2 * torch.rand_like(x) - 1)).clamp(0, 1).requires_grad_()
    (grad,) = torch.autograd.grad(F.cross_entropy(model(u), y, reduction="sum"), u)
    with torch.no_grad():
        start = (u + eps * grad.sign()).clamp(x - eps, x + eps).clamp(0, 1)
    z, last = torch.randn(BATCH, size), torch.randn(BATCH, 1)
    length = z.norm(dim=1, keepdim=True)
    here, there = start.requires_grad_(), (start.detach() + (h * z / length).view_as(x)).requires_grad_()
    losses = F.cross_entropy(model(here), y, reduction="none")
    (first,) = torch.autograd.grad(losses.sum(), here, create_graph=True)
    far = F.cross_entropy(model(there), y, reduction="sum")
    (second,) = torch.autograd.grad(far, there, create_graph=True)
    upper = length * (second - first).flatten(1) / h + last * first.flatten(1)
    lower = (first.flatten(1) * z).sum(1, keepdim=True) + last
    bound = (size * eps**2 + 1) / 2 * torch.cat((upper, lower), dim=1).norm(dim=1)
    return Terms(losses.mean() + bound.clamp(max=10).mean())


STEPS = 10
MADRY = Adversarial(attack=PGD(threat=BALL, steps=STEPS, until_lost=False))
ENTRIES = {
    "standard": Entry(Standard(), 3),
    "foar, zero start": Entry(FOAR(threat=BALL, start="zero"), 2 + 4),
    "foar": Entry(FOAR(threat=BALL), 2 + 2 + 4),
    "input_gradient": Entry(InputGradient(), 2 + 4),
    "jacobian": Entry(Jacobian(), 2 + 4),
    "soar": Entry(SOAR(threat=BALL), 2 + 2 * (2 + 4)),
    "soar, bare": Entry(bare_soar, 2 + 2 * (2 + 4), Passes(3, 4)),
    "soar, exact products": Entry(SOAR(threat=BALL, step=None), 2 + 4 + 8),
    "cure": Entry(CURE(), 3 + 2 * (2 + 4)),
    "llr, 2 steps": Entry(LLR(threat=BALL, steps=2), 3 + 2 + 4 + 2 * 2 + 3),
    f"pgd-{STEPS}": Entry(MADRY, 2 * STEPS + 1 + 3, Passes(STEPS + 1, STEPS + 1)),
    "trades": Entry(TRADES(threat=BALL, steps=STEPS), 1 + 2 * STEPS + 2 * 3),
    "mart": Entry(MART(threat=BALL, steps=STEPS), 2 * STEPS + 2 * 3),
    "mma": Entry(MMA(threat=BALL, steps=STEPS), 1 + 2 * STEPS + 10 + 2 * 3),
    "fast": Entry(Fast(threat=BALL, alarm=None), 2 + 3),
    "free, 4 replays": Entry(Free(threat=BALL, replays=4), 4 * 3),
    f"awp of pgd-{STEPS}": Entry(AWP(objective=MADRY), 2 * STEPS + 1 + 3 + 3),
}
"""Further objectives are further lines."""


def seconds(work: Callable[[], Any]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def stepping(objective: Any, model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], None]:
    """A function that takes one step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    hooks = hooks_of(objective)
    work: Any = objective if hooks.start is None else hooks.start(model, CLASSES, torch.arange(BATCH))

    def step() -> None:
        for _ in range(hooks.replays):
            optimizer.zero_grad()
            work(model, x, y, rng=Streams(0, "cost", BATCH)).total.backward()
            optimizer.step()

    return step


def main() -> None:
    """Measure in turns and print."""
    torch.manual_seed(0)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    width = float(sys.argv[2]) if len(sys.argv) > 2 else WIDTH
    x, y = torch.rand(BATCH, 3, 32, 32), torch.zeros(BATCH, dtype=torch.int64)
    architecture: Any = MODELS["resnet10"]
    model = dataclasses.replace(architecture, width=width, norm="none")((3, 32, 32), CLASSES)
    with torch.no_grad():  # branches that start at zero would have gradients that are zero, too
        for parameter in model.parameters():
            parameter += 0.01 * torch.randn_like(parameter)
        logits = model(x)
        model.head.bias[0] += 4 + (logits[:, 1:] - logits[:, :1]).max()
    works: dict[str, Callable[[], Any]] = {
        name: stepping(entry.objective, model, x, y) for name, entry in ENTRIES.items()
    }
    works["forward"] = lambda: F.cross_entropy(model(x), y)
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            taken = seconds(work)
            if turn:
                times[name].append(taken)
    forward, whole = (statistics.median(times[name]) for name in ("forward", "standard"))
    threads = torch.get_num_threads()
    print(f"torch {torch.__version__}, {threads} thread(s), resnet10 without BatchNorm, width {width:g}, batch {BATCH}")
    print(f"standard step {1000 * whole:.0f} ms, of which forward {1000 * forward:.0f} ms; {rounds} interleaved rounds")
    print("| objective | passes | ms | over standard | range | counted | over it | multiplied | over it |")
    print("|---|---|---:|---:|---|---:|---:|---:|---:|")
    for name, entry in ENTRIES.items():
        ratios = [mine / base for mine, base in zip(times[name], times["standard"], strict=True)]
        ratio, passes = statistics.median(ratios), entry.stated()
        counted = (passes.forward * forward + passes.backward * (whole - forward)) / whole
        multiplied = entry.products / 3
        print(
            f"| {name} | {passes.forward} + {passes.backward} | {1000 * statistics.median(times[name]):.0f} | "
            f"{ratio:.2f} | {min(ratios):.2f} .. {max(ratios):.2f} | {counted:.2f} | {ratio / counted:.2f} | "
            f"{multiplied:.2f} | {ratio / multiplied:.2f} |"
        )
    ratios = [mine / base for mine, base in zip(times["soar"], times["soar, bare"], strict=True)]
    print(f"goal of SOAR: at most {GOAL} of counted; over the bare loop it costs {statistics.median(ratios):.2f}")
    mine = statistics.median(a / b for a, b in zip(times[f"pgd-{STEPS}"], times["standard"], strict=True))
    print(
        f"goal of PGD-{STEPS}: at most {GOAL_OF_PGD} of {STEPS + 1} standard steps; it costs {mine / (STEPS + 1):.2f}"
    )


if __name__ == "__main__":
    main()
