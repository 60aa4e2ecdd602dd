"""Attacks that are made to transfer: one loop, and stages that change the direction it climbs along."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.search import Aim, require_box, require_metric_threat
from holdfast.attacks.stages.input_diversity import InputDiversity
from holdfast.attacks.stages.loss_ensemble import LossEnsemble
from holdfast.attacks.stages.momentum import Momentum
from holdfast.attacks.stages.scale_copies import ScaleCopies
from holdfast.attacks.stages.stage import Climb, Stage
from holdfast.attacks.stages.translation_kernel import TranslationKernel
from holdfast.attacks.stages.variance import Variance
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.threat.l1 import L1
from holdfast.threat.linf import Linf
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat


@dataclass(frozen=True, kw_only=True)
class TransferLoop:
    r"""Steps along a direction that stages make of the gradient, to the end; the last point is returned.

    .. math:: z_{t+1} = \Pi_{S(x)}\bigl(z_t + \alpha\, s(d_t(z_t))\bigr), \qquad
        d = \text{stage}_n(\cdots \text{stage}_1(\nabla_z \ell(f(z), y)))

    :math:`S` is the threat set and :math:`s` the direction in which its norm climbs. What is best on this classifier is
    not what transfers best, so that no point on the way is preferred and no example leaves.

    Args:
        threat: the set :math:`S` and its geometry, linf or l2.
        steps: how many.
        step_size: :math:`\alpha`, in the threat's units; None means that all steps together are `length` radii long.
        length: of all steps together, in radii, where no `step_size` is given.
        loss: per-example loss to climb.
        stages: what is done to the gradient, the first one first.
        random_start: start uniformly in the ball instead of at `x`.

    Reference:
        Dong et al., Boosting Adversarial Attacks with Momentum, CVPR 2018, arXiv:1710.06081, and those of the stages.
    """

    access: ClassVar = Access.GRADIENTS
    persistent: ClassVar = True

    threat: Threat
    steps: int = 10
    step_size: float | None = None
    length: float = 2.5
    loss: Loss = cross_entropy
    stages: tuple[Stage, ...] = ()
    random_start: bool = False

    def __post_init__(self) -> None:
        require_metric_threat("transfer_loop", self.threat)
        if isinstance(self.threat, L1):
            raise ValueError("transfer_loop has no l1 attack, since each step there moves other values: use linf or l2")
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")
        for name in ("step_size", "length"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {value}")
        if any(isinstance(stage, LossEnsemble) for stage in self.stages[1:]):
            raise ValueError("stages: expected loss_ensemble first, since it replaces the gradient")
        require_order(self.stages)

    @property
    def thorough(self) -> bool:
        """Whether it takes several steps."""
        return self.steps > 1

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The last point of each example."""
        x, rng = require_box(x), streams(rng, x)
        z = self.threat.sample(x, rng.split("start")) if self.random_start else x.clone()
        step_size = self.length * self.threat.eps / self.steps if self.step_size is None else self.step_size
        climb = Climb(model, Aim.of(self.loss, y, target), self.threat, step_size, self.steps, z)
        direction = climb.gradient_of(model)
        for number, stage in enumerate(self.stages):
            direction = stage(direction, climb, rng.split(f"stage {number}"))
        for climb.step in range(self.steps if len(x) else 0):
            move = step_size * self.threat.ascent(direction(climb.z), climb.z)
            climb.z = self.threat.project(climb.z + move, x)
        return climb.z


def require_order(stages: tuple[Stage, ...]) -> None:
    """Refuse a stage that remembers the last step inside one that asks for the slope several times a step.

    It would take each question for a step: a momentum of copies of one image, a variance between them.
    """
    for number, stage in enumerate(stages):
        later = [one for one in stages[number + 1 :] if getattr(one, "repeats", False)]
        if getattr(stage, "remembers", False) and later:
            name, other = (type(one).__name__ for one in (stage, later[0]))
            raise ValueError(
                f"stages: expected {other} before {name}; {other} asks for the slope several times a step, each of "
                f"which {name} would take for a step"
            )


PLAIN = TransferLoop(threat=Linf(8 / 255))
"""The loop without stages, for recipes to add some."""

# As in torchattacks 3.5.1: 8/255, ten steps of 2/255; DI and TI have no momentum, and TI contains DI.
MI = replace(PLAIN, stages=(Momentum(),))
NI = replace(PLAIN, stages=(Momentum(look_ahead=True),))
VMI = replace(PLAIN, stages=(Variance(), Momentum()))
VNI = replace(PLAIN, stages=(Variance(), Momentum(look_ahead=True)))
SINI = replace(PLAIN, stages=(ScaleCopies(), Momentum(look_ahead=True)))
DI = replace(PLAIN, stages=(InputDiversity(),))
TI = replace(PLAIN, stages=(InputDiversity(), TranslationKernel()))

# As in TransferAttack, and in the papers: 16/255, ten steps of 1.6/255, 20 neighbours, images that grow, momentum
# throughout. (The name of its SINI is SIM where it does not look ahead.)
_WIDE = replace(PLAIN, threat=Linf(16 / 255), length=1.0)
MI_TRANSFERATTACK = replace(_WIDE, stages=MI.stages)
NI_TRANSFERATTACK = replace(_WIDE, stages=NI.stages)
VMI_TRANSFERATTACK = replace(_WIDE, stages=(Variance(neighbours=20), Momentum()))
VNI_TRANSFERATTACK = replace(_WIDE, stages=(Variance(neighbours=20), Momentum(look_ahead=True)))
SINI_TRANSFERATTACK = replace(_WIDE, stages=SINI.stages)
DI_TRANSFERATTACK = replace(_WIDE, stages=(InputDiversity(rate=1.1), Momentum()))
TI_TRANSFERATTACK = replace(_WIDE, stages=(TranslationKernel(), Momentum()))
