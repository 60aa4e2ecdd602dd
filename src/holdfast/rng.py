r"""One random stream per example, so that no draw depends on batch size, shard, order or resume point.

The :math:`j`-th value of a stream is a hash of its key and :math:`j`: SplitMix64 started at the key,

.. math:: b_j = \mathrm{mix}(k + j\,\gamma), \qquad \gamma = \mathtt{9E3779B97F4A7C15}_{16},

on 64-bit integers, all examples and values at once and on the device of the data. The key is a hash of seed, purpose
and example index. Normal values (Box-Muller, two per hash) are computed in float64 and rounded once, so that they do
not depend on which elements of a tensor a vectorised logarithm happens to process together.

Reference:
    Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
    Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011 (counters instead of state).
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

GAMMA = -0x61C8864680B583EB  # the golden-ratio increment as a signed 64-bit integer
_MULTIPLIERS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


class Streams:
    """Random streams of the examples of one batch.

    Each draw takes the next values of every stream. A selection `streams[alive]` continues at the position of its
    parent, and the two are independent objects afterwards; `split` starts new streams that share nothing with the old
    ones.

    Args:
        seed: the run's seed.
        purpose: use of the numbers; other purposes get independent numbers.
        indices: index of each example in its data set, or how many examples (then 0, 1, 2, ...).

    Attributes:
        indices: indices of the examples, (N,), by which an objective recognises them; a selection has those of its
            examples, and `spread` repeats each for every try.
    """

    indices: Tensor

    def __init__(self, seed: int = 0, purpose: str = "", indices: Tensor | Sequence[int] | int = 1) -> None:
        index = torch.arange(indices) if isinstance(indices, int) else torch.as_tensor(indices, dtype=torch.int64)
        self._start(_mix(_mix(index * GAMMA) + derive(seed, purpose)), 0, index)

    def _start(self, keys: Tensor, drawn: int, indices: Tensor) -> None:
        self._keys = keys
        self._drawn = drawn
        self.indices = indices

    @classmethod
    def _of(cls, keys: Tensor, drawn: int, indices: Tensor) -> Streams:
        made = cls.__new__(cls)
        made._start(keys, drawn, indices)
        return made

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, selection: Tensor | slice | Sequence[int]) -> Streams:
        """Streams of the selected examples, by mask, indices or slice, at the same position."""
        return self._of(_select(self._keys, selection), self._drawn, _select(self.indices, selection))

    def split(self, name: str) -> Streams:
        """Fresh streams for a purpose of their own; the same name gives the same streams at any position."""
        return self._of(_mix(self._keys ^ derive(0, name)), 0, self.indices)

    def spread(self, count: int) -> Streams:
        """Fresh streams for `count` tries of every example: those of the first example, then of the second, ..."""
        keys = torch.stack([self.split(f"try {n}")._keys for n in range(count)], dim=1).flatten()
        return self._of(keys, 0, self.indices.repeat_interleave(count))

    def bits(self, count: int, device: torch.device | str = "cpu") -> Tensor:
        """The next `count` hashes of every stream, (N, count), 64 random bits each."""
        if self._keys.device != torch.device(device):
            self._keys = self._keys.to(device)
        position = torch.arange(self._drawn + 1, self._drawn + count + 1, device=device).mul_(GAMMA)
        self._drawn += count
        return _mix_(self._keys[:, None] + position)

    def uniform(self, like: Tensor) -> Tensor:
        """Uniform in [0, 1), shape, dtype and device of `like`."""
        self._check(like)
        digits = 1 - int(math.log2(torch.finfo(like.dtype).eps))
        fraction = _shift_right_(self.bits(_per_example(like), _device(like)), 64 - digits)
        return fraction.to(like).mul_(2.0**-digits).view(like.shape)

    def normal(self, like: Tensor) -> Tensor:
        """Standard normal, shape, dtype and device of `like`."""
        self._check(like)
        count = _per_example(like)
        bits = self.bits((count + 1) // 2, _device(like))
        angle = (bits & 0xFFFFFFFF).to(torch.float64).mul_(2 * math.pi * 2.0**-32)
        radius = _shift_right_(bits, 32).to(torch.float64).add_(0.5).mul_(2.0**-32).log_().mul_(-2).sqrt_()
        values = torch.cat((torch.cos(angle).mul_(radius), angle.sin_().mul_(radius)), dim=1)
        return values[:, :count].to(like).reshape(like.shape)

    def integers(self, high: int, shape: Sequence[int] = (), device: torch.device | str = "cpu") -> Tensor:
        """Uniform integers in [0, high) as int64 of shape (N, *shape); the bias is below high / 2**53."""
        if high < 1:
            raise ValueError(f"integers: high must be at least 1, got {high}")
        fraction = _shift_right_(self.bits(math.prod(shape), device), 11).to(torch.float64)
        return (fraction * 2.0**-53 * high).to(torch.int64).clamp_(max=high - 1).view(-1, *shape)

    def _check(self, like: Tensor) -> None:
        if len(like) != len(self):
            raise ValueError(f"{len(self)} random streams for a batch of {len(like)} examples")


def streams(rng: Streams | None, like: Tensor) -> Streams:
    """The streams given, or those of seed 0 and examples 0, 1, 2, ... for a batch like `like`."""
    if rng is None:
        return Streams(0, "", len(like))
    if len(rng) != len(like):
        raise ValueError(f"{len(rng)} random streams for a batch of {len(like)} examples")
    return rng


def derive(seed: int, purpose: str) -> int:
    """A signed 64-bit number for (seed, purpose), also suitable as a seed of other generators."""
    digest = hashlib.blake2b(f"{seed}\0{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


@contextmanager
def global_generators(rng: Streams, device: torch.device) -> Iterator[int]:
    """Seed the global generators of torch, numpy and Python from the first stream, and restore them afterwards.

    For third-party code, which takes its random numbers there. Yields a seed of 31 bits, for code that needs one.
    """
    seed = int(rng.split("global generators").bits(1)[0, 0]) & 0x7FFFFFFF
    before = np.random.get_state(), random.getstate()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.default_generator.manual_seed(seed)
            if device.type == "cuda":
                torch.cuda.default_generators[device.index or 0].manual_seed(seed)
            np.random.seed(seed)
            random.seed(seed)
            yield seed
    finally:
        np.random.set_state(before[0])
        random.setstate(before[1])


def permutation(count: int, seed: int, purpose: str) -> Tensor:
    """A random order of 0 .. count-1 that depends on seed and purpose alone."""
    generator = torch.Generator().manual_seed(derive(seed, purpose))
    return torch.randperm(count, generator=generator)


def _select(values: Tensor, selection: Tensor | slice | Sequence[int]) -> Tensor:
    return values[selection.to(values.device) if isinstance(selection, Tensor) else selection]


def _per_example(like: Tensor) -> int:
    return math.prod(like.shape[1:])


def _device(like: Tensor) -> torch.device:
    """Where to hash: Apple's GPUs have no float64, so their numbers are made on the CPU."""
    return torch.device("cpu") if like.device.type == "mps" else like.device


def _shift_right_(bits: Tensor, by: int) -> Tensor:
    """Logical shift in place; `>>` on signed integers would copy the sign bit."""
    return bits.bitwise_right_shift_(by).bitwise_and_((1 << (64 - by)) - 1)


def _mix_(bits: Tensor) -> Tensor:
    scratch = torch.empty_like(bits)
    for shift, multiplier in zip((30, 27, 31), (*_MULTIPLIERS, None), strict=True):
        torch.bitwise_right_shift(bits, shift, out=scratch)
        bits.bitwise_xor_(scratch.bitwise_and_((1 << (64 - shift)) - 1))
        if multiplier is not None:
            bits.mul_(multiplier)
    return bits


def _mix(bits: Tensor) -> Tensor:
    """SplitMix64's finaliser: a bijection of 64-bit integers that looks random."""
    return _mix_(bits.clone())
