"""What minimum-norm attacks share: the nearest success of each example, and the linearised boundary of a class.

A minimum-norm attack asks how near the nearest success is, not whether there is one within a budget. The threat's norm
is what it minimises, and its `eps` the largest distance of interest: where nothing within it is found, the image itself
is returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from holdfast.attacks.search import Aim
from holdfast.gradients import input_gradient, input_jacobian
from holdfast.losses import margin
from holdfast.rng import Streams, streams
from holdfast.threat.ball import Ball
from holdfast.types import Classifier, Threat
from holdfast.wrappers import narrow


@dataclass(frozen=True)
class Rows:
    """What belongs to each row of a search; a selection takes all of it along.

    Args:
        model: the classifier of these rows.
        x: clean images, (N, ...).
        aim: what the attack wants; its loss is positive exactly where that is reached.
        rng: a stream for each.
        logits: of the clean images, (N, K).
    """

    model: Classifier
    x: Tensor
    aim: Aim
    rng: Streams
    logits: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, selection: Tensor) -> Rows:
        model = narrow(self.model, selection)
        return Rows(model, self.x[selection], self.aim[selection], self.rng[selection], self.logits[selection])

    def differentiate(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Signed value of the aim at `z`, positive where it is reached, its gradient, and where it is reached."""
        values, grad, logits = input_gradient(self.aim.loss, self.model, z, self.aim.labels)
        return values, grad, self.aim.reached(logits)

    @torch.no_grad()
    def look(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Signed value of the aim at `z` and where it is reached, without a gradient."""
        logits = self.model(z)
        return self.aim.loss(logits, self.aim.labels), self.aim.reached(logits)


class Nearest:
    """The nearest success found for each row.

    Attributes:
        best_points: that point, `x` where there is none.
        distance: how far it is, infinite where there is none.
    """

    def __init__(self, threat: Threat, x: Tensor) -> None:
        self._threat, self._x = threat, x
        self.best_points = x.clone()
        self.distance = x.new_full((len(x),), torch.inf)

    def offer(self, z: Tensor, reached: Tensor, rows: Tensor | None = None) -> Tensor:
        """Keep the successes that are nearer than before, `rows` being those that `z` is about; which ones, (N,)."""
        rows = torch.arange(len(self._x), device=z.device) if rows is None else rows
        distance = self._threat.distance(z, self._x[rows])
        better = reached & (distance < self.distance[rows])
        self.best_points[rows[better]], self.distance[rows[better]] = z[better], distance[better]
        return better


class Search(Protocol):
    """The nearest success that a method finds for rows none of which is one already."""

    def __call__(self, rows: Rows) -> Tensor:
        """A success for each row, or the image itself."""
        ...


def within_eps(
    search: Search,
    threat: Threat,
    model: Classifier,
    x: Tensor,
    y: Tensor,
    target: Tensor | None,
    rng: Streams | None,
) -> Tensor:
    """Search for the examples that are not where the attack wants them, and keep what lies within eps of `x`.

    The loss of the aim is the margin: positive, for a label and for a target alike, exactly where it is reached.
    """
    x, rng, aim = x.detach(), streams(rng, x), Aim.of(margin, y, target)
    points = x.clone()
    if not len(x):
        return points
    with torch.no_grad():
        logits = model(x)
    standing = aim.reached(logits).logical_not().nonzero()[:, 0]
    if len(standing):
        z = search(Rows(model, x, aim, rng, logits)[standing])
        near = threat.distance(z, x[standing]) <= threat.eps
        points[standing[near]] = z[near]
    return points


def boundary(threat: Threat, rows: Rows, z: Tensor, others: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    r"""The linearised decision boundary nearest to `z`: its value there, its gradient, and where the aim is reached.

    .. math:: f_s(z) - f_y(z) + \langle \nabla f_s(z) - \nabla f_y(z), \cdot - z\rangle = 0, \qquad
        s = \arg\min_{k} \frac{|f_k(z) - f_y(z)|}{\|\nabla f_k(z) - \nabla f_y(z)\|_*}

    Args:
        threat: its dual norm measures the slope.
        rows: their labels are :math:`y`.
        z: where to linearise.
        others: classes to choose :math:`s` from, (N, C); None for the margin of the aim itself.
    """
    if others is None:
        return rows.differentiate(z)
    y = rows.aim.labels[:, None]
    values, grads, logits = input_jacobian(lambda f: f.gather(1, others) - f.gather(1, y), rows.model, z)
    slope = threat.dual(grads.flatten(0, 1)).view_as(values)
    nearest = (values.abs() / slope.clamp(min=torch.finfo(slope.dtype).tiny)).argmin(1)
    row = torch.arange(len(z), device=z.device)
    return values[row, nearest], grads[row, nearest], rows.aim.reached(logits)


def ball(method: str, threat: Threat, kinds: tuple[type[Threat], ...] | None = None) -> Ball:
    """The threat as a norm ball of the kinds that a method has; any other is refused by name."""
    if isinstance(threat, Ball) and (kinds is None or isinstance(threat, kinds)):
        return threat
    supported = "norm balls" if kinds is None else ", ".join(kind.__name__.lower() for kind in kinds)
    raise ValueError(f"{method} has no {type(threat).__name__.lower()} attack; threats that it has: {supported}")


def require_positive(method: str, **counts: float) -> None:
    """Refuse counts and sizes that are not positive numbers."""
    for name, value in counts.items():
        if not value > 0:
            raise ValueError(f"{method}: {name} must be positive, got {value}")
