"""Fast adversarial training: one step from a random point, and an alarm for when that stops being enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.attacks.pgd import PGD
from holdfast.attacks.search import require_metric_threat
from holdfast.losses import cross_entropy
from holdfast.modes import evaluating
from holdfast.objectives.adversarial import show_clean
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.batch_stats import BatchStats, Statistics, check_batch_stats
from holdfast.objectives.centroids import everywhere
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.inner_maximisation import check_steps, climb
from holdfast.objectives.passes import Passes
from holdfast.objectives.standard import mean_cross_entropy
from holdfast.rng import Streams, streams
from holdfast.types import Classifier, Terms, Threat


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """When to compare the fast attack with a slow one, and how large the difference may be.

    Args:
        every: steps between two comparisons.
        examples: number of examples of the batch that are compared.
        steps: number of steps of the slow attack, PGD.
        gap: the difference of the two accuracies above which there is an alarm.
    """

    every: int = 50
    examples: int = 64
    steps: int = 10
    gap: float = 0.3

    def __post_init__(self) -> None:
        require_positive(every=self.every, examples=self.examples, steps=self.steps)
        if not 0 <= self.gap <= 1:
            raise ValueError(f"gap must lie in [0, 1], got {self.gap}")


@dataclass(frozen=True, kw_only=True)
class Fast:
    r"""Cross entropy after one long step from a random point.

    .. math:: \mathrm{CE}(z), \qquad z = \Pi_{S(x)}\bigl(u + \alpha\, s(\nabla\ell(u))\bigr), \quad u \sim S(x)

    Such training may fail suddenly: the network learns to be right at the ends of these steps and nowhere else, its
    accuracy under PGD falls to zero, and the training loss does not show it (catastrophic overfitting). So from time to
    time some examples of the batch are attacked with PGD as well. Both accuracies of the last comparison, with the
    network in eval mode, are reported as `fast_accuracy` and `pgd_accuracy`; if they are too far apart, the record of
    the epoch has an alarm.

    Args:
        threat: the set :math:`S` and its geometry.
        step_size: :math:`\alpha`, in the threat's units; None for 1.25 times the radius.
        alarm: when to compare; None for never.
        batch_stats: what BatchNorm does, see `batch_stats`, and `adversarial` on `split`.

    Reference:
        Wong, Rice, Kolter, Fast Is Better than Free: Revisiting Adversarial Training, ICLR 2020, arXiv:2001.03994,
        section 4.1. Differs: their attack uses the network in train mode.
    """

    threat: Threat
    step_size: float | None = None
    alarm: Alarm | None = field(default_factory=Alarm)
    batch_stats: BatchStats = "frozen"

    soft_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_metric_threat("fast", self.threat)
        check_steps(1, self.step_size)
        check_batch_stats(self.batch_stats)

    @property
    def loss_passes(self) -> Passes:
        """Passes of the loss alone."""
        return Passes(2 if self.batch_stats == "split" else 1, 1)

    @property
    def passes(self) -> Passes:
        """Passes of one step without a comparison."""
        return Passes(1, 1) + self.loss_passes

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch."""
        return Watched(self, model).forward(model, x, y, rng=rng)

    @property
    def hooks(self) -> Hooks:
        """The same with a count of its steps and the last comparison."""
        return Hooks(start=lambda model, classes, examples: Watched(self, model))


class Watched(nn.Module):
    """The objective with its state: steps done, and accuracies of the last comparison.

    Args:
        objective: its settings.
        model: the network that is trained.
    """

    step: Tensor
    accuracies: Tensor

    def __init__(self, objective: Fast, model: object) -> None:
        super().__init__()
        self.objective = objective
        self.statistics = Statistics(objective.batch_stats, model)
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self.register_buffer("accuracies", torch.zeros(2, dtype=torch.float64))

    @property
    def hooks(self) -> Hooks:
        """The search and the loss apart, and the alarm."""
        return Hooks(search=self.search, loss=self.loss, alarm=self.alarm)

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch, which counts as a step."""
        return self.loss(model, x, y, self.search(model, x, y, rng=rng))

    def search(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The points after one step; at times compared with those of a slow attack."""
        objective, x, rng = self.objective, x.detach(), streams(rng, x)
        label = y.argmax(1) if y.is_floating_point() else y
        step_size = 1.25 * objective.threat.eps if objective.step_size is None else objective.step_size
        start = objective.threat.sample(x, rng.split("start"))
        with self.statistics.attacking(model):
            z = climb(objective.threat, cross_entropy, model, x, label, start, steps=1, step_size=step_size)
        if objective.alarm is not None and int(self.step) % objective.alarm.every == 0:
            self.accuracies = compare(objective.threat, objective.alarm, model, x, label, z, rng.split("alarm"))
        self.step = self.step + 1
        return z

    def loss(self, model: Classifier, x: Tensor, y: Tensor, result: Any) -> Terms:
        """Terms of a batch and its points."""
        show_clean(self.statistics, model, x)
        with self.statistics.adversarial(model):
            total = mean_cross_entropy(model, result, y)
        if self.objective.alarm is None:
            return Terms(total)
        return Terms(total, dict(zip(("fast_accuracy", "pgd_accuracy"), self.accuracies, strict=True)))

    def alarm(self) -> str | None:
        """A sentence if the accuracies of the last comparison were too far apart."""
        alarm, (fast, slow) = self.objective.alarm, self.accuracies.tolist()
        if alarm is None or not int(self.step) or fast - slow <= alarm.gap:
            return None
        return (
            f"catastrophic overfitting: of the training examples {100 * fast:.0f} % hold against the one-step attack "
            f"and {100 * slow:.0f} % against {alarm.steps} steps of PGD"
        )


def compare(
    threat: Threat, alarm: Alarm, model: Classifier, x: Tensor, y: Tensor, z: Tensor, rng: Streams
) -> Tensor:  # fmt: skip
    """Accuracy at the points `z` and under PGD, (2,), on some examples of the batch, chosen by their streams."""
    some = rng.split("which").bits(1)[:, 0].argsort()[: alarm.examples].to(x.device)
    x, y, z, rng = x[some], y[some], z[some], rng[some]
    with evaluating(model):
        slow = PGD(threat=threat, steps=alarm.steps)(model, x, y, rng=rng)
        with torch.no_grad():
            right = [(model(points).argmax(1) == y).double().sum() for points in (z, slow)]
    fast, slow_right, count = everywhere(*right, torch.tensor(float(len(x)), dtype=torch.float64, device=x.device))
    return torch.stack((fast, slow_right)) / count
