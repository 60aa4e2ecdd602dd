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
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from holdfast.attacks.persistence import make_persistent
from holdfast.ensembles.composite import Pair, aimed
from holdfast.ensembles.magnitudes import class_magnitudes
from holdfast.ensembles.mixing import GradientRatio, Probability
from holdfast.ensembles.neighbours import NearestNeighbours
from holdfast.modes import in_evaluation_mode, without_parameter_gradients
from holdfast.objectives.policy import STRENGTHS
from holdfast.questions.attack import norm_of
from holdfast.questions.mixing.summary import POINTS, Aim, Plan, Try, grid_with
from holdfast.questions.question import Context
from holdfast.rng import Streams, streams
from holdfast.threat.linf import Linf
from holdfast.threat.radius import with_radius
from holdfast.types import Ascent, Attack, Classifier, Mixing, Threat

if TYPE_CHECKING:
    from holdfast.questions.mixing import Mixtures

WHO = ("standard", "robust")

RADII = (0.5, 1.5, 2.0)
"""Other radii, in units of eps, where none are stated."""


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
    """The images, and then what each attempt makes of them: the point of highest loss."""
    rng = streams(rng, x)
    yield x
    for one in attempts:
        yield make_persistent(one.attack)(one.aim, x, y, rng=rng.split(one.name)).detach()


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
    """What is kept of each image.

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
            both = gradient_sizes(*pair, z, attack.threat)
            sizes.update({f"{who}_{points[number]}": size for who, size in zip(WHO, both, strict=True)})
    return {"right": torch.stack(right, dim=1), **sizes}


@dataclass(frozen=True)
class PairOfNetworks:
    """What is mixed.

    Args:
        standard: the accurate network.
        robust: the robust one.
        mixing: how.
        whole: the composite that the two came in, None for two runs.
        settings: what distinguishes this pair from others.
    """

    standard: Classifier
    robust: Classifier
    mixing: Mixing
    whole: Any
    settings: Mapping[str, str]


def pair_of(question: Mixtures, context: Context, attack: Attack) -> PairOfNetworks:
    """The two networks of a composite, or the network of the run and another.

    Raises:
        ValueError: if one is missing or there are too many.
        ModelError: if they do not fit together.
    """
    model: Any = context.model
    if isinstance(model, Pair):
        for name in ("robust", "mixing"):
            if getattr(question, name) is not None or (name == "mixing" and question.gradients != "classes"):
                raise ValueError(f"{name}: the run is of a composite, which has its own; expected none")
        if isinstance(model.robust, NearestNeighbours):
            raise ValueError("the composite looks up neighbours; ask `holdfast analyse neighbours`")
        settings = {"robust": "", "robust_hash": "", **_mixing_settings(model.mixing)}
        return PairOfNetworks(model.standard, model.robust, model.mixing, model, settings)
    if question.robust is None:
        raise ValueError("robust: expected the robust run or its weights, since the run is not of a composite")
    other = context.load(Path(question.robust.replace("{seed}", str(context.seed))))
    if isinstance(other.model, Pair):
        raise ValueError(f"robust: {question.robust} is a composite itself; expected one network")
    norm: Any = norm_of(attack.threat)
    mixing = question.mixing or GradientRatio(norm=norm, gradients=question.gradients)
    settings = {"robust": other.name, "robust_hash": other.weights_hash, **_mixing_settings(mixing)}
    return PairOfNetworks(model, other.model, mixing, None, settings)


def _mixing_settings(mixing: Mixing) -> dict[str, str]:
    """A way to mix in words, and all its fields."""
    words = type(mixing).__name__
    if isinstance(mixing, GradientRatio):
        words = f"gradient ratios of {'all classes' if mixing.gradients == 'classes' else 'the largest logits'}"
    if isinstance(mixing, Probability):
        words = f"probabilities{'' if mixing.transform is None else ', the robust logits transformed'}"
    return {"mixing": words, "mixing_params": repr(mixing)}


def plan_of(question: Mixtures, pair: PairOfNetworks, threat: Threat) -> Plan:
    """What is tried: a composite's own strength is among the strengths, and its policy, too."""
    grid = grid_with(STRENGTHS if question.strengths is None else question.strengths)
    stated = (question.at, getattr(pair.whole, "strength", None), grid[len(grid) // 2])
    at = next(one for one in stated if one is not None)
    radii = question.radii
    if radii is None:
        radii = tuple(share * threat.eps for share in RADII if share * threat.eps <= 1 or not isinstance(threat, Linf))
    return Plan(grid_with(grid, at), threat.eps, tuple(sorted({*radii})), at, hasattr(pair.whole, "policy"))


@dataclass(frozen=True)
class MixingMeasurement:
    """Right answers of every mixture after every attack, and magnitudes of gradients.

    Args:
        pair: the two networks and how they are mixed.
        plan: what is tried.
        attack: at the plan's own radius.
    """

    pair: PairOfNetworks
    plan: Plan
    attack: Ascent
    columns: ClassVar[Mapping[str, str]] = {
        "right": "which mixtures are right on the image and after each attack",
        **{
            f"{who}_{points}": f"magnitudes of the gradients of the {who} network by class, {points.replace('_', ' ')}"
            for points in POINTS
            for who in WHO
        },
    }

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """Tries by mixtures, and magnitudes by class."""
        pair = (self.pair.standard, self.pair.robust)
        classifiers = mixtures(*pair, self.pair.mixing, self.plan.strengths)
        classifiers += [self.pair.whole] if self.plan.adaptive else []
        # without, attacks through gradients of many classes hold one block of them
        with without_parameter_gradients(*pair):
            return mixing_measures(self.plan, pair, classifiers, self.attack, x, y, rng=rng)
