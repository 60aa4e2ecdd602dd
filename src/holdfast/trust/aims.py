"""Conditions that other aims of the same adversary show: other losses, targets, and parts of the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from holdfast.attacks.apgd_targeted import TargetedAPGD
from holdfast.attacks.transfer import Transferred
from holdfast.attacks.usual import usual
from holdfast.ensembles.composite import Composite, Pair, aimed
from holdfast.ensembles.defences import Defended
from holdfast.ensembles.mixing import attackable
from holdfast.ensembles.views import GroupView
from holdfast.errors import ModelError
from holdfast.losses import LOSSES, margin
from holdfast.trust.attacks import Case, beaten_by_any
from holdfast.trust.verdict import Verdict
from holdfast.types import Attack, Classifier
from holdfast.wrappers import Defence, network, replaced

ONE_PIECE = "the network is neither a composite nor behind a known wrapper, so that it has no parts to aim at"


def other_losses(case: Case) -> Verdict:
    """Does Auto-PGD on another loss, or towards single classes, break what the attack in question does not?"""
    attack = usual(case.attack.threat)
    tries: dict[str, Attack] = {
        f"`apgd` on {name}": replace(attack, loss=loss)
        for name, loss in LOSSES.usable()
        if loss is not case.attack.loss
    }
    tries["`apgd_targeted`"] = TargetedAPGD(threat=attack.threat, steps=attack.steps)  # each target is a start
    left = {name: case.held(one, case.standing) for name, one in tries.items()}
    needed = " and ".join(_needed(case, left))
    return _judged("losses", case, left, f"the loss misleads the attack: run {needed} too, and quote the worst case")


@dataclass(frozen=True)
class Part:
    """A classifier inside another one that takes the same images.

    Args:
        name: in words.
        classifier: the part.
        check: how to attack it in an evaluation.
    """

    name: str
    classifier: Classifier
    check: str


def parts(case: Case) -> Verdict:
    """Do attacks on parts of the network break what the attack on the whole does not?

    A mixture may hide the gradient of a classifier in it, and a wrapper that of the one behind it; what is found there
    is tried on the whole.
    """
    attack = replace(usual(case.attack.threat), loss=margin, until_lost=False)
    checks: dict[str, str] = {}
    left: dict[str, Tensor] = {}
    for part in parts_of(case.model):
        try:
            left[f"an attack on {part.name}"] = case.held(
                Transferred(attack=attack, source=part.classifier), case.standing
            )
        except ModelError:  # a part without a gradient, such as a vote of neighbours
            continue
        checks[f"an attack on {part.name}"] = part.check
    if not left:
        return Verdict(flag="parts", level="pass", finding=ONE_PIECE, evidence="attacks")
    needed = " and ".join(checks[name] for name in _needed(case, left))
    remedy = f"the whole hides the gradient of its parts: run {needed} too, and quote the worst case"
    return _judged("parts", case, left, remedy)


def _needed(case: Case, left: Mapping[str, Tensor]) -> list[str]:
    """The attacks that together break what any of them does, the one that breaks most first."""
    standing, names = case.standing, []
    for name in sorted(left, key=lambda name: int(left[name].sum())):
        if bool((standing & ~left[name]).any()):
            names.append(name)
            standing = standing & left[name]
    return names


def _judged(flag: str, case: Case, left: Mapping[str, Tensor], remedy: str) -> Verdict:
    """The verdict on attacks that leave these examples standing, with the accuracies that it is about."""
    verdict = beaten_by_any(flag, case, left, remedy)
    under_all = torch.stack([case.standing, *left.values()]).all(0)
    before, after = (100 * float(held.double().mean()) for held in (case.standing, under_all))
    return replace(verdict, finding=f"{verdict.finding} (accuracy: {before:.1f} %, with them {after:.1f} %)")


def parts_of(model: Classifier) -> Iterator[Part]:
    """Every classifier inside a model that takes the same images: of composites, of groups, and behind wrappers."""
    yield from _of_composites(model)
    view = network(model)
    if isinstance(view, GroupView) and view.pooling == "maximum":
        sums = view.around(view.wrapped, pooling="sum")
        yield Part("the sums of the probabilities of groups", sums, "`hierarchical` with `view: sum`")
    for name, classifier in _unwrapped(model):
        part = f"the classifier inside {name}"
        yield Part(part, classifier, f"an attack on {part} (in Python `Transferred(attack=..., source=...)`)")


SIDES: dict[str, tuple[Callable[[Pair], Classifier], str]] = {
    "the accurate classifier": (lambda pair: pair.standard, "strength 0"),
    "the robust classifier": (lambda pair: pair.robust, "strength .inf"),
    "the composite without the gradient of its policy": (lambda pair: aimed(pair, None), "strength null"),
    "the composite without its transformation": (lambda pair: _untransformed(pair), "the strength of the composite"),
}
"""What an adversary may aim at in a composite, with the strength that the check `aimed` has for it."""


def _untransformed(pair: Pair) -> Classifier:
    """A composite of fixed strength without what flattens gradients; one that has nothing of the kind itself."""
    fixed = isinstance(pair, Composite) and attackable(pair.mixing) != pair.mixing
    return aimed(pair, pair.strength) if fixed else pair  # type: ignore[arg-type]


def _of_composites(model: Classifier) -> Iterator[Part]:
    for name, (side, strength) in SIDES.items():
        part = replaced(model, Pair, side)
        if part is not model:
            yield Part(name, part, f"`aimed` with {strength}")
            yield from (replace(inner, name=f"{inner.name} of {name}") for inner in _of_composites(part))


def _unwrapped(model: Classifier) -> Iterator[tuple[str, Classifier]]:
    """The model with one of its wrappers left out, for each of them, under the name of the wrapper."""
    inside = network(model)
    wrapper = inside.wrapper if isinstance(inside, Defended) else inside
    if isinstance(wrapper, Defence):
        yield type(wrapper).__name__, wrapper.inside
        yield from ((name, wrapper.around(inner)) for name, inner in _unwrapped(wrapper.wrapped))
