"""PGD-40 against a bare loop on a robust network, and against torchattacks and foolbox on one that is not.

Run with one thread: `OMP_NUM_THREADS=1 HOLDFAST_DATA=... python benchmarks/pgd.py`. Without HOLDFAST_DATA the
networks are trained on enlarged digits first, which takes about a minute.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from networks import subjects
from torch import Tensor, nn

from holdfast.attacks import PGD
from holdfast.threat import Linf

BATCH, STEPS, ROUNDS = 128, 40, 7
STEP = 0.01


def bare(model: nn.Module, x: Tensor, y: Tensor, eps: float, step: float) -> Tensor:
    """The least that PGD can do: gradients, steps, and one look at the end to know who holds."""
    z = x
    for _ in range(STEPS):
        z = z.detach().requires_grad_()
        (grad,) = torch.autograd.grad(F.cross_entropy(model(z), y, reduction="sum"), z)
        with torch.no_grad():
            z = (z + step * grad.sign()).clamp(x - eps, x + eps).clamp(0, 1)
    with torch.no_grad():
        model(z)
    return z


def interleaved(works: dict[str, Callable[[], Tensor]]) -> tuple[dict[str, list[float]], dict[str, Tensor]]:
    """Processor seconds, measured in turns A B C A B C ... after one turn to warm up, and the points found."""
    times: dict[str, list[float]] = {name: [] for name in works}
    found = {}
    for turn in range(ROUNDS + 1):
        for name, work in works.items():
            start = time.process_time()
            found[name] = work()
            if turn:
                times[name].append(time.process_time() - start)
    return times, found


def report(model: nn.Module, y: Tensor, works: dict[str, Callable[[], Tensor]], base: str) -> None:
    """Medians, spread, ratio to the base and robust accuracy of every work."""
    times, found = interleaved(works)
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(seconds, times[base], strict=True)]
        lowest = min(seconds) / min(times[base])
        ratio = f"{statistics.median(ratios):5.3f} ({min(ratios):.3f} .. {max(ratios):.3f}, lowest {lowest:.3f})"
        with torch.no_grad():
            robust = float((model(found[name]).argmax(1) == y).double().mean())
        print(f"  {name:28} {statistics.median(seconds):7.3f} s   {ratio} of {base}   robust {100 * robust:.1f} %")


def peers(model: nn.Module, x: Tensor, y: Tensor, eps: float, step: float) -> dict[str, Callable[[], Tensor]]:
    """The same attack by other libraries, as far as they are installed."""
    works: dict[str, Callable[[], Tensor]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import torchattacks

            theirs = torchattacks.PGD(model, eps=eps, alpha=step, steps=STEPS, random_start=False)
            works["torchattacks"] = lambda: theirs(x, y)
        except ImportError:
            print("  torchattacks is not installed")
        try:
            import foolbox

            wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
            attack = foolbox.attacks.LinfPGD(abs_stepsize=step, steps=STEPS, random_start=False)
            works["foolbox"] = lambda: attack(wrapped, x, y, epsilons=eps)[1]
        except ImportError:
            print("  foolbox is not installed")
    return works


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    (name, robust, standard, x, y, eps), step = subjects(BATCH), STEP
    measuring = PGD(threat=Linf(eps), steps=STEPS, step_size=step, random_start=False)
    training = PGD(threat=Linf(eps), steps=STEPS, step_size=step, random_start=False, until_lost=False)
    print(f"torch {torch.__version__}, 1 thread, {name}, batch {BATCH}, PGD-{STEPS}, eps {eps}, step {step};")
    print(f"processor seconds, median of {ROUNDS} interleaved rounds, ratios round by round")
    print("(their range, and the ratio of the lowest times, which other processes disturb least)")
    print("robust network")
    works = {
        "bare loop": lambda: bare(robust, x, y, eps, step),
        "holdfast, everybody stays": lambda: training(robust, x, y),
        "holdfast": lambda: measuring(robust, x, y),
    }
    report(robust, y, works, "bare loop")
    print("standard network")
    report(standard, y, {"holdfast": lambda: measuring(standard, x, y), **peers(standard, x, y, eps, step)}, "holdfast")


if __name__ == "__main__":
    main()
