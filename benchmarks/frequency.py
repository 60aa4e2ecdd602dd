"""What the questions about frequencies cost on CIFAR-10: in all, and beside the bare passes that they cannot avoid.

Run with one thread: `OMP_NUM_THREADS=1 HOLDFAST_DATA=... python benchmarks/frequency.py [RUN]`. The network is that of
`recipes/cifar10_frequencies.yaml` with fresh weights, or that of a run. Spectrum, bands and the first-order map are
asked about 1,000 test images and the heat map about 200, as the commands do, answers written to disk included; rounds
are interleaved and processor seconds are compared.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from holdfast import data, load_run
from holdfast.conduct.asking import BATCH
from holdfast.data import DATASETS, Split
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.models import MODELS, build
from holdfast.questions.answers import AnswerKey, Store
from holdfast.questions.asking import BLOCK, Inquiry, ask, digest_of
from holdfast.questions.bands import Bands
from holdfast.questions.fourier_heatmap import FourierHeatmap
from holdfast.questions.fourier_map import independent
from holdfast.questions.gradient_spectrum import GradientSpectrum
from holdfast.questions.spectrum import InParts

ROUNDS = 3
IMAGES, OF_THE_MAP = 1000, 200
GOAL = 60
"""Processor seconds of all four together."""


def network(run: str | None) -> torch.nn.Module:
    """The small network for CIFAR-10, or that of a run."""
    if run is not None:
        return load_run(run).model().eval()
    architecture: Any = MODELS["cnn"]
    made: torch.nn.Module = build(dataclasses.replace(architecture, stride=2), (3, 32, 32), 10, seed=0)
    return made.eval()


def asked(model: torch.nn.Module, measurement: Any, split: Split) -> None:
    """Measure and store an answer."""
    key = AnswerKey(
        question="frequency", settings={}, weights="given", weights_hash="", seed=0, examples=len(split),
        images=digest_of(split), block=BLOCK,
    )  # fmt: skip
    inquiry = Inquiry(
        measurement=measurement, key=key, model=model, run="model", split=split, where=torch.empty(0), batch_size=BATCH
    )
    with tempfile.TemporaryDirectory() as place:
        for _ in ask(inquiry, Store(Path(place))):
            pass


def forward(model: torch.nn.Module, split: Split, times: int) -> None:
    """Bare forward passes of all images."""
    x, _ = split.batch(slice(None))
    with torch.no_grad():
        for _ in range(times):
            for part in x.split(BATCH):
                model(part)


def backward(model: torch.nn.Module, split: Split) -> None:
    """A bare gradient of each image."""
    x, y = split.batch(slice(None))
    for part, labels in zip(x.split(BATCH), y.split(BATCH), strict=True):
        input_gradient(cross_entropy, model, part, labels)


def seconds(work: Callable[[], None]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Measure in turns and print."""
    model = network(sys.argv[1] if len(sys.argv) > 1 else None)
    test = DATASETS["cifar10"]().test  # type: ignore[operator]
    images, few = (data.subset(test, count, 0) for count in (IMAGES, OF_THE_MAP))
    bands, waves = Bands(), len(independent(32, 32))
    passes = bands.bands * bands.draws + 1
    works: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "spectrum, 1,000 images": (lambda: asked(model, InParts(None), images), lambda: None),
        f"bands, 1,000 images, {passes} passes": (
            lambda: asked(model, bands, images), lambda: forward(model, images, passes)
        ),
        "first-order map, 1,000 images": (
            lambda: asked(model, GradientSpectrum(), images), lambda: backward(model, images)
        ),
        f"heat map, 200 images, {waves} waves": (
            lambda: asked(model, FourierHeatmap(), few), lambda: forward(model, few, waves)
        ),
    }  # fmt: skip
    for one in (images, few):
        forward(model, one, 1)
        backward(model, one)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, (work, bare) in works.items():
            taken[name].append((seconds(work), seconds(bare)))
    print("| question | seconds (range) | bare passes | ratio |\n|---|---:|---:|---:|")
    total = 0.0
    for name, pairs in taken.items():
        ours, bare_ones = zip(*pairs, strict=True)
        mine, least = statistics.median(ours), statistics.median(bare_ones)
        total += mine
        span = f"{mine:.2f} ({min(ours):.2f} to {max(ours):.2f})"
        print(f"| {name} | {span} | {least:.2f} | {mine / least:.2f} |" if least > 1e-3 else f"| {name} | {span} | | |")
    print(f"goal: at most {GOAL} processor seconds together; measured {total:.1f}")


if __name__ == "__main__":
    main()
