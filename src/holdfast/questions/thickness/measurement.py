r"""Boundary thickness: how far one must go for the network's mind to change from sure to undecided.

.. math:: \Theta = \|x_i - x_j\| \int_0^1 \mathbf 1\bigl[\alpha < g_{ij}(x(t)) < \beta\bigr]\, dt,
          \qquad g_{ij} = p_i - p_j,\quad x(t) = (1 - t)\, x_i + t\, x_j

:math:`p` are softmax probabilities, :math:`i` is the class predicted at :math:`x_i`, :math:`j` another one drawn at
random, and :math:`x_j` what an attack from :math:`x_i` towards :math:`j` reaches. A segment that never reaches the
other class counts with what it has of the band, which may be nothing.

Reference:
    Yang et al., Boundary thickness and robustness in learning models, NeurIPS 2020, arXiv:2007.05086.
    The appendix of SPIDER calls the attack untargeted; it is targeted there too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from holdfast.attacks.pgd import PGD
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.theory.thickness import check_band
from holdfast.threat.l2 import L2
from holdfast.types import Attack, Classifier

TOWARDS = PGD(threat=L2(1.0), steps=20, step_size=0.2, random_start=False, until_lost=False)
"""The paper's attack, whose 5 and 1 are in units of about 0.2; the box is [0, 1] instead of a batch's own extremes."""


@dataclass(frozen=True)
class Thickness:
    r"""Thickness of a batch.

    Args:
        value: :math:`\Theta` of each segment, (N,), float64.
        length: of the segment, (N,), float64.
        source: :math:`i`, the predicted class, (N,).
        target: :math:`j`, the class aimed at, (N,).
        reached: whether the attack's end is predicted as the target, (N,).
    """

    value: Tensor
    length: Tensor
    source: Tensor
    target: Tensor
    reached: Tensor


@in_evaluation_mode
def boundary_thickness(
    model: Classifier,
    x: Tensor,
    *,
    alpha: float = 0.0,
    beta: float = 0.75,
    points: int = 128,
    attack: Attack = TOWARDS,
    batch: int = 1024,
    rng: Streams | None = None,
) -> Thickness:
    """Thickness along one segment from each image, by counting points of the segment strictly inside the band.

    Args:
        model: the classifier, used in evaluation mode.
        x: images, (N, ...).
        alpha: lower end of the band of probability differences.
        beta: its upper end.
        points: equally spaced, both ends included; each stands for one of so many parts of the segment.
        attack: towards the target, from the image.
        batch: rows of a forward pass.
        rng: random streams of the images.
    """
    check_band(alpha, beta)
    if points < 2:
        raise ValueError(f"points must be at least 2, got {points}")
    rng = streams(rng, x)
    with torch.no_grad():
        logits = model(x)
    source = logits.argmax(1)
    step = rng.split("target").integers(logits.shape[1] - 1).to(x.device)
    target = (source + 1 + step) % logits.shape[1]
    end = attack(model, x, source, target=target, rng=rng.split("attack"))
    inside = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    shares, together = torch.linspace(0, 1, points, dtype=torch.float64).to(x), max(1, batch // max(1, len(x)))
    with torch.no_grad():
        reached = model(end).argmax(1) == target
        for first in range(0, points, together):
            gaps = _gaps(model, x, end, shares[first : first + together], source, target)
            inside += ((gaps > alpha) & (gaps < beta)).sum(0)
    length = torch.linalg.vector_norm((end - x).flatten(1).double(), dim=1)
    return Thickness(length * inside / points, length, source, target, reached)


def _gaps(model: Classifier, x: Tensor, end: Tensor, shares: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Differences of probabilities at some points of every segment, (points, N)."""
    places = shares.view(-1, *[1] * x.dim())
    logits = model(torch.lerp(x[None], end[None], places).flatten(0, 1))
    chances = logits.softmax(1).view(len(shares), len(x), -1)
    first, second = (chances.gather(2, which.expand(len(shares), -1)[..., None])[..., 0] for which in (source, target))
    return first - second
