r"""Max-margin adversarial training: every example has a budget of its own, its distance to the boundary.

For a correctly classified example, the loss is taken where the prediction changes, at distance :math:`d` in a direction
that an attack finds; pushing that loss down pushes the boundary away. The attack searches within the budget that the
example had when it was last seen, and the bisection along its direction gives the next budget.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.attacks.minimal import ball
from holdfast.attacks.search import require_metric_threat
from holdfast.gradients import input_gradient
from holdfast.losses import cross_entropy
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.batch_stats import BatchStats, Statistics, check_batch_stats
from holdfast.objectives.centroids import everywhere
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.inner_maximisation import check_steps
from holdfast.objectives.passes import Passes
from holdfast.objectives.per_example_state import places_of
from holdfast.rng import Streams, streams
from holdfast.threat.ball import Ball
from holdfast.threat.shape import per_example
from holdfast.types import Classifier, Terms, Threat

FARTHER = 1.05
"""How much farther than :math:`d_{max}` the bisection looks, as in the paper's code."""


FEWEST = 5
"""Searches after which a scale that was never too large is beyond :math:`d_{max}`: 1.05 (1 - 2^-5) > 1."""


@dataclass(frozen=True, kw_only=True)
class MMA:
    r"""Cross entropy at the boundary for examples that are right, at the image for those that are wrong.

    .. math:: (1 - c)\,\frac1N \Bigl(\sum_{i \text{ right},\, d_i < d_{max}} \mathrm{CE}(x_i + d_i u_i)
        + \sum_{i \text{ wrong}} \mathrm{CE}(x_i)\Bigr) + c\, \mathrm{CE}(x)

    AN-PGD finds :math:`d` and :math:`u`: gradient ascent on the soft margin :math:`\log\sum_{k \ne y} e^{z_k} - z_y`
    within the example's budget, from a random start, with steps of 2.5 budgets in all; :math:`u` is the change found,
    divided by the budget; and :math:`d \le 1.05\, d_{max}` is where the soft margin is zero along it, by bisection.
    Right means that the soft margin is negative. The next budget is :math:`d`, or the least one where the example was
    wrong.

    Args:
        threat: the norm; its `eps` is :math:`d_{max}`, the distance beyond which an example is left alone. The paper
            has 12/255, 20/255 and 32/255 in the maximum norm.
        steps: number of steps of the ascent.
        searches: number of steps of the bisection, each a forward pass.
        least: the smallest budget, in the threat's units, also that of examples not seen before.
        clean_weight: :math:`c`.
        batch_stats: what BatchNorm does, see `batch_stats`. With `split`, misclassified examples, which stay where they
            are, count as adversarial.

    Reference:
        Ding et al., MMA Training: Direct Input Space Margin Maximization through Adversarial Training, ICLR 2020,
        arXiv:1812.02637, algorithms 1 and 2, with the settings of its code. Differs: points are clipped to [0, 1]
        within the bisection, and the search uses the network in one mode throughout (theirs is in eval mode for the
        ascent and in train mode for the rest).
    """

    threat: Threat
    steps: int = 10
    searches: int = 10
    least: float = 0.005
    clean_weight: float = 1 / 3
    batch_stats: BatchStats = "frozen"

    def __post_init__(self) -> None:
        require_metric_threat("mma", self.threat)
        ball("mma", self.threat)
        check_steps(self.steps, None)
        require_positive(least=self.least)
        if self.searches < FEWEST:
            raise ValueError(f"searches must be at least {FEWEST}, to tell what is beyond eps; got {self.searches}")
        if self.least > self.threat.eps:
            raise ValueError(f"least must not exceed the threat's eps of {self.threat.eps:g}, got {self.least:g}")
        if not 0 <= self.clean_weight < 1:
            raise ValueError(f"clean_weight must lie in [0, 1), got {self.clean_weight}")
        check_batch_stats(self.batch_stats)

    @property
    def loss_passes(self) -> Passes:
        """Passes of the loss alone."""
        return Passes(2, 2) if self.clean_weight else Passes(1, 1)

    @property
    def passes(self) -> Passes:
        """Passes of one step where all examples are right: predictions, the ascent, the bisection and the loss."""
        return Passes(1 + self.steps + self.searches, self.steps) + self.loss_passes

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first batch, with the least budget for all."""
        rng = streams(rng, x)
        return Budgets(self, model, rng.indices).forward(model, x, y, rng=rng)

    @property
    def hooks(self) -> Hooks:
        """The same with a budget for every example."""
        return Hooks(start=lambda model, classes, examples: Budgets(self, model, examples))


@dataclass(frozen=True)
class Boundary:
    """The result of the search for each example.

    Args:
        points: where the loss is taken, (N, ...).
        budget: :math:`d` of those that are right, 0 of the others, (N,).
        right: which examples are right, (N,).
    """

    points: Tensor
    budget: Tensor
    right: Tensor


class Budgets(nn.Module):
    """The objective with its state, a budget for every training example; 0 for those not seen, or wrong when seen.

    Args:
        objective: its settings.
        model: the network that is trained.
        examples: indices of the training examples, (n,).
    """

    budgets: Tensor
    examples: Tensor

    def __init__(self, objective: MMA, model: object, examples: Tensor) -> None:
        super().__init__()
        self.objective = objective
        self.statistics = Statistics(objective.batch_stats, model)
        self.register_buffer("examples", examples.sort().values, persistent=False)
        self.register_buffer("budgets", torch.zeros(len(self.examples), dtype=torch.float64))

    @property
    def threat(self) -> Ball:
        """The norm and the distance beyond which an example is left alone."""
        return ball("mma", self.objective.threat)

    @property
    def hooks(self) -> Hooks:
        """The search and the loss apart."""
        return Hooks(search=self.search, loss=self.loss)

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch, whose budgets are stored."""
        return self.loss(model, x, y, self.search(model, x, y, rng=rng))

    def search(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Boundary:
        """The boundary near each example, within its budget, which is updated."""
        x, rng = x.detach(), streams(rng, x)
        places = places_of("mma", self.examples, rng.indices)
        radius = self.budgets[places].clamp(min=self.objective.least).to(x)
        with self.statistics.attacking(model, clean=True), torch.no_grad():
            right = soft_margin(model(x), y) < 0
        points, budget = x.clone(), torch.zeros_like(radius)
        # Statistics of the batch are those of the whole batch, the wrong ones included.
        attacked = torch.ones_like(right) if self.objective.batch_stats == "mixed" else right
        if bool(right.any()):
            with self.statistics.attacking(model):
                ascended = self._climb(model, x[attacked], y[attacked], radius[attacked], rng[attacked])
                budget[attacked], points[attacked] = self._boundary(
                    model, x[attacked], y[attacked], radius[attacked], ascended
                )
        budget, points = torch.where(right, budget, 0.0), torch.where(per_example(right, x), points, x)
        self._remember(places, budget)
        return Boundary(points, budget, right)

    def loss(self, model: Classifier, x: Tensor, y: Tensor, result: Any) -> Terms:
        """Terms of a batch and its boundaries."""
        objective = self.objective
        clean = x.new_zeros(())
        if objective.clean_weight:
            with self.statistics.clean(model):
                clean = cross_entropy(model(x), y).mean()
        with self.statistics.adversarial(model):
            losses = cross_entropy(model(result.points), y)
        near = ~result.right | (result.budget < objective.threat.eps)
        margin = (losses * near).mean()
        total = (1 - objective.clean_weight) * margin + objective.clean_weight * clean
        right = result.right.to(losses)
        budget = (result.budget * right).sum() / right.sum().clamp(min=1)
        return Terms(total, {"clean": clean, "margin": margin, "budget": budget, "right": right.mean()})

    def _climb(self, model: Classifier, x: Tensor, y: Tensor, radius: Tensor, rng: Streams) -> Tensor:
        """Where gradient ascent on the soft margin ends, within the budget of each example."""
        step = per_example(2.5 * radius / self.objective.steps, x)
        z = self.threat.sample_within(x, rng.split("start"), radius)
        for _ in range(self.objective.steps):
            _, grad, _ = input_gradient(soft_margin, model, z, y)
            z = self.threat.project_within(z + step * self.threat.ascent(grad, z), x, radius)
        return z

    @torch.no_grad()
    def _boundary(
        self, model: Classifier, x: Tensor, y: Tensor, radius: Tensor, ascended: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Distance of the boundary along the direction of the ascent, and the point there."""
        direction = (ascended - x) / per_example(radius, x)

        def at(scale: Tensor) -> Tensor:
            return (x + per_example(scale, x) * direction).clamp(0, 1)

        largest = FARTHER * self.threat.eps
        scale = bisect(lambda scale: soft_margin(model(at(scale)), y), radius, largest, self.objective.searches)
        return scale, at(scale)

    @torch.no_grad()
    def _remember(self, places: Tensor, budget: Tensor) -> None:
        change = torch.zeros_like(self.budgets)
        change[places] = budget.to(change) - self.budgets[places]
        (change,) = everywhere(change)
        self.budgets = self.budgets + change


def soft_margin(logits: Tensor, y: Tensor) -> Tensor:
    r""":math:`\log \sum_{k \ne y} e^{z_k} - z_y`, (N,): at least the margin, and equal to it for two classes."""
    others = logits.scatter(1, y[:, None], -torch.inf).logsumexp(1)
    return others - logits.gather(1, y[:, None]).squeeze(1)


def bisect(value: Callable[[Tensor], Tensor], start: Tensor, largest: float, searches: int) -> Tensor:
    """The scale in [0, largest], (N,), where a value turns from negative to positive, up to largest / 2**searches.

    Where it does not, the scale tends to `largest`.

    Args:
        value: of scales (N,), (N,).
        start: the first scales to try, (N,), in [0, largest].
        largest: the end of the search.
        searches: number of evaluations.
    """
    low, high, scale = torch.zeros_like(start), torch.full_like(start, largest), start.clamp(max=largest)
    for _ in range(searches):
        inside = value(scale) < 0
        low, high = torch.where(inside, scale, low), torch.where(inside, high, scale)
        scale = (low + high) / 2
    return scale
