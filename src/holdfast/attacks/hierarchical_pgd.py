"""Gradient descent towards every class beyond a border, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from holdfast.attacks.pgd import PGD, climb
from holdfast.attacks.search import Aim, Front, require_box
from holdfast.ensembles.views import crossing_of, require_classes, sides
from holdfast.errors import unknown
from holdfast.gradients import input_gradient
from holdfast.hierarchy import Hierarchy, border_of, check_border
from holdfast.losses import cross_entropy, towards
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat
from holdfast.wrappers import narrow

Targets = Literal["all", "random"]
Success = Literal["outside", "target"]


@dataclass(frozen=True, kw_only=True)
class HierarchicalPGD:
    r"""Hierarchical PGD: descent towards classes outside the group of the label (Algorithm 5.1).

    .. math:: z_{t+1} = \Pi_{S(x)}\bigl(z_t - \alpha\, s(\nabla_z \ell(f(z_t), \hat y))\bigr), \qquad \hat y \notin z^*

    Every target has a random start of its own. Probabilities that are products must come as their logarithms, as those
    of HAR do.

    Args:
        threat: the set :math:`S` and its geometry.
        steps: gradient evaluations per example and target.
        step_size: :math:`\alpha`, in the threat's units; None means that all steps together are
            :math:`2.5\,\epsilon` long.
        targets: `all` classes beyond the border in their order, until one succeeds (the worst case of the thesis), or
            one of them at `random` (the average case).
        success: `outside`, as the metric has it: as soon as the prediction is beyond the border, whatever the target;
            or `target`, as printed: if the last point of a descent is taken for its target. As printed, points that
            cross the border into another class than the target do not count, so that the accuracy is too high.
        loss: per-example loss to lower at the target.
        random_start: start uniformly in the ball instead of at `x`.
        until_lost: an example that is broken keeps that point and leaves the batch, and one that is not is returned as
            it is. Switch it off for training, where the best point is wanted in any case.
        level: of the hierarchy; None for the finest.
        severity: instead of a level, mistakes that cost at least this.
        hierarchy: of the classes; None for that of the data.

    Reference:
        Ma, thesis, section 5.4. The text takes the lines of Algorithm 5.1 for success and failure the wrong way round.
    """

    access: ClassVar = Access.GRADIENTS
    persistent: ClassVar = True
    thorough: ClassVar = False

    threat: Threat
    steps: int = 20
    step_size: float | None = None
    targets: Targets = "all"
    success: Success = "outside"
    loss: Loss = cross_entropy
    random_start: bool = True
    until_lost: bool = True
    level: str | None = None
    severity: float | None = None
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.descent  # noqa: B018  refuses what PGD refuses
        for name, choices in (("targets", get_args(Targets)), ("success", get_args(Success))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}: {unknown(getattr(self, name), choices)}")
        if self.success == "target" and not self.until_lost:
            raise ValueError("until_lost: false goes with success: outside; as printed, success ends the attack")
        check_border(self)

    @property
    def descent(self) -> PGD:
        """The steps towards one target."""
        return PGD(
            threat=self.threat, steps=self.steps, step_size=self.step_size, loss=self.loss,
            random_start=self.random_start,
        )  # fmt: skip

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """A point for each example; with `target`, what PGD finds, and only that class counts."""
        if target is not None:
            return replace(self.descent, until_lost=self.until_lost)(model, x, y, target=target, rng=rng)
        x, rng = require_box(x), streams(rng, x)
        if not len(x):
            return x.clone()
        with torch.no_grad():
            logits = model(x)
        crossing = crossing_of(border_of(self), y)
        require_classes(logits, crossing.shape[1])
        tries = _tried(crossing, rng if self.targets == "random" else None)
        points, best = x.clone(), x.new_full((len(x),), -torch.inf)
        lost = self.until_lost & (self.success == "outside") & Aim(self.loss, y, True, crossing).reached(logits)
        for number in range(tries.shape[1]):
            part = (~lost & (tries[:, number] >= 0)).nonzero()[:, 0]
            if not len(part):
                break
            towards_one = narrow(model, part), x[part], tries[part, number], crossing[part]
            z, value = self._descend(*towards_one, rng[part].split(f"target {number}"))
            better = value > best[part]
            points[part[better]], best[part[better]] = z[better], value[better]
            lost[part] = torch.isposinf(value)
        return points

    def _descend(
        self, model: Classifier, x: Tensor, target: Tensor, crossing: Tensor, rng: Streams
    ) -> tuple[Tensor, Tensor]:
        """The point of each example, and what it is worth: infinity if it is a success, and nothing if it is none."""
        start = self.threat.sample(x, rng) if self.random_start else x
        if self.success == "target":
            z = self._last_point(model, x, target, start)
            with torch.no_grad():
                reached = model(z).argmax(1) == target
            return z, torch.where(reached, torch.inf, -torch.inf).to(x)
        aim = Aim(towards(self.loss), target, True, crossing)
        front = Front(model, x, aim, rng, leave=self.until_lost)
        climb(front, self.threat, start, self.descent.lengths)
        if self.until_lost:
            return front.best_points, torch.where(front.lost, torch.inf, -torch.inf).to(x)
        with torch.no_grad():
            inside, outside = sides(model(front.best_points), crossing).unbind(1)
        return front.best_points, outside - inside

    def _last_point(self, model: Classifier, x: Tensor, target: Tensor, start: Tensor) -> Tensor:
        """Where the descent ends, wherever it was on the way."""
        z = start
        for length in self.descent.lengths:
            _, grad, _ = input_gradient(towards(self.loss), model, z, target)
            z = self.threat.project(z + length * self.threat.ascent(grad, z), x)
        return z


def _tried(crossing: Tensor, rng: Streams | None) -> Tensor:
    """The targets of each example in their order, -1 behind the last, (N, T); with streams, one at random."""
    counts = crossing.sum(1)
    order = (~crossing).to(torch.int8).argsort(dim=1, stable=True)
    if rng is not None:
        share = rng.split("target").uniform(torch.empty(len(crossing), 1, dtype=torch.float64, device=crossing.device))
        chosen = (share[:, 0] * counts).long().clamp(max=crossing.shape[1] - 1)
        return torch.where(counts > 0, order.gather(1, chosen[:, None])[:, 0], -1)[:, None]
    places = torch.arange(crossing.shape[1], device=crossing.device)
    return torch.where(places < counts[:, None], order, -1)[:, : max(1, int(counts.max()))]
