"""A training step of our orthogonal CNN against the same network of deel-torchlip's and of orthogonium's layers.

Run with one thread: `OMP_NUM_THREADS=1 python benchmarks/orthogonal.py`; needs `pip install deel-torchlip orthogonium`.
All three have the paper's shapes for CIFAR-10, cyclic padding, ReLU and no biases, batches of 128, and SGD.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from holdfast.lipschitz import Downsampling, OrthogonalConvolution, OrthogonalDense

ROUNDS, BATCH = 60, 128


def network(convolution: Callable[[int, int, int], nn.Module], dense: Callable[[int, int], nn.Module]) -> nn.Sequential:
    """The paper's CNN of one library's layers."""
    return nn.Sequential(
        Downsampling(), convolution(12, 8, 2), nn.ReLU(), convolution(8, 8, 3), nn.ReLU(),
        Downsampling(), convolution(32, 16, 2), nn.ReLU(), convolution(16, 16, 3), nn.ReLU(),
        nn.Flatten(), dense(1024, 512), nn.ReLU(), dense(512, 10),
    )  # fmt: skip


def networks() -> dict[str, nn.Module]:
    """The three, with the same shapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from deel import torchlip
        from orthogonium.layers import AdaptiveOrthoConv2d, OrthoLinear

    def cyclic(inputs: int, outputs: int, kernel: int) -> nn.Module:
        before, after = kernel // 2, (kernel - 1) // 2
        layer = torchlip.SpectralConv2d(inputs, outputs, kernel, bias=False)
        return nn.Sequential(nn.CircularPad2d((before, after, before, after)), layer)

    return {
        "holdfast": network(OrthogonalConvolution, OrthogonalDense),
        "deel-torchlip": network(cyclic, lambda a, b: torchlip.SpectralLinear(a, b, bias=False)),
        "orthogonium": network(
            lambda a, b, k: AdaptiveOrthoConv2d(a, b, k, bias=False), lambda a, b: OrthoLinear(a, b, bias=False)
        ),
    }


def error(model: nn.Module) -> tuple[float, float]:
    """How far singular values are from 1 at most: of convolutions and of dense layers."""
    errors: dict[int, list[float]] = {2: [0.0], 4: [0.0]}
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear, OrthogonalConvolution, OrthogonalDense)):
            with torch.no_grad():
                weight = module.weight.double()
            spectrum = torch.fft.fft2(weight, s=(16, 16)).permute(2, 3, 0, 1) if weight.dim() == 4 else weight
            errors[weight.dim()].append(float((torch.linalg.svdvals(spectrum) - 1).abs().max()))
    return max(errors[4]), max(errors[2])


def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> None:
    """One step of training."""
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()


def main() -> None:
    """Measure in turns and print."""
    torch.manual_seed(0)
    x, y = torch.rand(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))
    models = networks()
    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9) for name, model in models.items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(ROUNDS + 2):
        for name, model in models.items():
            start = time.process_time()
            step(model, optimizers[name], x, y)
            if turn > 1:
                times[name].append(time.process_time() - start)
    for name, model in models.items():
        ratios = sorted(a / b for a, b in zip(times["holdfast"], times[name], strict=True))
        convolutions, dense = error(model.train())
        print(
            f"{name:14} {1000 * statistics.median(times[name]):7.1f} ms a step, ours over it "
            f"{statistics.median(ratios):.3f} (quarters {ratios[ROUNDS // 4]:.3f} .. {ratios[-ROUNDS // 4]:.3f}); "
            f"singular values off by {convolutions:.1e} (convolutions) and {dense:.1e} (dense)"
        )


if __name__ == "__main__":
    main()
