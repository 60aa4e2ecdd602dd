r"""Cyclic convolutions, which a Fourier transform makes diagonal in blocks: their symbols.

Reference:
    Sedghi, Gupta, Long, The Singular Values of Convolutional Layers, ICLR 2019, arXiv:1805.10408 (stride 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from holdfast.lipschitz.norms import OperatorNorm, Pair, exactly, largest_singular_values
from holdfast.lipschitz.rounding import ELEMENTARY, gamma

BLOCK = 1 << 22
"""Complex numbers of symbols held at once."""


def symbol_norm(weight: Tensor, grid: Pair, *, stride: Pair, dilation: Pair, groups: int) -> OperatorNorm:
    r"""The :math:`\ell_2` norm of a cyclic convolution on a torus whose sides are multiples of the stride.

    With stride :math:`s` the image splits in :math:`s^2` phases :math:`x_r[t] = x[s t + r]` (polyphase form), and

    .. math:: y[t] = \sum_r \sum_q w[s q + r]\, x_r[t + q]

    is a cyclic convolution of stride 1 of these, on a torus of sides :math:`m` smaller by :math:`s`. Its symbol at
    frequency :math:`f` is the matrix :math:`\sum_q w[s q + r]\, e^{2\pi i \langle q, f/m\rangle}` of outputs by inputs
    and phases, and the norm of the convolution is the largest among those of the symbols. Opposite frequencies have
    conjugate symbols, so that half of them are enough. The rounding of an entry of a symbol is bounded by its taps and
    the angles of its waves, relative to the sum of the absolute taps.
    """
    kernels = weight.reshape(groups, -1, *weight.shape[1:]).flatten(-2).to(torch.complex128)  # (G, out, in, taps)
    phases = _phases(weight.shape[2:], stride, dilation)
    angles = _angles(phases, (grid[0] // stride[0], grid[1] // stride[1])).to(weight.device)
    largest, bound = 0.0, 0.0
    for block in torch.split(angles, max(1, BLOCK // (kernels[..., 0].numel() * len(phases)))):
        symbols = [torch.einsum("goit,ft->fgoi", kernels[..., phase.taps], _waves(block, phase)) for phase in phases]
        values, uppers = largest_singular_values(torch.cat(symbols, dim=-1))
        largest, bound = max(largest, float(values.amax())), max(bound, float(uppers.amax()))
    absolute = torch.stack([weight.flatten(2)[..., phase.taps].abs().sum(-1) for phase in phases])
    turns = max(float(phase.shifts.abs().sum(1).amax()) for phase in phases)
    rounding = gamma(math.prod(weight.shape[2:]) + ELEMENTARY * (1 + turns)) * float(absolute.square().sum().sqrt())
    return exactly(largest, max(bound - largest, 0.0) + rounding)


class _Phase(NamedTuple):
    """Taps of a kernel that see the same phase of the image, and the offset of each within it, (taps, 2)."""

    taps: list[int]
    shifts: Tensor


def _phases(kernel: Sequence[int], stride: Pair, dilation: Pair) -> list[_Phase]:
    phases: dict[tuple[int, ...], _Phase] = {}
    for number, tap in enumerate(itertools.product(*map(range, kernel))):
        places = [i * d for i, d in zip(tap, dilation, strict=True)]
        rest = tuple(place % s for place, s in zip(places, stride, strict=True))
        shift = torch.tensor([[place // s for place, s in zip(places, stride, strict=True)]])
        before = phases.get(rest, _Phase([], shift[:0]))
        phases[rest] = _Phase([*before.taps, number], torch.cat((before.shifts, shift)))
    return list(phases.values())


def _angles(phases: Sequence[_Phase], sides: Pair) -> Tensor:
    """Half of the frequencies of a torus, times 2 pi, (F, 2); one is enough in a direction without taps."""
    moved = torch.cat([phase.shifts for phase in phases]).any(0).tolist()
    height, width = (side if move else 1 for side, move in zip(sides, moved, strict=True))
    rows = torch.arange(height // 2 + 1, dtype=torch.float64) / height
    columns = torch.arange(width, dtype=torch.float64) / width
    return 2 * math.pi * torch.cartesian_prod(rows, columns)


def _waves(angles: Tensor, phase: _Phase) -> Tensor:
    """Value of each frequency's wave at each tap, (F, taps)."""
    turns = angles @ phase.shifts.to(angles).mT
    return torch.polar(torch.ones_like(turns), turns)
