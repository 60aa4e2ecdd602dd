"""Attacks of foolbox."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from holdfast.attacks import foreign, libraries
from holdfast.attacks.libraries import Library
from holdfast.traits import Access
from holdfast.types import Threat

WITHOUT_GRADIENTS = {
    "GenAttack": Access.SCORES,
    **dict.fromkeys(
        (
            "BoundaryAttack", "HopSkipJumpAttack", "PointwiseAttack", "BinarizationRefinementAttack", "DatasetAttack",
            "InversionAttack", "GaussianBlurAttack", "SaltAndPepperNoiseAttack", "L2ContrastReductionAttack",
            "BinarySearchContrastReductionAttack", "LinearSearchContrastReductionAttack",
            "LinearSearchBlendedUniformNoiseAttack", "L2AdditiveGaussianNoiseAttack", "L2AdditiveUniformNoiseAttack",
            "L2ClippingAwareAdditiveGaussianNoiseAttack", "L2ClippingAwareAdditiveUniformNoiseAttack",
            "L2ClippingAwareRepeatedAdditiveGaussianNoiseAttack", "L2ClippingAwareRepeatedAdditiveUniformNoiseAttack",
            "L2RepeatedAdditiveGaussianNoiseAttack", "L2RepeatedAdditiveUniformNoiseAttack",
            "LinfAdditiveUniformNoiseAttack", "LinfRepeatedAdditiveUniformNoiseAttack",
        ),
        Access.DECISIONS,
    ),
}  # fmt: skip
"""What attacks need that follow no gradient."""

SINGLE_STEP = ("FGSM", "FGM", "L1FastGradientAttack", "L2FastGradientAttack", "LinfFastGradientAttack")

WALKS = ("BoundaryAttack", "HopSkipJumpAttack")
"""Attacks that walk from a success to a success."""


def _make(wanted: libraries.Foreign, model: libraries.Bridge, *, targeted: bool, seed: int) -> libraries.Made:
    foolbox = libraries.package("foolbox", install="'holdfast[foolbox]'")
    order = libraries.ORDERS[type(wanted.threat)]
    kind = libraries.chosen(wanted.attack, _available_attacks(foolbox))
    ours = {
        "distance": foolbox.distances.LpDistance(order),
        "constraint": type(wanted.threat).__name__.lower(),
        "tensorboard": False,
    }
    given = libraries.arguments(kind, wanted.options, ours)
    if "constraint" in given:
        libraries.same_norm(wanted, (2, math.inf))
    attack = libraries.built(kind, given)
    if kind is not foolbox.attacks.PointwiseAttack:  # which does not say, and is judged by what it finds
        libraries.same_norm(wanted, (attack.distance.p,))
    criterion = foolbox.criteria.TargetedMisclassification if targeted else foolbox.criteria.Misclassification
    budgeted = isinstance(attack, foolbox.attacks.base.FixedEpsilonAttack)
    budget = {"epsilon": wanted.threat.eps} if budgeted else {}

    def find(x: Tensor, labels: Tensor, **start: Tensor) -> Any:
        wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device=x.device)
        try:
            return attack.run(wrapped, x, criterion(labels), **budget, **start)
        except ValueError as error:
            if "init_attack failed" in str(error) or "starting_points are not adversarial" in str(error):
                return x
            raise libraries.wrong_aim(targeted) if str(error) == "unsupported criterion" else error from None

    def find_from(x: Tensor, labels: Tensor, start: Tensor) -> Any:
        return find(x, labels, starting_points=start)

    walks = isinstance(attack, tuple(getattr(foolbox.attacks, name) for name in WALKS))
    return libraries.Made(find, budgeted, find_from if walks else None)


def _available_attacks(foolbox: Any) -> dict[str, Any]:
    base = foolbox.attacks.base
    kinds = {name: kind for name, kind in vars(foolbox.attacks).items() if inspect.isclass(kind)}
    return {n: k for n, k in kinds.items() if issubclass(k, base.FixedEpsilonAttack | base.MinimizationAttack)}


LIBRARY = Library("foolbox", _make, without_gradients=WITHOUT_GRADIENTS, single_step=SINGLE_STEP)


@dataclass(frozen=True, kw_only=True)
class Foolbox:
    """An attack of foolbox (extra `foolbox`).

    Attacks with a budget get eps, those that minimise a distance search without a bound. A point beyond eps is no
    success: the image itself is returned. Examples that are lost already are not attacked. Where BoundaryAttack
    or HopSkipJumpAttack has no starting point, it gets an image of another class, if there are images.

    Args:
        attack: name of a class in `foolbox.attacks`, such as LinfPGD or L2CarliniWagnerAttack.
        threat: its norm must be the attack's.
        options: keyword arguments of the class.
        together: examples that the library gets at a time. With 1, the result does not depend on the batch and
            queries are counted exactly; more is faster, but then examples share random numbers and queries.

    Reference:
        Rauber et al., Foolbox Native: Fast Adversarial Attacks to Benchmark the Robustness of Machine Learning Models
        in PyTorch, TensorFlow, and JAX, JOSS 2020.
    """

    attack: str
    threat: Threat
    options: Mapping[str, Any] = field(default_factory=dict)
    together: int = 1

    library: ClassVar[Library] = LIBRARY
    access = property(foreign.access)
    thorough = property(foreign.thorough)
    __call__ = foreign.run

    def __post_init__(self) -> None:
        foreign.check(self)
