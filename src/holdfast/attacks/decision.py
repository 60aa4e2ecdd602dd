"""What decision-based attacks share: the yes-or-no question, a first success among noise, and the way back to `x`."""

from __future__ import annotations

import torch
from torch import Tensor

from holdfast.attacks.minimal import Rows
from holdfast.threat.ball import Ball
from holdfast.threat.shape import per_example


@torch.no_grad()
def reached(rows: Rows, z: Tensor) -> Tensor:
    """Whether the predicted class at `z` is what the attack wants; `z` may hold several points per row, row by row."""
    if not len(rows):
        return torch.zeros(0, dtype=torch.bool, device=z.device)
    every = torch.arange(len(rows), device=z.device).repeat(len(z) // len(rows))
    return rows.aim[every].reached(rows.model(z))


def noise_start(rows: Rows, tries: int) -> tuple[Tensor, Tensor]:
    """Images of uniform noise until one is a success: the points, and which rows have one, (N,) bool."""
    start, rng = rows.x.clone(), rows.rng.split("start")
    missing = torch.arange(len(rows), device=start.device)
    for _ in range(tries):
        noise = rng.uniform(start[missing])
        yes = reached(rows, noise)
        start[missing[yes]] = noise[yes]
        missing, rows, rng = missing[~yes], rows[~yes], rng[~yes]
        if not len(missing):
            break
    return start, torch.ones(len(start), dtype=torch.bool, device=start.device).index_fill_(0, missing, False)


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
