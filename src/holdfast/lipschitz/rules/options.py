"""Options of torch's convolutions and pools, as pairs for height and width; values that are broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.lipschitz.norms import Pair, repeated
from holdfast.lipschitz.tally import Site
from holdfast.lipschitz.values import Value


def pair(value: int | Sequence[int]) -> Pair:
    """A number for both, or one for each."""
    if isinstance(value, int):
        return value, value
    numbers = list(value)
    return numbers[0], numbers[-1]  # torch takes a single number in a sequence for both


def margins(padding: str | int | Sequence[int], kernel: Pair, dilation: Pair) -> tuple[Pair, Pair]:
    """Margins before and after, for height and width."""
    if padding == "valid":
        padding = 0
    if isinstance(padding, str):  # "same" has one more after where the number is odd
        height, width = ((k - 1) * d for k, d in zip(kernel, dilation, strict=True))
        return (height // 2, height - height // 2), (width // 2, width - width // 2)
    height, width = pair(padding)
    return (height, height), (width, width)


def spread(site: Site, value: Value) -> float:
    """How much longer a value becomes when it is broadcast to the output."""
    shape = site.output.shape
    if len(shape) != value.tensor.dim() or shape[0] != len(value.tensor):
        raise site.refuse(f"broadcasts {tuple(value.tensor.shape)} to {tuple(shape)}, across the examples")
    return repeated(shape.numel() // value.tensor.numel(), site.norm)
