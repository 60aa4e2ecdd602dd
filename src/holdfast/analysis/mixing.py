r"""Mixtures of two classifiers under attacks that aim at other mixtures of the same two.

Every attack is run on one classifier and what it finds is tried on all of them. With the mixtures of a grid of
strengths as both, one table of right answers holds accuracy against the strength :math:`\alpha` under any attack,
accuracy against the strength :math:`\alpha_t` that an attack aims at, and the worst case of each image.

Reference:
    Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
    sections 5.1 and 6, figures 2 to 10.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from holdfast.analysis.mixing_plan import POINTS, Aim, Plan, Try
from holdfast.analysis.mixing_summary import MixingSummary
from holdfast.attacks.to_the_end import to_the_end
from holdfast.ensembles.composite import aimed
from holdfast.ensembles.crossing import crossing
from holdfast.ensembles.magnitudes import class_magnitudes
from holdfast.ensembles.mixing import Mixing
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.threat import with_radius
from holdfast.types import Attack, Classifier, Threat

WHO = ("standard", "robust")


@dataclass(frozen=True)
class Attempt:
    """An attack on one classifier, whatever its points are tried on.

    Args:
        name: of its random streams.
        attack: the attack.
        aim: the classifier that it climbs.
    """

    name: str
    attack: Attack
    aim: Classifier


def mixtures(standard: Classifier, robust: Classifier, mixing: Mixing, strengths: Sequence[float]) -> list[Classifier]:
    """The mixture of each strength; 0 is the accurate classifier and infinity the robust one."""
    ends = {0.0: standard, math.inf: robust}
    return [ends.get(strength) or partial(mixing, standard, robust, strength=strength) for strength in strengths]


def attempts(plan: Plan, aims: Sequence[Classifier], attack: Attack) -> list[Attempt]:
    """The attacks of a plan but for the first, which leaves images as they are.

    Args:
        plan: what is tried.
        aims: what attacks climb for each aim of the plan, in its order; usually the mixtures themselves.
        attack: how, at its own radius; others are the same in a ball of another size.
    """
    climbed: dict[Aim | None, Classifier] = dict(zip(plan.aims, aims, strict=True))
    return [Attempt(_name(one), resized(attack, one.eps), climbed[one.aim]) for one in plan.tries[1:]]


def _name(one: Try) -> str:
    return f"eps {one.eps!r} aim {one.aim!r}"


def resized(attack: Attack, eps: float) -> Attack:
    """The attack in a ball of another radius; a step of given length grows with it."""
    change: Any = replace
    fields: dict[str, Any] = {"threat": with_radius(attack.threat, eps)}
    step_size = getattr(attack, "step_size", None)
    if step_size is not None:
        fields["step_size"] = step_size * eps / attack.threat.eps
    changed: Attack = change(attack, **fields)
    return changed


def attacked(attempts: Sequence[Attempt], x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Iterator[Tensor]:
    """The images, and then what each attempt makes of them: the point of highest loss that it finds."""
    rng = streams(rng, x)
    yield x
    for one in attempts:
        yield to_the_end(one.attack)(one.aim, x, y, rng=rng.split(one.name)).detach()


@in_evaluation_mode
@torch.no_grad()
def right_answers(classifiers: Sequence[Classifier], z: Tensor, y: Tensor) -> Tensor:
    """Which of the classifiers are right about which image, (N, M)."""
    return torch.stack([classifier(z).argmax(1) == y for classifier in classifiers], dim=1)


def tried(
    classifiers: Sequence[Classifier], attempts: Sequence[Attempt], x: Tensor, y: Tensor, *, rng: Streams | None = None
) -> Tensor:
    """Right answers of all classifiers at the images and at the points of every attempt, (N, 1 + A, M)."""
    return torch.stack([right_answers(classifiers, z, y) for z in attacked(attempts, x, y, rng=rng)], dim=1)


def crossing_of(found: MixingSummary, plan: Plan) -> float:
    """The aim up to which the robust classifier is better, see `crossing`; an aim at a policy is no strength."""
    aims = [at for at in found.aims if not isinstance(at.aim, str)]
    return crossing(plan.strengths, [at.standard.value for at in aims], [at.robust.value for at in aims])


@in_evaluation_mode
def gradient_sizes(standard: Classifier, robust: Classifier, z: Tensor, ball: Threat) -> tuple[Tensor, Tensor]:
    r""":math:`\|\nabla g_i(z)\|_*` and :math:`\|\nabla h_i(z)\|_*`, (N, K) each."""
    sizes = [class_magnitudes(model, z.detach(), ball)[1] for model in (standard, robust)]
    return sizes[0], sizes[1]


@in_evaluation_mode
def mixing_measures(
    plan: Plan,
    pair: tuple[Classifier, Classifier],
    classifiers: Sequence[Classifier],
    attack: Attack,
    x: Tensor,
    y: Tensor,
    *,
    rng: Streams | None = None,
) -> Mapping[str, Tensor]:
    """What `holdfast analyse mixing` keeps of each image.

    Args:
        plan: what is tried.
        pair: the accurate and the robust classifier, whose gradients are measured. Mixtures of strength 0 and infinity
            have the same answers, but not always the same logits.
        classifiers: the mixtures of the plan; the composite with a policy last, if there is one.
        attack: at the plan's own radius.
        x: images, (N, ...).
        y: labels.
        rng: random streams of the images.

    Returns:
        `right`, (N, T, M): tries and mixtures as the plan has them; and `standard_<points>` and `robust_<points>`,
        (N, K) each, for points at the images and at those of attacks on each of the two alone.
    """
    right, sizes = [], {}
    aims = [*classifiers, aimed(classifiers[-1], None)] if plan.adaptive else classifiers
    points = {plan.tries.index(Try(plan.eps if aim is not None else 0.0, aim)): name for name, aim in POINTS.items()}
    for number, z in enumerate(attacked(attempts(plan, aims, attack), x, y, rng=rng)):
        right.append(right_answers(classifiers, z, y))
        if number in points:
            found = gradient_sizes(*pair, z, attack.threat)
            sizes.update({f"{who}_{points[number]}": size for who, size in zip(WHO, found, strict=True)})
    return {"right": torch.stack(right, dim=1), **sizes}
