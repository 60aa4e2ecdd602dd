"""Attacks of torchattacks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from holdfast.attacks import foreign, libraries
from holdfast.attacks.libraries import Library
from holdfast.traits import Access
from holdfast.types import Threat

WITHOUT_GRADIENTS = {
    **dict.fromkeys(("Square", "OnePixel", "Pixle", "SPSA"), Access.SCORES),
    **dict.fromkeys(("GN", "VANILA"), Access.NOTHING),
}
"""What attacks need that follow no gradient."""

SINGLE_STEP = ("FGSM", "FFGSM")


def _make(wanted: libraries.Foreign, model: libraries.Bridge, *, targeted: bool, seed: int) -> libraries.Made:
    torchattacks = libraries.package("torchattacks", install="--no-deps torchattacks")
    names = set(torchattacks.__all__) - set(torchattacks.__wrapper__)
    kind = libraries.chosen(wanted.attack, {name: getattr(torchattacks, name) for name in names})
    if norms := _norms(kind):
        libraries.same_norm(wanted, norms)
    eps = wanted.threat.eps
    ours = {
        "model": model, "eps": eps, "max_epsilon": eps, "norm": type(wanted.threat).__name__.capitalize(),
        "n_classes": model.classes, "seed": seed, "verbose": False,
    }  # fmt: skip
    given = libraries.arguments(kind, wanted.options, ours)
    attack = libraries.built(kind, given)
    if targeted:
        if "targeted" not in attack.supported_mode:
            raise libraries.wrong_aim(targeted)
        attack.set_mode_targeted_by_label(quiet=True)
    return libraries.Made(attack, "eps" in given or "max_epsilon" in given)


def _norms(kind: Any) -> tuple[float, ...]:
    """The p of the norms that the class's documentation names, empty where it names none."""
    match = re.search(r"Distance Measure\s*:(.*)", inspect.getdoc(kind) or "")
    return tuple(float(p) for p in re.findall(r"L(inf|\d)", match[1])) if match else ()


LIBRARY = Library(  # some of its attacks fail in float64
    "torchattacks", _make, dtypes=(torch.float32,), without_gradients=WITHOUT_GRADIENTS, single_step=SINGLE_STEP
)


@dataclass(frozen=True, kw_only=True)
class Torchattacks:
    """An attack of torchattacks (`pip install --no-deps torchattacks`), computed in float32.

    An attack with an `eps` gets the threat's, one with a `norm` its norm. Where it minimises a distance instead, a
    point beyond eps is no success: the image itself is returned. Examples that are lost already are not attacked.

    Args:
        attack: name of a class in `torchattacks`, such as PGD or CW.
        threat: its norm must be one that the class's documentation names.
        options: keyword arguments of the class.
        together: examples that the library gets at a time. With 1, the result does not depend on the batch and
            queries are counted exactly; more is faster, but then examples share random numbers, queries and, in some
            attacks, when to stop.

    Reference:
        Kim, Torchattacks: A PyTorch Repository for Adversarial Attacks, 2020, arXiv:2010.01950.
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
