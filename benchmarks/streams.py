"""Cost of per-example random streams: against torch's own generator, and as a share of PGD-10.

Run with one thread: `OMP_NUM_THREADS=1 python benchmarks/streams.py`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from holdfast.attacks import PGD
from holdfast.models import MODELS, build
from holdfast.rng import Streams
from holdfast.threat import L1, L2, Linf

BATCH, SHAPE = 128, (1, 28, 28)
ROUNDS = 15


def cost(work: Callable[[], object]) -> float:
    """Processor seconds of one call; blind to other processes on the machine, save for their use of the caches."""
    start = time.process_time()
    work()
    return time.process_time() - start


def interleaved(works: dict[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Costs of all works, measured in turns A B C A B C ..., after one turn to warm up."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            seconds = cost(work)
            if turn:
                times[name].append(seconds)
    return times


def repeated(work: Callable[[], object], count: int = 20) -> Callable[[], None]:
    """A work long enough for the clock."""

    def many() -> None:
        for _ in range(count):
            work()

    return many


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    x = torch.rand(BATCH, *SHAPE)
    y = torch.randint(10, (BATCH,))
    rng = Streams(0, "benchmark", BATCH)
    draws = {
        "Streams.uniform": lambda: rng.uniform(x),
        "torch.rand_like": lambda: torch.rand_like(x),
        "Streams.normal": lambda: rng.normal(x),
        "torch.randn_like": lambda: torch.randn_like(x),
    }
    for kind in (Linf(0.1), L2(1.0), L1(5.0)):
        draws[f"{type(kind).__name__}.sample"] = lambda kind=kind: kind.sample(x, rng)
    times = interleaved({name: repeated(work) for name, work in draws.items()})
    model = build(MODELS["cnn"], SHAPE, 10).eval()
    attack = PGD(threat=Linf(0.1), steps=10, until_lost=False)
    step = statistics.median(interleaved({"pgd": lambda: attack(model, x, y)}, 7)["pgd"])
    print(f"torch {torch.__version__}, 1 thread, batch {BATCH} of {SHAPE}; medians of {ROUNDS} rounds of 20 draws")
    print(f"PGD-10 on cnn: {1e3 * step:.1f} ms")
    for name, values in times.items():
        median = statistics.median(values) / 20
        low, high = min(values) / 20, max(values) / 20
        spread = f"{1e3 * low:.2f} .. {1e3 * high:.2f}"
        print(f"{name:18} {1e3 * median:7.2f} ms  ({spread})  {100 * median / step:5.2f} % of PGD-10")


if __name__ == "__main__":
    main()
