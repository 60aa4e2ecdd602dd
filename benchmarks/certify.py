"""Randomized smoothing: our CERTIFY against the bare forward passes and a plain loop, and what adaptive sampling saves.

Run with one thread: `OMP_NUM_THREADS=1 HOLDFAST_DATA=... python benchmarks/certify.py`. Without HOLDFAST_DATA the speed
is measured on enlarged digits, and savings on simulated images alone. With it, a small network is trained with noise
and asked about 102,400 noisy copies of each of 100 images, which takes about ten minutes for each data set and sigma;
its answers are kept in `--cache` and replayed from there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from networks import subjects
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor, nn

from holdfast.certify.bounds import Integers, Question, Tally
from holdfast.certify.noise import Gaussian
from holdfast.certify.sampling import Decision, Fixed, FullRadius, Sampling
from holdfast.certify.settle import settle
from holdfast.certify.smoothing import GaussianSmoothing

IMAGES, BATCH = 2, 256
N, N0, ALPHA = 100_000, 100, 0.001
RADII = (0.0, 0.25, 0.5, 0.75)
KEPT = 102_400
SETTINGS = (("fashion_mnist", 0.25), ("fashion_mnist", 0.5), ("mnist", 0.5))
SIGMA = 0.25


def bare(model: nn.Module, x: Tensor, copies: int) -> None:
    """Forward passes of as many rows, on noisy images that are there already."""
    z = x[:1] + SIGMA * torch.randn(BATCH, *x.shape[1:])
    with torch.no_grad():
        for left in range(len(x) * (N0 + copies), 0, -BATCH):
            model(z[:left])


def plain_loop(model: nn.Module, x: Tensor, copies: int) -> None:
    """Image by image and batch by batch: repeat, add noise, ask, count."""
    with torch.no_grad():
        for image in x:
            for number in (N0, copies):
                counts = np.zeros(10, dtype=np.int64)
                for left in range(number, 0, -BATCH):
                    z = image.repeat((min(BATCH, left), 1, 1, 1))
                    predictions = model(z + SIGMA * torch.randn_like(z)).argmax(1)
                    counts += np.bincount(predictions.cpu().numpy(), minlength=10)


def ours(model: nn.Module, x: Tensor, copies: int) -> None:
    """The same by holdfast."""
    GaussianSmoothing(sigma=SIGMA, n=copies, n0=N0, alpha=ALPHA, batch=BATCH)(model, x)


class Free(nn.Module):
    """A network that costs nothing, so that everything else is left to measure."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = torch.rand(BATCH, 10)

    def forward(self, x: Tensor) -> Tensor:
        """The same logits for whatever comes."""
        return self.logits[: len(x)]


def speed(name: str, model: nn.Module, x: Tensor, copies: int, rounds: int) -> None:
    """Processor seconds over those of each work, measured in turns after one turn to warm up."""
    works: dict[str, Callable[[nn.Module, Tensor, int], None]]
    works = {"bare passes": bare, "holdfast": ours, "plain loop": plain_loop}
    times: dict[str, list[float]] = {work: [] for work in works}
    for turn in range(rounds + 1):
        for work, run in works.items():
            start = time.process_time()
            run(model, x, copies)
            if turn:
                times[work].append(time.process_time() - start)
    print(f"{name}, {len(x)} images, {N0} + {copies} copies each, batch {BATCH}; processor seconds, {rounds} rounds")
    for work, seconds in times.items():
        ratios = sorted(a / b for a, b in zip(times["holdfast"], seconds, strict=True))
        spread = f"quarters {ratios[rounds // 4]:.3f} .. {ratios[-1 - rounds // 4]:.3f}"
        print(
            f"  {work:12} {statistics.median(seconds):7.2f} s, ours over it {statistics.median(ratios):.3f} "
            f"({spread}); least over least {min(times['holdfast']) / min(seconds):.3f}"
        )


class Answers(NamedTuple):
    """Predicted classes of noisy copies of images, (N, KEPT), and the labels."""

    classes: NDArray[np.uint8]
    labels: NDArray[np.int64]


