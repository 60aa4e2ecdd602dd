"""The fast adaptive boundary attack."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.apgd_targeted import likeliest_others
from holdfast.attacks.minimal import Nearest, Rows, ball, boundary, require_positive, within_eps
from holdfast.attacks.search import require_metric_threat
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.threat.ball import Ball
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Threat

FINAL_SEARCH = 3
"""Steps of the final search, as in the paper."""


@dataclass(frozen=True, kw_only=True)
class FAB:
    r"""Steps to the linearised decision boundary, drawn back to the image.

    .. math:: z_{t+1} = \mathrm{clip}\bigl((1 - \alpha)(z_t + \eta\,\delta_t) + \alpha (x + \eta\,\delta_x)\bigr),
        \qquad \alpha = \min\Bigl(\frac{\|\delta_t\|}{\|\delta_t\| + \|\delta_x\|}, \alpha_{\max}\Bigr)

    :math:`z_t + \delta_t` and :math:`x + \delta_x` are the points of the box nearest to :math:`z_t` and to :math:`x` on
    the boundary linearised at :math:`z_t`, in the threat's norm. A success is kept if it is the nearest one so far, and
    the next step starts at :math:`x + \beta (z_{t+1} - x)`. A search on the segment to `x` ends each run.

    Args:
        threat: the norm to minimise; its `eps` is the largest distance of interest.
        steps: linearisations per run.
        restarts: runs; those after the first start in a ball of half the distance found so far, eps if it is less.
        targets: None to step to the nearest of all boundaries, with a gradient per class; or how many of the likeliest
            wrong classes to try, each in a run of its own with one gradient per step (FAB-T of AutoAttack, with 9).
        alpha_max: :math:`\alpha_{\max}`, how much a step is drawn to the image at most.
        eta: :math:`\eta`, how far to overshoot the boundary.
        beta: :math:`\beta`, where to go on after a success.
        until_lost: an example leaves the batch at its first success within eps. Right for measuring accuracy.

    Reference:
        Croce, Hein, Minimally Distorted Adversarial Examples with a Fast Adaptive Boundary Attack, ICML 2020,
        arXiv:1907.02044, algorithm 1. Differs: random starts are uniform in the ball and not on its surface; the final
        search ends every run and not only the last, and stops 1 % short of the crossing it predicts, so that rounding
        does not decide on which side it ends; all targets of an example run side by side.
    """

    access: ClassVar = Access.GRADIENTS

    threat: Threat
    steps: int = 100
    restarts: int = 1
    targets: int | None = None
    alpha_max: float = 0.1
    eta: float = 1.05
    beta: float = 0.9
    until_lost: bool = False

    @property
    def minimises(self) -> bool:
        """Whether it goes on to the nearest success."""
        return not self.until_lost

    def __post_init__(self) -> None:
        ball("fab", self.threat)
        require_metric_threat("fab", self.threat)
        require_positive(
            "fab", steps=self.steps, restarts=self.restarts, targets=1 if self.targets is None else self.targets
        )
        if not (0 <= self.alpha_max <= 1 and 0 < self.beta <= 1 and self.eta >= 1):
            raise ValueError(
                "fab: alpha_max must be in [0, 1], beta in (0, 1] and eta at least 1, "
                f"got {self.alpha_max}, {self.beta} and {self.eta}"
            )

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The nearest success found for each example; with `target`, only that class counts."""
        return within_eps(self._search, self.threat, model, x, y, target, rng)

    def _search(self, rows: Rows) -> Tensor:
        if rows.aim.targeted:
            return self._runs(rows, None, 1)
        count = rows.logits.shape[1] - 1 if self.targets is None else self.targets
        others = likeliest_others(rows.logits, rows.aim.labels, count)
        if self.targets is None:
            return self._runs(rows, others, 1)
        count, points = others.shape[1], rows.x.clone()
        share = max(1, len(rows) // count)  # no more rows at a time than the batch has
        for part in torch.arange(len(rows), device=points.device).chunk(math.ceil(len(rows) / share)):
            points[part] = self._runs(rows[part], others[part], count)
        return points

    def _runs(self, rows: Rows, others: Tensor | None, tries: int) -> Tensor:
        """The nearest success of each example over all restarts, with `tries` rows for each."""
        owner = torch.arange(len(rows), device=rows.x.device).repeat_interleave(tries)
        side_by_side = replace(rows[owner], rng=rows.rng.spread(tries))
        others = None if others is None else others.reshape(len(owner), -1)
        nearest = Nearest(self.threat, side_by_side.x)
        for restart in range(self.restarts):
            left = self._unsettled(nearest, tries).nonzero()[:, 0]
            if len(left):
                part = None if others is None else others[left]
                self._run(side_by_side[left], part, left, restart, nearest, tries)
            near = (self._unsettled(nearest, tries) & nearest.distance.isfinite()).nonzero()[:, 0]
            if len(near):
                z = final_search(side_by_side[near], nearest.best_points[near])
                nearest.offer(z, torch.ones_like(near, dtype=torch.bool), near)
        best = nearest.distance.view(-1, tries).argmin(1) + tries * torch.arange(len(rows), device=owner.device)
        return nearest.best_points[best]

    def _run(
        self, rows: Rows, others: Tensor | None, index: Tensor, restart: int, nearest: Nearest, tries: int
    ) -> None:
        norm = ball("fab", self.threat)
        radius = nearest.distance[index].clamp(max=self.threat.eps) / 2
        z = norm.sample_within(rows.x, rows.rng.split(f"restart {restart}"), radius) if restart else rows.x
        value, grad, crossed = boundary(norm, rows, z, others)
        for step in range(1, self.steps + 1):
            z = self._step(norm, rows.x, z, value, grad)
            crossed = torch.ones_like(crossed) if step == self.steps else crossed
            value, grad, reached = _linearised(norm, rows, z, others, ~crossed)
            if crossed.any():
                reached[crossed] = rows[crossed].look(z[crossed])[1]
            nearest.offer(z, reached, index)
            stay = self._unsettled(nearest, tries)[index]
            if step == self.steps or not stay.any():
                return
            z = torch.where(per_example(reached, z), rows.x + self.beta * (z - rows.x), z)
            rows, z, index, value, grad = rows[stay], z[stay], index[stay], value[stay], grad[stay]
            others = None if others is None else others[stay]
            again, crossed = (crossed | reached)[stay], reached[stay]
            new_value, new_grad, _ = _linearised(norm, rows, z, others, again)
            value, grad = torch.where(again, new_value, value), torch.where(per_example(again, z), new_grad, grad)

    def _step(self, norm: Ball, x: Tensor, z: Tensor, value: Tensor, grad: Tensor) -> Tensor:
        here = norm.to_hyperplane(z, grad, value)
        from_clean = norm.to_hyperplane(x, grad, value + (grad * (x - z)).flatten(1).sum(1))
        length, from_x = norm.distance(here, z), norm.distance(from_clean, x)
        share = length / (length + from_x).clamp(min=torch.finfo(z.dtype).tiny)
        alpha = per_example(share.clamp(max=self.alpha_max), z)
        return ((1 - alpha) * (z + self.eta * (here - z)) + alpha * (x + self.eta * (from_clean - x))).clamp(0, 1)

    def _unsettled(self, nearest: Nearest, tries: int) -> Tensor:
        """Which rows go on, (N,): all, or those of examples without a success within eps."""
        lost = self.until_lost & (nearest.distance <= self.threat.eps)
        return ~lost.view(-1, tries).any(1).repeat_interleave(tries)


def _linearised(
    norm: Ball, rows: Rows, z: Tensor, others: Tensor | None, chosen: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The `boundary` of the chosen rows, which also says which of them have reached it; zeros for the others.

    A row that has crossed its boundary is drawn back, so that its gradient is wanted at another point than its answer.
    Those who crossed in the last step are expected to cross again and are only looked at; of the others, the pass that
    looks is the pass that is differentiated.
    """
    value, grad = z.new_zeros(len(z)), torch.zeros_like(z)
    reached = torch.zeros_like(chosen)
    if chosen.any():
        selected = None if others is None else others[chosen]
        value[chosen], grad[chosen], reached[chosen] = boundary(norm, rows[chosen], z[chosen], selected)
    return value, grad, reached


def final_search(rows: Rows, z: Tensor) -> Tensor:
    """Go from the successes `z` towards `x`, each step to just before the crossing that linear interpolation predicts.

    The margin is negative at one end of a segment and positive at the other; an end is replaced by each point tried.
    """
    low, high = rows.x, z
    (below, _), (above, _) = rows.look(low), rows.look(high)
    for _ in range(FINAL_SEARCH):
        share = 0.99 * above / (above - below).clamp(min=torch.finfo(above.dtype).tiny)
        middle = high + per_example(share, high) * (low - high)
        value, reached = rows.look(middle)
        wide = per_example(reached, high)
        low, high = low.where(wide, middle), middle.where(wide, high)
        below, above = below.where(reached, value), value.where(reached, above)
    return high
