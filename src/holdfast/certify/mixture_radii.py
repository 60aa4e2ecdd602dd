r"""What is proved of mixed probabilities of an accurate classifier :math:`g` and a robust one :math:`h`.

Whatever :math:`g` says, its share :math:`1 - a` cannot outvote a lead of :math:`h` above :math:`(1 - a) / a`. Radii
from other constants are in `holdfast.theory.mixture_radii`.

Reference:
    Bai, Anderson, Kim, Sojoudi, Improving the Accuracy-Robustness Trade-off of Classifiers via Adaptive Smoothing,
    arXiv:2301.12554, section 4.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from holdfast.lipschitz.rounding import ELEMENTARY, gamma

HALVINGS = 100
"""Of the interval in which a radius is looked for."""


def margin_mixture_radius(h: Tensor, growth: float | Tensor, share: float, rounding: float | Tensor = 0.0) -> Tensor:
    r"""How far mixed probabilities keep their class when margins of the logits of :math:`h` are Lipschitz, (N,).

    At a distance :math:`r` every margin of the leading class :math:`c` is at least :math:`t_j = z_c - z_j - e -
    G_{cj}\, r`, so that :math:`p_c \ge 1 / (1 + \sum_j e^{-t_j})` and :math:`p_c - p_j \ge p_c (1 - e^{-t_j})`.
    The radius is the largest at which this is above :math:`(1 - a) / a` for all :math:`j`, found by halving and rounded
    down.

    Args:
        h: logits, (N, K).
        growth: :math:`G`, Lipschitz constants of the margins, (K, K) or one number for all.
        share: :math:`a`.
        rounding: :math:`e`, how far a margin may be off, (N,) or one number.
    """
    require_share(share)
    require_positive("growth", float(torch.as_tensor(growth).max()))
    z = h.double()
    leader = z.argmax(1, keepdim=True)
    others = torch.ones_like(z, dtype=torch.bool).scatter(1, leader, False)
    off = torch.as_tensor(rounding, dtype=torch.float64, device=z.device)[..., None]
    margins = (z.gather(1, leader) - z - off)[others].view(len(z), -1)
    rates = torch.as_tensor(growth, dtype=torch.float64, device=z.device).expand(z.shape[1], z.shape[1])
    rates = rates[leader[:, 0]][others].view(len(z), -1)
    needed = (1 - share) / share + gamma(8 * (z.shape[1] + ELEMENTARY))  # of numbers up to 1

    def holds(r: Tensor) -> Tensor:
        t = margins - rates * r[:, None]
        return torch.sigmoid(-torch.logsumexp(-t, 1)) * -torch.expm1(-t.amin(1)) > needed

    low, high = z.new_zeros(len(z)), (margins / rates).amin(1).clamp(min=0)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = holds(middle)
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    return torch.where(holds(torch.zeros_like(low)), low * (1 - gamma(ELEMENTARY)), 0.0)


def require_positive(name: str, value: float) -> None:
    """Refuse what is no positive finite number."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")


def require_share(share: float) -> None:
    """Refuse what is no share of the robust classifier."""
    if not 0 < share <= 1:
        raise ValueError(f"share must lie in (0, 1], got {share}")