def train_with_noise(x: Tensor, y: Tensor, sigma: float) -> nn.Module:
    """Two strided convolutions and two dense layers, four epochs on noisy images."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(1568, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(4):
        for rows in torch.randperm(len(x)).split(128):
            optimizer.zero_grad()
            F.cross_entropy(model(x[rows] + sigma * torch.randn_like(x[rows])), y[rows]).backward()
            optimizer.step()
    return model.eval()


def ask(root: Path, cache: Path, name: str, sigma: float) -> Answers:
    """What the network says of noisy copies of every hundredth test image, asked once."""
    path = cache / f"{name}_{sigma:g}.npz"
    if not path.exists():
        with np.load(root / f"{name}.npz") as arrays:
            x, test = (torch.from_numpy(arrays[key])[:, None].float() / 255 for key in ("x_train", "x_test"))
            y, labels = torch.from_numpy(arrays["y_train"]).long(), arrays["y_test"][::100]
        model = train_with_noise(x, y, sigma)
        classes = np.empty((len(labels), KEPT), np.uint8)
        with torch.no_grad():
            for image, row in zip(test[::100], classes, strict=True):
                for start in range(0, KEPT, 400):
                    row[start : start + 400] = model(image + sigma * torch.randn(400, 1, 28, 28)).argmax(1).numpy()
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, answers=classes, y=labels)
    with np.load(path) as kept:
        return Answers(kept["answers"], kept["y"].astype(np.int64))


def replay(answers: Answers, question: Question, sampling: Sampling) -> tuple[NDArray[np.float64], Integers, Integers]:
    """Radii, samples and classes: the first answers select, the next are the pilot, the others estimate."""
    parts = {"pilot": answers.classes[:, N0 : N0 + N // 100], "estimation": answers.classes[:, N0 + N // 100 :]}
    chosen = np.array([np.bincount(row, minlength=10).argmax() for row in answers.classes[:, :N0]])

    def tally(seen: list[NDArray[np.uint8]], classes: Integers) -> Tally:
        counts = np.stack([np.bincount(row, minlength=10) for row in seen]).astype(np.float64)
        top = np.take_along_axis(counts, classes[:, None], 1)[:, 0]
        np.put_along_axis(counts, classes[:, None], -1, 1)
        return Tally(top, counts.max(1), np.array([float(len(row)) for row in seen]))

    def draw(purpose: str, rows: Integers, goals: Integers) -> Tally:
        return tally([parts[purpose][row, :goal] for row, goal in zip(rows, goals, strict=True)], chosen[rows])

    radius, used = settle(sampling, question, tally(list(answers.classes[:, :N0]), chosen), draw)
    return np.maximum(radius, 0), used + N0, chosen


def simulated(shares: NDArray[np.float64]) -> Answers:
    """Images whose copies are of class 0 with given probabilities, else of class 1; all of them have label 0."""
    random = np.random.default_rng(0)
    classes = np.stack([random.random(KEPT, dtype=np.float32) >= share for share in shares]).astype(np.uint8)
    return Answers(classes, np.zeros(len(shares), np.int64))


def savings(name: str, answers: Answers, sigma: float, repeats: int) -> None:
    """Samples, mean radius and certified accuracies of the modes, over reorderings of the same answers."""
    question = Question(Gaussian(sigma), "one_vs_rest", N, ALPHA)
    modes = {"fixed": Fixed(), "full radius": FullRadius(), "decision": Decision(radii=RADII)}
    found: dict[str, list[NDArray[np.float64]]] = {mode: [] for mode in modes}
    random = np.random.default_rng(1)
    for _ in range(repeats):
        mixed = answers._replace(classes=random.permuted(answers.classes, axis=1))
        for mode, sampling in modes.items():
            radius, used, classes = replay(mixed, question, sampling)
            radius[classes != answers.labels] = -1  # a wrong class counts nowhere, and as 0 in the mean
            certified = [((radius >= r) & (radius > 0)).mean() for r in RADII]
            found[mode].append(np.array([used.mean(), np.maximum(radius, 0).mean(), *certified]))
    fixed = np.mean(found["fixed"], axis=0)
    print(f"{name}, sigma {sigma:g}, {len(answers.labels)} images, n {N}, alpha {ALPHA}, {repeats} reorderings")
    for mode, rows in found.items():
        samples, radius, *certified = np.mean(rows, axis=0)
        shares = " ".join(f"{100 * c:.1f} ({100 * (c - f):+.2f})" for c, f in zip(certified, fixed[2:], strict=True))
        saved = f"{samples:8.0f} samples, {fixed[0] / samples:5.1f} times fewer"
        print(f"  {mode:12} {saved}; mean radius {radius:.4f} ({100 * (radius / fixed[1] - 1):+.2f} %)")
        print(f"  {'':12} certified at {RADII}: {shares}")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    options.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "holdfast-benchmarks")
    options.add_argument("--copies", type=int, default=1024, help="of each image when measuring speed")
    options.add_argument("--rounds", type=int, default=15, help="of measuring speed")
    options.add_argument("--repeats", type=int, default=3, help="reorderings of the answers when measuring savings")
    said = options.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread")
    name, model, _, x, _, _ = subjects(IMAGES)
    speed(name, model, x, said.copies, said.rounds)
    speed("a network that costs nothing", Free(), x, 10 * said.copies, said.rounds)
    random = np.random.default_rng(2)
    for mean in (1.5, 2.5):
        shares = ndtr(random.normal(mean, 1.5, 200))
        savings(f"simulated, probabilities Phi(N({mean}, 1.5))", simulated(shares), 0.5, said.repeats)
    if root := os.environ.get("HOLDFAST_DATA"):
        for name, sigma in SETTINGS:
            savings(name, ask(Path(root), said.cache, name, sigma), sigma, said.repeats)


if __name__ == "__main__":
    main()
