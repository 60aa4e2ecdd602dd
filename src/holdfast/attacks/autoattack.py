"""AutoAttack: complementary attacks without parameters, each on what the others left standing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.attacks.apgd import APGD
from holdfast.attacks.apgd_targeted import TargetedAPGD
from holdfast.attacks.eot import EOT
from holdfast.attacks.fab import FAB
from holdfast.attacks.search import Aim
from holdfast.attacks.square import SQUARES, Square
from holdfast.losses import cross_entropy, difference_of_logits_ratio
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.threat.l1 import L1
from holdfast.traits import Access
from holdfast.types import Attack, Classifier, Threat
from holdfast.wrappers import narrow

RESTARTS = 5
"""Restarts of the untargeted attacks of the version `plus`, and of APGD-CE in l1."""

SPARSE_TARGETS = 5
"""Targets of APGD-T in l1, at most."""


@dataclass(frozen=True, kw_only=True)
class AutoAttack:
    """A model's robustness by the attacks that together leave least to chance; an example stands if it stands all.

    - `standard`: APGD on the cross-entropy, APGD-T, FAB-T, Square.
    - `plus`: APGD on the cross-entropy and on the DLR loss and FAB, each with 5 restarts, Square, APGD-T, FAB-T.
    - `rand`, for stochastic models: APGD on the cross-entropy and on the DLR loss, through the mean of 20 draws.

    In l1, APGD has 5 restarts and APGD-T at most 5 targets. With fewer than four classes the margin takes the place of
    the DLR loss, and there are never more targets than wrong classes. Every attack starts at the clean image, with
    random numbers of its own, so that the set of broken examples is the same in whatever order they run.

    Args:
        threat: linf, l2 or l1.
        version: which attacks.
        steps: gradient steps of APGD and FAB.
        targets: classes that APGD-T and FAB-T try.
        queries: of Square.

    Reference:
        Croce, Hein, Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse Parameter-free Attacks,
        ICML 2020, arXiv:2003.01690; in l1 Croce, Hein, Mind the Box, ICML 2021, arXiv:2103.01208. The defaults are the
        published budgets. Differs: an example leaves an attack as soon as it falls.
    """

    access: ClassVar = Access.GRADIENTS

    threat: Threat
    version: Literal["standard", "plus", "rand"] = "standard"
    steps: int = 100
    targets: int = 9
    queries: int = 5000

    def __post_init__(self) -> None:
        if type(self.threat) not in SQUARES:
            raise ValueError(f"autoattack: expected linf, l2 or l1; got {type(self.threat).__name__.lower()}")
        if self.version not in VERSIONS:
            raise ValueError(f"autoattack: unknown version '{self.version}'; known: {', '.join(VERSIONS)}")
        self.components()  # refuses numbers that one of them refuses

    def components(self) -> Mapping[str, Attack]:
        """The attacks by name, in the published order."""
        return VERSIONS[self.version](self)

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """A point that the model gets wrong where one of the attacks finds one, otherwise the image itself.

        With `target`, the attacks aim at that class and only it counts.
        """
        points, rng = x.detach().clone(), streams(rng, x)
        aim = Aim.of(cross_entropy, y, target)
        standing = torch.arange(len(x), device=x.device)
        standing = standing[~_reached(model, points, aim)]
        for name, attack in self.components().items():
            if not len(standing):
                break
            part, aimed = narrow(model, standing), None if target is None else target[standing]
            z = attack(part, x[standing], y[standing], target=aimed, rng=rng[standing].split(name))
            lost = _reached(part, z, aim[standing])
            points[standing[lost]] = z[lost]
            standing = standing[~lost]
        return points


@torch.no_grad()
def _reached(model: Classifier, z: Tensor, aim: Aim) -> Tensor:
    return aim.reached(model(z)) if len(z) else torch.zeros(0, dtype=torch.bool, device=z.device)


def _standard(how: AutoAttack) -> Mapping[str, Attack]:
    sparse = isinstance(how.threat, L1)
    return {
        "apgd-ce": APGD(threat=how.threat, steps=how.steps, restarts=RESTARTS if sparse else 1),
        "apgd-t": _targeted(how, min(how.targets, SPARSE_TARGETS) if sparse else how.targets),
        "fab-t": FAB(threat=how.threat, steps=how.steps, targets=how.targets, until_lost=True),
        "square": Square(threat=how.threat, queries=how.queries),
    }


def _plus(how: AutoAttack) -> Mapping[str, Attack]:
    dlr = difference_of_logits_ratio
    return {
        "apgd-ce": APGD(threat=how.threat, steps=how.steps, restarts=RESTARTS),
        "apgd-dlr": APGD(threat=how.threat, steps=how.steps, restarts=RESTARTS, loss=dlr),
        "fab": FAB(threat=how.threat, steps=how.steps, restarts=RESTARTS, until_lost=True),
        "square": Square(threat=how.threat, queries=how.queries),
        "apgd-t": _targeted(how, how.targets),
        "fab-t": FAB(threat=how.threat, steps=how.steps, targets=how.targets, until_lost=True),
    }


def _rand(how: AutoAttack) -> Mapping[str, Attack]:
    dlr = difference_of_logits_ratio
    return {
        "apgd-ce": EOT(attack=APGD(threat=how.threat, steps=how.steps)),
        "apgd-dlr": EOT(attack=APGD(threat=how.threat, steps=how.steps, loss=dlr)),
    }


def _targeted(how: AutoAttack, targets: int) -> Attack:
    return TargetedAPGD(threat=how.threat, steps=how.steps, targets=targets)


VERSIONS: dict[str, Callable[[AutoAttack], Mapping[str, Attack]]] = {
    "standard": _standard,
    "plus": _plus,
    "rand": _rand,
}
"""The attacks of each version."""
