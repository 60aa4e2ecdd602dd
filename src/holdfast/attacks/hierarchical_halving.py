"""An attack across a border that tries few classes: those that look near, fewer and fewer of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.attacks.pgd import PGD, climb
from holdfast.attacks.search import Aim, Front, require_box
from holdfast.ensembles.views import crossing_of, require_classes
from holdfast.gradients import input_jacobian
from holdfast.hierarchy import Hierarchy, border_of, check_border
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.traits import Access
from holdfast.types import Classifier, Threat
from holdfast.wrappers import narrow


@dataclass(frozen=True, kw_only=True)
class HierarchicalHalving:
    r"""One ascent across the border, then the nearest classes beyond it by successive halving.

    .. math:: m(z) = \max_{k \text{ beyond}} f_k(z) - \max_{k \text{ within}} f_k(z), \qquad
        d_t = \frac{\max_{k \text{ within}} f_k(x) - f_t(x)}{\|\nabla(\max_{k \text{ within}} f_k - f_t)(x)\|_*}

    The first ascent climbs :math:`m`. Where it does not succeed, the gradients of the `candidates` classes beyond the
    border with the highest logits rank them by :math:`d_t`, how far the class would be if the network were linear. The
    `targets` nearest are climbed side by side, each from a random start of its own; then the better half of them goes
    on from its best point, and so on to the last. A round has as many gradients as the first ascent, so that steps
    become more and shorter as targets become fewer. An example is broken as soon as its prediction is beyond the
    border, whatever the target, and leaves.

    So an example that is not broken costs `steps` (2 + log2 `targets`) + `candidates` gradients, whatever the number of
    classes; trying all classes costs `steps` for each of them (`hierarchical_pgd`).

    Args:
        threat: the set :math:`S` and its geometry.
        steps: gradients of the first ascent, and of each round.
        candidates: classes beyond the border whose distance is computed.
        targets: how many of them are tried.
        level: of the hierarchy; None for the finest.
        severity: instead of a level, mistakes that cost at least this.
        hierarchy: of the classes; None for that of the data.

    Reference:
        An answer to the first open problem of Ma, thesis, section 5.7.1. Linearised distances: Moosavi-Dezfooli,
        Fawzi, Frossard, DeepFool, CVPR 2016, arXiv:1511.04599. Successive halving: Jamieson, Talwalkar, AISTATS 2016,
        arXiv:1502.07943.
    """

    access: ClassVar = Access.GRADIENTS
    thorough: ClassVar = False

    threat: Threat
    steps: int = 20
    candidates: int = 10
    targets: int = 4
    level: str | None = None
    severity: float | None = None
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._lengths(self.steps)  # refuses a threat and steps that PGD refuses
        if not 1 <= self.targets <= min(self.candidates, self.steps):
            raise ValueError(
                f"targets must lie between 1 and the least of candidates and steps, {self.candidates} and "
                f"{self.steps}; got {self.targets}"
            )
        check_border(self)

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """A point for each example; with `target`, what PGD finds, and only that class counts."""
        if target is not None:
            return PGD(threat=self.threat, steps=self.steps)(model, x, y, target=target, rng=rng)
        x, rng = require_box(x), streams(rng, x)
        if not len(x):
            return x.clone()
        with torch.no_grad():
            logits = model(x)
        crossing = crossing_of(border_of(self), y)
        require_classes(logits, crossing.shape[1])
        front = Front(model, x, _across(crossing, crossing), rng, leave=True)
        front.look(x)
        if len(front):
            climb(front, self.threat, self.threat.sample(front.x, front.rng.split("start")), self._lengths(self.steps))
        part = (~front.lost & crossing.any(1)).nonzero()[:, 0]
        if len(part):
            won, z = self._halve(narrow(model, part), x[part], crossing[part], rng[part])
            front.best_points[part[won]] = z[won]
        return front.best_points

    def _lengths(self, steps: int) -> list[float]:
        return PGD(threat=self.threat, steps=steps).lengths

    def _halve(self, model: Classifier, x: Tensor, crossing: Tensor, rng: Streams) -> tuple[Tensor, Tensor]:
        """Which examples are broken, and the points that break them."""
        won, points = torch.zeros(len(x), dtype=torch.bool, device=x.device), x.clone()
        tries = nearest_classes(self.threat, model, x, crossing, self.candidates)[:, : self.targets]
        left, chosen = tries.shape[1], tries.flatten() >= 0
        rows = torch.arange(len(x), device=x.device).repeat_interleave(left)[chosen]
        goals, z = F.one_hot(tries.flatten()[chosen], crossing.shape[1]).bool(), x[rows]
        z = self.threat.sample(z, rng.spread(left)[chosen])
        while len(rows):
            aim = _across(goals, crossing[rows])
            front = Front(narrow(model, rows), x[rows], aim, rng[rows], leave=True, groups=rows)
            climb(front, self.threat, z, self._lengths(self.steps // left))
            for row in front.lost.nonzero()[:, 0].tolist():
                won[rows[row]], points[rows[row]] = True, front.best_points[row]
            if left == 1:
                break
            left //= 2
            stay = ~won[rows] & (rank_within(rows, front.value) < left)
            rows, goals, z = rows[stay], goals[stay], front.best_points[stay]
        return won, points


def _across(goals: Tensor, crossing: Tensor) -> Aim:
    """From the classes that do not cross towards some that do; reached in any of those that do."""
    return Aim(lead_beyond, torch.stack((~crossing, goals), dim=1), True, judged=crossing)


def lead_beyond(logits: Tensor, sides: Tensor) -> Tensor:
    """How far the likeliest class of the other side is above the likeliest of this side; `sides` are (N, 2, K)."""
    within, beyond = logits[:, None].masked_fill(~sides, -torch.inf).amax(2).unbind(1)
    return beyond - within


def nearest_classes(threat: Threat, model: Classifier, x: Tensor, crossing: Tensor, candidates: int) -> Tensor:
    """The likeliest classes beyond the border, the nearest by linearised distance first, (N, C); -1 behind the last."""
    with torch.no_grad():
        logits = model(x)
    beyond = logits.masked_fill(~crossing, -torch.inf)
    tried = beyond.topk(min(candidates, int(crossing.sum(1).max())), dim=1).indices
    real = crossing.gather(1, tried)

    def leads(logits: Tensor) -> Tensor:
        within = logits.masked_fill(crossing, -torch.inf).amax(1, keepdim=True)
        return logits.gather(1, tried) - within

    values, grads, _ = input_jacobian(leads, model, x)
    slopes = threat.dual(grads.flatten(0, 1)).view(values.shape)
    distance = torch.where(real, -values / slopes.clamp_min(torch.finfo(slopes.dtype).tiny), torch.inf)
    order = distance.argsort(dim=1, stable=True)
    return torch.where(real, tried, -1).gather(1, order)


def rank_within(groups: Tensor, values: Tensor) -> Tensor:
    """The place of each row among those of its group, the highest value first, (N,)."""
    order = values.argsort(descending=True, stable=True)
    order = order[groups[order].argsort(stable=True)]
    sizes = torch.bincount(groups)
    starts = (sizes.cumsum(0) - sizes)[groups[order]]
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - starts
    return rank
