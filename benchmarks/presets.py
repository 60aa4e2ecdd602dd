"""What the presets of `--checks` cost: counted passes per image, and processor time of a ResNet-18 for 1,000 images.

Passes are counted on a network whose answer no attack can change, so that no image leaves early: the most that a preset
can take. Time is passes times the processor time of one pass of `resnet18` on 32x32 images (the least over several
repetitions of a batch of 32, one thread), once without a gradient and once with that of the images; for `common` the
corruptions themselves are added, measured on 200 images.

    OMP_NUM_THREADS=1 python benchmarks/presets.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

import holdfast
from holdfast.corruptions.common import Common
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.models import MODELS, build
from holdfast.presets import PRESETS, preset


class Unmoved:
    """Ten classes, of which an image's first value names one by a wide margin; counts what it is asked."""

    def __init__(self, labels: Tensor) -> None:
        self.plain = self.differentiated = 0
        self._labels = labels

    def __call__(self, x: Tensor) -> Tensor:
        """Logits that hardly depend on the image."""
        if x.requires_grad and torch.is_grad_enabled():
            self.differentiated += len(x)
        else:
            self.plain += len(x)
        label = self._labels[0].expand(len(x))
        return 100.0 * torch.nn.functional.one_hot(label, 10) + 1e-3 * x.flatten(1)[:, :10]


def passes(name: str) -> tuple[int, int]:
    """Passes per image of a preset without and with a gradient, at most."""
    x, y = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)), torch.tensor([3, 3])
    model = Unmoved(y)
    holdfast.evaluate(model, x, y, name)
    return round(model.plain / len(x)), round(model.differentiated / len(x))


def milliseconds(work: Callable[[], object], images: int, repetitions: int = 5) -> float:
    """Processor time per image."""
    times = []
    for _ in range(repetitions):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return 1000 * min(times) / images


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    model = build(MODELS["resnet18"], (3, 32, 32), 10).eval().requires_grad_(False)
    x, y = torch.rand(32, 3, 32, 32), torch.randint(10, (32,))
    with torch.no_grad():
        plain = milliseconds(lambda: model(x), len(x))
    gradient = milliseconds(lambda: input_gradient(cross_entropy, model, x, y), len(x))
    print(f"one pass: {plain:.1f} ms; with the gradient of the image: {gradient:.1f} ms")
    images = torch.rand(200, 3, 32, 32)
    for name in PRESETS:
        without, along = passes(name)
        seconds = without * plain + along * gradient  # for 1,000 images: thousand times milliseconds
        methods = [check for check in preset(name) if isinstance(check, Common)]
        seconds += sum(milliseconds(lambda m=m: m(images), len(images), 1) for m in methods)
        print(
            f"{name:16} {len(preset(name)):3} checks {without:6} passes {along:6} with gradient  {seconds / 60:.1f} min"
        )


if __name__ == "__main__":
    main()
