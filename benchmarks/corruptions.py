"""Images per second of the 15 common corruptions at 32 and 224 pixels, against imagecorruptions-imaug in one process.

Run with one thread: `OMP_NUM_THREADS=1 HOLDFAST_DATA=... python benchmarks/corruptions.py`. Without HOLDFAST_DATA the
images are generated. Without imagecorruptions-imaug only holdfast is measured.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.corruptions.common import SEVERITIES, STANDARD, Common, Kind
from holdfast.rng import Streams

BATCHES = {32: 128, 224: 16}
"""Images of a call of holdfast, by side."""
THEIRS = {32: 16, 224: 4}
"""Images that the other library, which takes them one by one, corrupts in a round."""
ROUNDS = 4


def photographs(count: int, side: int) -> Tensor:
    """CIFAR-10 images, enlarged where needed, or smooth random fields with edges; (count, 3, side, side) in [0, 1]."""
    root = os.environ.get("HOLDFAST_DATA")
    if root:
        with np.load(Path(root) / "cifar10_small.npz") as file:
            x = torch.from_numpy(file["x_test"][:count]).permute(0, 3, 1, 2).float() / 255
    else:
        generator = torch.Generator().manual_seed(0)
        x = torch.zeros(count, 3, 32, 32)
        for cells in (2, 4, 8, 16):
            field = torch.rand(count, 3, cells, cells, generator=generator)
            x += F.interpolate(field, (32, 32), mode="bicubic" if cells < 8 else "nearest") / cells
        x = (x - x.amin((1, 2, 3), keepdim=True)) / (x.amax((1, 2, 3), keepdim=True) - x.amin((1, 2, 3), keepdim=True))
    if side != 32:
        x = F.interpolate(x, (side, side), mode="bicubic", align_corners=False).clamp_(0, 1)
    return ((x * 255).round() / 255).contiguous()


def lowest(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Processor seconds, measured in turns after one to warm up; the lowest, which other processes disturb least."""
    best = dict.fromkeys(works, math.inf)
    for turn in range(ROUNDS + 1):
        for name, work in works.items():
            start = time.process_time()
            work()
            if turn:
                best[name] = min(best[name], time.process_time() - start)
    return best


def measure(kind: Kind, x: Tensor, count: int) -> dict[str, float]:
    """Seconds per image, mean over the severities: ours, theirs on arrays of 8 bits, theirs from and to tensors."""
    rng, pictures = Streams(0, "benchmark", len(x)), eight_bit(x[:count])
    total: dict[str, float] = {}
    for severity in SEVERITIES:
        works: dict[str, Callable[[], object]] = {"ours": partial(Common(kind, severity), x, rng=rng)}
        if imagecorruptions:
            works["theirs"] = partial(peer, kind, pictures, severity)
            works["tensors"] = partial(peer_on_tensors, kind, x[:count], severity)
        for name, seconds in lowest(works).items():
            images = len(x) if name == "ours" else count
            total[name] = total.get(name, 0) + seconds / images / len(SEVERITIES)
    return total


def eight_bit(x: Tensor) -> np.ndarray:
    """(N, 3, H, W) in [0, 1] as arrays of pixels."""
    return (x * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def peer(kind: Kind, pictures: np.ndarray, severity: int) -> list[np.ndarray]:
    """The other library, one image after the other."""
    return [imagecorruptions.corrupt(picture, severity=severity, corruption_name=kind) for picture in pictures]


def peer_on_tensors(kind: Kind, x: Tensor, severity: int) -> Tensor:
    """The same for who has tensors and wants tensors."""
    read = torch.from_numpy(np.stack(peer(kind, eight_bit(x), severity)))
    return read.permute(0, 3, 1, 2).contiguous().float() / 255


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    print(
        f"torch {torch.__version__}, 1 thread; processor time, lowest of {ROUNDS} rounds in turns, mean of 5 severities"
    )
    for side, batch in BATCHES.items():
        x = photographs(batch, side)
        print(f"\n{side} pixels, batches of {batch}; images per second, and times faster than imagecorruptions")
        print(f"{'kind':20} {'holdfast':>9} {'theirs':>9} {'ratio':>7} {'theirs on tensors':>19} {'ratio':>7}")
        times = {kind: measure(kind, x, THEIRS[side]) for kind in STANDARD}
        whole = {name: sum(time[name] for time in times.values()) / len(times) for name in times[STANDARD[0]]}
        for kind, found in (*times.items(), ("all 15", whole)):
            ours, theirs, tensors = (found.get(name, math.nan) for name in ("ours", "theirs", "tensors"))
            ratios = theirs / ours, tensors / ours
            print(f"{kind:20} {1 / ours:9.0f} {1 / theirs:9.0f} {ratios[0]:7.2f} {1 / tensors:19.0f} {ratios[1]:7.2f}")


try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import cv2
        import imagecorruptions

    cv2.setNumThreads(1)
except ImportError:
    imagecorruptions = None
    print("imagecorruptions is not installed")

if __name__ == "__main__":
    main()
