"""Auto-PGD towards each of the likeliest wrong classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from holdfast.attacks.apgd import climb
from holdfast.attacks.search import Aim, Front, require_metric_threat
from holdfast.losses import targeted_difference_of_logits_ratio
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.traits import Access
from holdfast.types import Classifier, Threat
from holdfast.wrappers import narrow


@dataclass(frozen=True, kw_only=True)
class TargetedAPGD:
    r"""Auto-PGD on the targeted DLR loss, for the `targets` classes with the highest logits after the label.

    .. math:: \max_{z \in S(x)} \frac{f_t(z) - f_y(z)}{f_{\pi_1} - (f_{\pi_3} + f_{\pi_4}) / 2}

    All targets of an example climb side by side, and all stop when one of them has made the model err.

    Args:
        threat: the set :math:`S` and its geometry.
        steps: gradient steps per target and restart.
        targets: how many classes to try; never more than there are wrong ones.
        restarts: how often to start anew.
        until_lost: an example whose attack has succeeded keeps that point and leaves the batch; otherwise all targets
            climb to the end, and the point of the highest loss is kept.

    Reference:
        Croce, Hein, ICML 2020, arXiv:2003.01690, section 4 (APGD-T of AutoAttack). Differs: targets side by side
        instead of one after the other, with the same set of broken examples.
    """

    access: ClassVar = Access.GRADIENTS
    persistent: ClassVar = True

    threat: Threat
    steps: int = 100
    targets: int = 9
    restarts: int = 1
    until_lost: bool = True

    def __post_init__(self) -> None:
        require_metric_threat("apgd_targeted", self.threat)
        if min(self.steps, self.targets, self.restarts) < 1:
            raise ValueError(
                f"steps, targets and restarts must be at least 1, got {self.steps}, {self.targets} and {self.restarts}"
            )

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example; with `target`, only that class is tried and only it counts."""
        x, rng, best_points = x.detach(), streams(rng, x), x.detach().clone()
        with torch.no_grad():
            logits = model(x)
        tries = likeliest_others(logits, y, self.targets) if target is None else target[:, None]
        lost = Aim.of(targeted_difference_of_logits_ratio, y, target).reached(logits) & self.until_lost
        standing = lost.logical_not().nonzero()[:, 0]
        share = max(1, len(x) // tries.shape[1])  # rows at a time: no more than the batch had
        for start in range(0, len(standing), share):
            part = standing[start : start + share]
            best_points[part] = self._side_by_side(
                narrow(model, part), x[part], y[part], tries[part], rng[part], target is not None
            )
        return best_points

    def _side_by_side(
        self, model: Classifier, x: Tensor, y: Tensor, tries: Tensor, rng: Streams, targeted: bool
    ) -> Tensor:
        count = tries.shape[1]
        rows = torch.arange(len(x), device=x.device).repeat_interleave(count)
        pairs = torch.stack((y[rows], tries.flatten()), dim=1)
        aim = Aim(targeted_difference_of_logits_ratio, pairs, targeted, judged=pairs[:, int(targeted)])
        front = Front(narrow(model, rows), x[rows], aim, rng.spread(count), leave=self.until_lost, groups=rows)
        for restart in range(self.restarts):
            climb(front, self.threat, self.steps, f"restart {restart}")
        worth = torch.where(front.lost, torch.inf, front.value).view(len(x), count)
        best = worth.argmax(1) + count * torch.arange(len(x), device=x.device)
        return front.best_points[best]


def likeliest_others(logits: Tensor, y: Tensor, count: int) -> Tensor:
    """The classes with the highest logits except the label, likeliest first, (N, at most count)."""
    others = logits.scatter(1, y[:, None], -torch.inf)
    return others.topk(min(count, logits.shape[1] - 1), dim=1).indices
