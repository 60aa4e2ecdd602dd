"""Attacks of the Adversarial Robustness Toolbox (ART)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.attacks import foreign, libraries
from holdfast.attacks.libraries import Library
from holdfast.traits import Access
from holdfast.types import Threat

NORMS = {
    "BasicIterativeMethod": math.inf,
    "BoundaryAttack": 2,
    "CarliniL0Method": 0,
    "CarliniL2Method": 2,
    "CarliniLInfMethod": math.inf,
    "DeepFool": 2,
    "ElasticNet": 1,
    "NewtonFool": 2,
    "SignOPTAttack": 2,
    "VirtualAdversarialMethod": 2,
    "ZooAttack": 2,
}
"""The p of attacks that have one norm and no argument for it. Where nothing is known, the points found decide."""

WITHOUT_GRADIENTS = {
    **dict.fromkeys(("SquareAttack", "SimBA", "ZooAttack", "PixelAttack", "ThresholdAttack"), Access.SCORES),
    **dict.fromkeys(
        ("HopSkipJump", "BoundaryAttack", "GeoDA", "SignOPTAttack", "SpatialTransformation"), Access.DECISIONS
    ),
}
"""What attacks need that follow no gradient."""

SINGLE_STEP = ("FastGradientMethod",)

WALKS = ("BoundaryAttack", "HopSkipJump")
"""Attacks that walk from a success to a success."""


def _make(wanted: libraries.Foreign, model: libraries.Bridge, *, targeted: bool, seed: int) -> libraries.Made:
    art = libraries.package("art", "attacks.evasion", "estimators.classification", install="'holdfast[art]'")
    kind = libraries.chosen(wanted.attack, _available_attacks(art))
    order, has = libraries.ORDERS[type(wanted.threat)], inspect.signature(kind).parameters
    if wanted.attack in NORMS:
        libraries.same_norm(wanted, (NORMS[wanted.attack],))
    ours: dict[str, Any] = {name: _classifier(art, model) for name in ("estimator", "classifier")}
    ours |= {"eps": wanted.threat.eps, "targeted": targeted, "verbose": False, "summary_writer": False}
    if "norm" in has and has["norm"].default != "wasserstein":
        libraries.same_norm(wanted, (1, 2, math.inf))
        ours["norm"] = order
    given = libraries.arguments(kind, wanted.options, ours)
    if targeted and "targeted" not in has:
        raise libraries.wrong_aim(targeted)
    attack = libraries.built(kind, given)

    def find(x: Tensor, labels: Tensor, **start: Any) -> Any:
        one_hot = nn.functional.one_hot(labels, model.classes)
        return attack.generate(x=x.cpu().numpy(), y=one_hot.cpu().numpy(), **start)

    def find_from(x: Tensor, labels: Tensor, start: Tensor) -> Any:
        return find(x, labels, x_adv_init=start.cpu().numpy())

    return libraries.Made(find, "eps" in given, find_from if wanted.attack in WALKS else None)


def _classifier(art: Any, model: libraries.Bridge) -> Any:
    return art.estimators.classification.PyTorchClassifier(
        model=model,
        loss=nn.CrossEntropyLoss(),
        input_shape=tuple(model.images.shape[1:]),
        nb_classes=model.classes,
        clip_values=(0.0, 1.0),
        device_type="gpu" if model.images.is_cuda else "cpu",
    )


def _available_attacks(art: Any) -> dict[str, Any]:
    base = art.attacks.attack.EvasionAttack
    kinds = vars(art.attacks.evasion).items()
    return {name: kind for name, kind in kinds if inspect.isclass(kind) and issubclass(kind, base)}


LIBRARY = Library("art", _make, dtypes=(torch.float32,), without_gradients=WITHOUT_GRADIENTS, single_step=SINGLE_STEP)


@dataclass(frozen=True, kw_only=True)
class ART:
    """An attack of the Adversarial Robustness Toolbox (extra `art`), which computes in float32.

    An attack with an `eps` gets the threat's, one with a `norm` its norm. Where it minimises a distance instead, a
    point beyond eps is no success: the image itself is returned. Examples that are lost already are not attacked.
    HopSkipJump and BoundaryAttack draw their start from a generator that nobody can seed: their results vary. Where
    they find none, they get an image of another class, if there are images.

    Args:
        attack: name of a class in `art.attacks.evasion`, such as ProjectedGradientDescent or CarliniL2Method.
        threat: its norm must be the attack's.
        options: keyword arguments of the class.
        together: examples that the library gets at a time. With 1, the result does not depend on the batch and
            queries are counted exactly; more is faster, but then examples share random numbers and queries.

    Reference:
        Nicolae et al., Adversarial Robustness Toolbox v1.0.0, 2018, arXiv:1807.01069.
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
