"""PGD-40 against a bare loop on a robust network, and against torchattacks and foolbox on one that is not.

Run with one thread: `OMP_NUM_THREADS=1 HOLDFAST_DATA=... python benchmarks/pgd.py`. Without HOLDFAST_DATA the
networks are trained on enlarged digits first, which takes about a minute.
"""

from __future__ import annotations

import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.attacks import FGSM, PGD
from holdfast.data.digits import Digits
from holdfast.models import MODELS, build, read_state
from holdfast.rng import permutation
from holdfast.threat import Linf

BATCH, STEPS, ROUNDS = 128, 40, 7
LAYERS = {"conv1": "body.0.0", "conv2": "body.1.0", "linear1": "body.3.0", "linear2": "head"}


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


def published(root: Path, name: str) -> nn.Module:
    """A LeNet for MNIST: `standard` or `adversarial`."""
    model = build(MODELS["lenet"], (1, 28, 28), 10)
    state = model.state_dict()
    for key, value in read_state(root / "weights" / f"mnist_lenet5_{name}.safetensors").items():
        layer, _, kind = key.rpartition(".")
        state[f"{LAYERS[layer]}.{kind}"] = value
    model.load_state_dict(state)
    return model.eval()


def trained(x: Tensor, y: Tensor, eps: float) -> nn.Module:
    """A LeNet trained on images given, against one-step attacks if `eps` is positive."""
    model = build(MODELS["lenet"], (1, 28, 28), 10)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(6):
        for rows in permutation(len(x), epoch, "benchmark").split(64):
            z = FGSM(threat=Linf(eps))(model, x[rows], y[rows]) if eps else x[rows]
            optimizer.zero_grad()
            F.cross_entropy(model(z), y[rows]).backward()
            optimizer.step()
    return model.eval()


def subjects() -> tuple[str, nn.Module, nn.Module, Tensor, Tensor, float, float]:
    """Their name, a robust and a standard network, images, labels, eps and step."""
    given = os.environ.get("HOLDFAST_DATA")
    if given is not None:
        with np.load(Path(given) / "mnist.npz") as arrays:
            x, y = (torch.from_numpy(arrays[name][:BATCH]) for name in ("x_test", "y_test"))
        networks = [published(Path(given), name) for name in ("adversarial", "standard")]
        return "lenet, MNIST", networks[0], networks[1], x[:, None].float() / 255, y.long(), 0.3, 0.01
    data = Digits()()
    (x, y), (x_test, y_test) = data.train.batch(slice(None)), data.test.batch(slice(BATCH))
    x, x_test = (F.interpolate(images, size=28, mode="bilinear") for images in (x, x_test))
    return "lenet, digits at 28x28", trained(x, y, 0.1), trained(x, y, 0.0), x_test, y_test, 0.1, 0.01


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
    name, robust, standard, x, y, eps, step = subjects()
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
