"""Most memory of a process that runs AutoAttack on few and on many images in batches of 64; each in its own process.

`OMP_NUM_THREADS=1 python benchmarks/memory.py`
"""

from __future__ import annotations

import resource
import subprocess
import sys

import torch

import holdfast
from holdfast.attacks import AutoAttack
from holdfast.models import MODELS, build
from holdfast.recipe import EvaluateRecipe
from holdfast.threat import Linf

COUNTS = (64, 256, 1024)


def attacked(count: int) -> None:
    """Attack random images, which most examples stand, and print the most memory that the process had."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build(MODELS["cnn"], (1, 28, 28), 10).eval()
    x = torch.randint(0, 256, (count, 1, 28, 28), dtype=torch.uint8)
    with torch.no_grad():
        y = torch.cat([model(part.float() / 255).argmax(1) for part in x.split(64)])
    attack = AutoAttack(threat=Linf(1e-4), steps=2, targets=3, queries=5)
    results = holdfast.evaluate(model, x, y, attack, settings=EvaluateRecipe(batch_size=64))
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    held = x.numel() * 4 / 2**20
    print(
        f"{count:6} images, {results.table['correct'][0]:6} stand: {megabytes:7.0f} MB, images as float32 {held:.0f} MB"
    )


def main() -> None:
    """Measure each count in a process of its own."""
    for count in COUNTS:
        subprocess.run([sys.executable, __file__, str(count)], check=True)


if __name__ == "__main__":
    attacked(int(sys.argv[1])) if len(sys.argv) > 1 else main()
