"""The named transfer attacks against their bare passes, and against torchattacks with the same budget.

Run with one thread: `OMP_NUM_THREADS=1 python benchmarks/transfer.py`. The bare passes of an attack are as many
gradients with respect to the images as it takes, one after the other, with nothing done to them.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks import ATTACKS, TransferLoop
from holdfast.models import MODELS, build
from holdfast.models.resnet import ResNet
from holdfast.wrappers import Counted

BATCH, ROUNDS, STEPS = 64, 5, 10
NAMES = {
    "mi": "MIFGSM", "ni": "NIFGSM", "vmi": "VMIFGSM", "vni": "VNIFGSM", "sini": "SINIFGSM", "di": "DIFGSM",
    "ti": "TIFGSM",
}  # fmt: skip
"""Our names and those of the classes of torchattacks, whose defaults these are."""

Work = Callable[[], Tensor]


def bare(model: nn.Module, x: Tensor, y: Tensor, passes: int) -> Tensor:
    """So many gradients."""
    for _ in range(passes):
        z = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad(F.cross_entropy(model(z), y, reduction="sum"), z)
    return grad


def passes_of(attack: TransferLoop, model: nn.Module, x: Tensor, y: Tensor) -> int:
    """How many gradients of each image an attack takes."""
    counts = torch.zeros(len(x), dtype=torch.int64)
    attack(Counted(model, counts), x, y)
    return int(counts.max())


def peer(name: str, model: nn.Module) -> Any:
    """The attack of torchattacks; None where the package is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import torchattacks
        except ImportError:
            return None
        return getattr(torchattacks, name)(model)


def interleaved(works: Sequence[Work]) -> list[list[float]]:
    """Processor seconds of each, measured in turns A B C A B C ... after one turn to warm up."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(ROUNDS + 1):
        for spent, work in zip(times, works, strict=True):
            start = time.process_time()
            work()
            if turn:
                spent.append(time.process_time() - start)
    return times


def ratio(seconds: list[float], base: list[float]) -> str:
    """Median of the ratios round by round, their range, and the ratio of the lowest times."""
    ratios = [a / b for a, b in zip(seconds, base, strict=True)]
    lowest = min(seconds) / min(base)
    return f"{statistics.median(ratios):5.3f} ({min(ratios):.3f} to {max(ratios):.3f}; {lowest:.3f})"


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    architecture = MODELS["resnet10"]
    assert isinstance(architecture, ResNet)
    model = build(replace(architecture, width=0.25), (3, 32, 32), 10).eval()
    x, y = torch.rand(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))
    print(f"torch {torch.__version__}, 1 thread, resnet10 of width 0.25, {BATCH} images of 32x32x3, {STEPS} steps;")
    print(f"processor seconds, median of {ROUNDS} interleaved rounds; ratios round by round (range; of the lowest)")
    print("| attack | gradients | bare passes, s | holdfast, s | of the bare passes | torchattacks of holdfast |")
    print("|---|---:|---:|---:|---|---|")
    for name, theirs in NAMES.items():
        ours = ATTACKS[name]
        passes, other = passes_of(ours, model, x, y), peer(theirs, model)
        works: list[Work] = [lambda n=passes: bare(model, x, y, n), lambda a=ours: a(model, x, y)]  # type: ignore[misc]
        if other is not None:
            works.append(lambda a=other: a(x, y))  # type: ignore[misc]
        times = interleaved(works)
        against = ratio(times[2], times[1]) if other is not None else "not installed"
        seconds = " | ".join(f"{statistics.median(spent):.3f}" for spent in times[:2])
        print(f"| `{name}` | {passes} | {seconds} | {ratio(times[1], times[0])} | {against} |", flush=True)


if __name__ == "__main__":
    main()
