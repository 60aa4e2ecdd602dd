"""Free adversarial training: the gradient that trains the weights also moves the images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.attacks.search import require_metric_threat
from holdfast.errors import TrainingError
from holdfast.objectives.hooks import Hooks
from holdfast.objectives.inner_maximisation import check_steps
from holdfast.objectives.passes import Passes
from holdfast.objectives.standard import mean_cross_entropy
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms, Threat


@dataclass(frozen=True, kw_only=True)
class Free:
    r"""Cross entropy of moved images, each batch several times in a row.

    .. math:: \theta \leftarrow \theta - \eta\, \nabla_\theta \mathrm{CE}(x + \delta), \qquad
        \delta \leftarrow \Pi\bigl(\delta + \alpha\, s(\nabla_x \mathrm{CE}(x + \delta))\bigr),

    both gradients from the same backward pass. The training loop takes that many steps of the
    optimizer on each batch; one of its steps, and one epoch, therefore costs `replays` of the usual ones, and a recipe
    should divide its epochs by it. :math:`\delta` starts at zero and is carried over from batch to batch, by position
    in the batch, as in the paper: a new batch begins with the perturbation of another one.

    One forward pass is attack and loss at once, so that there is no choice about BatchNorm: it is in train mode, and
    its statistics move in every replay.

    Args:
        threat: the set and its geometry.
        replays: :math:`m`.
        step_size: :math:`\alpha`, in the threat's units; None for the radius.

    Reference:
        Shafahi et al., Adversarial Training for Free!, NeurIPS 2019, arXiv:1904.12843, algorithm 1. Differs:
        :math:`x + \delta` is projected on the ball and the box together.
    """

    threat: Threat
    replays: int = 4
    step_size: float | None = None

    soft_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_metric_threat("free", self.threat)
        check_steps(1, self.step_size)
        if self.replays < 1:
            raise ValueError(f"replays must be at least 1, got {self.replays}")

    @property
    def passes(self) -> Passes:
        """Passes of one batch with all its replays."""
        return Passes(self.replays, self.replays)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a first replay, at the images themselves; `rng` is not used."""
        return Carried(self).forward(model, x, y)

    @property
    def hooks(self) -> Hooks:
        """The same with a perturbation that goes on."""
        return Hooks(replays=self.replays, start=self._start)

    def _start(self, model: nn.Module, classes: int, examples: Tensor) -> nn.Module:
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if distributed and torch.distributed.get_world_size() > 1:
            raise TrainingError("free: expected one process, since what each carries along is its own; got several")
        return Carried(self)


class Carried(nn.Module):
    """The objective with its state: the perturbation of each position in a batch.

    Args:
        objective: its settings.
    """

    def __init__(self, objective: Free) -> None:
        super().__init__()
        self.objective = objective
        self.perturbation = torch.zeros(0)

    def forward(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a replay; when they are differentiated, the perturbation moves."""
        x = x.detach()
        z = self.objective.threat.project(x + self._of(x), x).requires_grad_()
        follow: Any = z.register_hook  # of the images' gradient: not called when only weights are differentiated
        follow(partial(self._move, x, z.detach()))
        return Terms(mean_cross_entropy(model, z, y))

    def get_extra_state(self) -> Tensor:
        """The perturbation; an extra state, since its size is that of the batches, which only the loop knows."""
        return self.perturbation

    def set_extra_state(self, state: Tensor) -> None:
        """Resume from a saved perturbation."""
        self.perturbation = state

    def _of(self, x: Tensor) -> Tensor:
        """The perturbation of the positions of this batch; zero for new ones."""
        previous = self.perturbation[: len(x)].to(x)
        return torch.cat((previous, torch.zeros_like(x[len(previous) :]))) if len(previous) else torch.zeros_like(x)

    def _move(self, x: Tensor, z: Tensor, grad: Tensor) -> None:
        objective = self.objective
        step_size = objective.threat.eps if objective.step_size is None else objective.step_size
        moved = objective.threat.project(z + step_size * objective.threat.ascent(grad, z), x) - x
        rest = self.perturbation[len(x) :].to(x)
        self.perturbation = torch.cat((moved, rest)) if len(rest) else moved
