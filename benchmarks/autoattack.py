"""AutoAttack in exact mode against the reference implementation and against the bare passes that it cannot avoid.

Run with one thread: `OMP_NUM_THREADS=1 HOLDFAST_DATA=... python benchmarks/autoattack.py`, about half an hour. Without
HOLDFAST_DATA the networks are trained on enlarged digits first.
"""

from __future__ import annotations

import argparse
import copy
import logging
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from networks import subjects
from torch import Tensor, nn

import holdfast
from holdfast.attacks import AutoAttack
from holdfast.recipe import EvaluateRecipe
from holdfast.threat import Linf


class Recorded:
    """A network that remembers how many images it was asked about, with and without a gradient."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.asked: list[tuple[int, bool]] = []

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        self.asked.append((len(x), x.requires_grad and torch.is_grad_enabled()))
        logits: Tensor = self.network(x)
        return logits


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds and result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def bare(network: nn.Module, asked: list[tuple[int, bool]], x: Tensor) -> None:
    """The same passes with nothing around them; a gradient is that of the sum of all logits."""
    for count, gradient in asked:
        z = x[:count]
        if gradient:
            z = z.detach().requires_grad_()
            with torch.enable_grad():
                torch.autograd.grad(network(z).sum(), z)
        else:
            with torch.no_grad():
                network(z)


def reference(network: nn.Module, x: Tensor, y: Tensor, eps: float, batch_size: int) -> Tensor | None:
    """Which images stand after pyautoattack; None where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pyautoattack
        except ImportError:
            return None
    logging.getLogger("auto-attack").setLevel(logging.ERROR)
    attack = pyautoattack.AutoAttack(network, norm="Linf", eps=eps, seed=0)
    z, _ = attack.run_standard_evaluation(x, y, batch_size=batch_size)
    with torch.no_grad():
        return network(z).argmax(1) == y


def measure(kind: str, network: nn.Module, x: Tensor, y: Tensor, eps: float, asked: argparse.Namespace) -> None:
    """Run ours in both layouts with its bare passes, then theirs, and print what came."""
    print(f"{kind} network", flush=True)
    seconds, stands = {}, torch.zeros_like(y, dtype=torch.bool)
    for layout in asked.layouts:
        laid: Any = copy.deepcopy(network)
        laid = laid.to(memory_format=getattr(torch, layout))  # what `EvaluateRecipe(channels_last=True)` does
        bare(laid, [(len(x), True)] * 3, x)  # to warm up
        seconds[layout], stands = ours(layout, Recorded(laid), x, y, eps, asked.batch_size, asked.every)
    spent, theirs = timed(lambda: reference(network, x, y, eps, asked.peer_batch_size))
    if theirs is None:
        print("  pyautoattack is not installed")
        return
    ratios = ", ".join(f"{spent / mine:.2f} of holdfast {layout}" for layout, mine in seconds.items())
    share, apart = 100 * float(theirs.double().mean()), int((stands != theirs).sum())
    print(
        f"  pyautoattack {spent:8.1f} s   {ratios};   {share:.1f} % stand, {apart} of {len(x)} images differ",
        flush=True,
    )


def ours(
    layout: str, network: Recorded, x: Tensor, y: Tensor, eps: float, batch_size: int, every: int
) -> tuple[float, Tensor]:
    """Processor seconds of ours and which images stand."""
    attack = AutoAttack(threat=Linf(eps))
    seconds, results = timed(
        lambda: holdfast.evaluate(network, x, y, attack, settings=EvaluateRecipe(batch_size=batch_size))
    )
    stands = torch.tensor(results.rows.sort("example")["correct"].to_list())
    enough = x.repeat(-(-batch_size // len(x)), 1, 1, 1)
    every = max(1, min(every, len(network.asked) // 1000))
    floor = every * timed(lambda: bare(network.network, network.asked[::every], enough))[0]
    share = 100 * float(stands.double().mean())
    ratio = f"{seconds / floor:.3f} of the bare passes ({floor:.1f} s)"
    print(f"  holdfast, {layout}: {seconds:.1f} s, {ratio}; {share:.1f} % stand")
    looked, climbed = (sum(count for count, gradient in network.asked if gradient is kind) for kind in (False, True))
    print(f"    images through the network: {looked} forward, {climbed} with gradient")
    print("    component   tried   broke   images asked   seconds")
    for row in results.yields.iter_rows(named=True):
        print(
            f"    {row['step']:9} {row['tried']:7} {row['credited']:7} {row['queries']:14} {row['seconds']:9.1f}",
            flush=True,
        )
    return seconds, stands


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=256, help="of holdfast")
    parser.add_argument("--peer-batch-size", type=int, default=250, help="of pyautoattack; 250 is its default")
    parser.add_argument("--every", type=int, default=1, help="repeat only every so manieth pass bare, and scale up")
    parser.add_argument("--layouts", nargs="+", default=["contiguous_format", "channels_last"])
    parser.add_argument("--networks", nargs="+", default=["standard", "robust"])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    name, robust, standard, x, y, eps = subjects(asked.images)
    networks = {"robust": robust, "standard": standard}
    print(f"torch {torch.__version__}, 1 thread, {name}, {len(x)} images, linf eps {eps}, processor seconds,")
    print(f"batches of {asked.batch_size} (pyautoattack: {asked.peer_batch_size})")
    for kind in asked.networks:
        measure(kind, networks[kind], x, y, eps, asked)
    print(f"most memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
