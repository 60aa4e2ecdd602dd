"""What decision-based attacks share: the yes-or-no question, a point to start from, and the way back to `x`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import repeat

import torch
from torch import Tensor

from holdfast.attacks.minimal import Rows
from holdfast.attacks.starting import Pool, report_no_start, starting_images
from holdfast.threat.ball import Ball
from holdfast.threat.shape import per_example

CANDIDATES = 3
"""Images of another class to try for each example; the first is a success unless the classifier is random."""

Proposal = Callable[[Rows], Tensor]
"""A point for each row, which may or may not be a success."""


@torch.no_grad()
def reached(rows: Rows, z: Tensor) -> Tensor:
    """Whether the predicted class at `z` is what the attack wants; `z` may hold several points per row, row by row."""
    if not len(rows):
        return torch.zeros(0, dtype=torch.bool, device=z.device)
    every = torch.arange(len(rows), device=z.device).repeat(len(z) // len(rows))
    return rows.aim[every].reached(rows.model(z))


def walked(threat: Ball, rows: Rows, tries: int, walk: Callable[[Rows, Tensor], Tensor]) -> Tensor:
    """Where a walk ends that starts at a success for each row; `x` for the rows without one.

    A success is an image of another class, where the classifier comes with images, otherwise noise. Rows without one
    are noted as not attacked; where nobody keeps notes, a warning says how many they are.

    Args:
        threat: decides which image is the nearest.
        rows: what to attack.
        tries: images of each kind of noise.
        walk: from rows and a success of each to the points to return.
    """
    start, available = first_success(rows, proposals(threat, rows, tries))
    report_no_start(rows.model, ~available)
    end = rows.x.clone()
    if available.any():
        end[available] = walk(rows[available], start[available])
    return end


def first_success(rows: Rows, proposed: Iterator[Proposal]) -> tuple[Tensor, Tensor]:
    """The first proposal for each row that is a success, `x` where none is, and which rows have one, (N,) bool."""
    start, rows = rows.x.clone(), replace(rows, rng=rows.rng.split("start"))
    available = torch.zeros(len(start), dtype=torch.bool, device=start.device)
    missing = torch.arange(len(start), device=start.device)
    for propose in proposed:
        z = propose(rows)
        yes = reached(rows, z)
        start[missing[yes]], available[missing[yes]] = z[yes], True
        missing, rows = missing[~yes], rows[~yes]
        if not len(missing):
            break
    return start, available


def proposals(threat: Ball, rows: Rows, tries: int) -> Iterator[Proposal]:
    """Images of another class, the nearest first, then so many of each kind of noise."""
    pool = starting_images(rows.model)
    if pool is not None:
        yield from (partial(_image, pool, threat, rank) for rank in range(CANDIDATES))
    for kind in NOISE:
        yield from repeat(kind, tries)


def _image(pool: Pool, threat: Ball, rank: int, rows: Rows) -> Tensor:
    return pool.nearest(threat, rows.x, rows.aim, rank)[0]


def blocks(noise: Tensor, cells: int) -> Tensor:
    """Noise that is constant in so many blocks along each axis of an image."""
    for axis in range(min(2, noise.dim() - 1), noise.dim()):
        size, count = noise.shape[axis], min(cells, noise.shape[axis])
        noise = noise.index_select(axis, torch.arange(size, device=noise.device) * count // size * size // count)
    return noise


def uniform(rows: Rows) -> Tensor:
    """Uniform noise."""
    return rows.rng.uniform(rows.x)


NOISE: tuple[Proposal, ...] = (
    uniform,
    lambda rows: blocks(uniform(rows), 1),  # one flat colour
    lambda rows: blocks(uniform(rows), 4),
    lambda rows: blocks(uniform(rows), 8).round(),
    lambda rows: uniform(rows).round(),  # the highest contrast at the highest frequency
    lambda rows: torch.lerp(rows.x, uniform(rows), blocks(uniform(rows), 1)),  # noise over the image
    lambda rows: torch.lerp(rows.x, 1 - rows.x, blocks(uniform(rows), 1)),  # the image and its negative
)
"""Kinds of noise to start from: a network may see all uniform noise as one class, which is then no start for it."""


def bisect(threat: Ball, rows: Rows, z: Tensor, halvings: int) -> Tensor:
    r"""From the successes `z` back towards `x` until the boundary lies within :math:`2^{-n}` of their distance.

    The way is through the balls around `x`: a straight line in l2, a clipped one in linf.
    """
    high = threat.distance(z, rows.x)
    low = torch.zeros_like(high)
    for _ in range(halvings):
        middle = (low + high) / 2
        nearer = threat.project_within(z, rows.x, middle)
        yes = reached(rows, nearer)
        high, low = torch.where(yes, middle, high), torch.where(yes, low, middle)
        z = torch.where(per_example(yes, z), nearer, z)
    return z
