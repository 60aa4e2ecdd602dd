"""The question of nearest training images as the robust classifier, alone and mixed with a network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.attack import attack_settings, check_budget, chosen_attack
from holdfast.questions.mixing import BLOCK
from holdfast.questions.mixing.summary import (
    AtStrength,
    MixingSummary,
    Plan,
    check_strengths,
    grid_with,
    planned,
    summarise_mixing,
    written,
)
from holdfast.questions.presenting import rate_curve
from holdfast.questions.question import Context, Needs, Prepared
from holdfast.show.chart import Chart
from holdfast.show.figures import Figure, figure
from holdfast.show.items import Heading, Item
from holdfast.show.numbers import count, percent, several
from holdfast.show.table import Table

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.data.dataset import Split
    from holdfast.rng import Streams
    from holdfast.types import Ascent, Classifier

STRENGTHS = (0.001, 0.01, 0.1, 1.0)

CLIMBED = 10
"""Soft neighbours that attacks climb, at least."""

ATTACKS = {
    "clean": "clean images", "on_standard": "attack on the network", "itself": "attack on the mixture",
    "worst": "worst of all attacks",
}  # fmt: skip
"""Accuracies of a mixture, by the fields of `AtStrength`."""

EXPLANATION = (
    "The labels of the nearest training images as the robust classifier, alone and mixed with the network where its "
    "logits answer strongly to their input. A strength of 0 is the network alone, ∞ the neighbours alone. Attacks on "
    "neighbours climb a soft variant of them, which has a gradient."
)


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Nearest training images as the robust classifier, alone and mixed with the network (eq. 2), under attack.

    Args:
        k: numbers of neighbours.
        weights_of: weights of the neighbours, uniform or by distance.
        images: number of training images to look among, at most.
        strengths: strengths of the mixtures, such as 0.1,1,10; 0 and inf are added.
        norm: norm of the budget: linf, l2 or l1; goes with eps (default: linf).
        eps: budget, such as 8/255 (default: that of the run's attack).
        examples: number of test images at most, balanced over the classes.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        section 3, figures 5 and 9.
    """

    title: ClassVar = "Nearest neighbours"
    needs: ClassVar = Needs.NETWORK

    k: tuple[int, ...] = (1, 10, 100)
    weights_of: Literal["uniform", "distance"] = "uniform"
    images: int = 5000
    strengths: tuple[float, ...] = STRENGTHS
    norm: Literal["linf", "l2", "l1"] | None = None
    eps: float | None = None
    examples: int = 500

    def __post_init__(self) -> None:
        check_budget(self.norm, self.eps)
        check_strengths(self.strengths)
        if not self.k or min(self.k) < 1:
            raise ValueError(f"k: expected whole numbers from 1 on, such as 1,10,100; got {[*self.k]}")
        if min(self.images, self.examples) < 1:
            raise ValueError(f"images and examples must be at least 1, got {self.images} and {self.examples}")

    def prepared(self, context: Context) -> Prepared:
        """The measurement among the training images of the run."""
        from holdfast.data.dataset import subset

        if context.train is None:
            raise ValueError("the data has no training images to look up")
        images, examples = min(self.images, len(context.train)), min(self.examples, len(context.test))
        counts = tuple(sorted(set(self.k)))
        if counts[-1] > images:
            raise ValueError(f"k: expected whole numbers from 1 to the {images} training images, got {[*self.k]}")
        attack = chosen_attack(context, self.norm, self.eps)
        plan = Plan(grid_with(self.strengths), attack.threat.eps)
        settings = {
            **plan.settings(), **attack_settings(context, attack), "k": [*counts], "images": images,
            "examples": examples,
        }  # fmt: skip
        train = subset(context.train, images, context.seed)
        measurement = Measurement(train, len(context.classes), counts, self.weights_of, plan, attack)
        return Prepared(measurement, settings, BLOCK, examples)

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Accuracy against strength and against the number of neighbours, for each network."""
        sweeps = sweeps_of(answers)
        if sweeps:
            yield EXPLANATION
        for sweep in sweeps:
            yield Heading(sweep.title)
            yield f"{strength_words(sweep)} {count_words(sweep)}"
            yield from (strength_chart(sweep), count_chart(sweep))
            yield table(sweep)


@dataclass(frozen=True)
class Measurement:
    """Right answers of mixtures with several numbers of neighbours.

    Args:
        train: the images that are looked up.
        classes: number of classes.
        counts: numbers of neighbours.
        weights: of the neighbours.
        plan: strengths and aims.
        attack: at the plan's radius.
    """

    train: Split
    classes: int
    counts: Sequence[int]
    weights: Literal["uniform", "distance"]
    plan: Plan
    attack: Ascent
    columns: ClassVar[Mapping[str, str]] = {
        "right": "for each number of neighbours, which mixtures are right on the image and after each attack"
    }

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """Numbers of neighbours by tries by mixtures."""
        import torch

        from holdfast.modes import without_parameter_gradients

        with without_parameter_gradients(model):
            return {"right": torch.stack([self._right(k, model, x, y, rng) for k in self.counts], dim=1)}

    def _right(self, k: int, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Tensor:
        """Attacks climb soft neighbours, which have a gradient; a single one would have all the weight, and so none."""
        from holdfast.ensembles.mixing import LocalBias
        from holdfast.ensembles.neighbours import NearestNeighbours
        from holdfast.questions.attack import norm_of
        from holdfast.questions.mixing.measurement import attempts, mixtures, tried

        images, labels = self.train.batch(slice(None))
        images, labels = images.to(x), labels.to(x.device)
        bias = LocalBias(norm=cast("Any", norm_of(self.attack.threat)))
        oracle = NearestNeighbours(images, labels, self.classes, k=k, weights=self.weights)
        soft = NearestNeighbours(images, labels, self.classes, k=min(max(k, CLIMBED), len(images)), weights="soft")
        judged, aims = (mixtures(model, robust, bias, self.plan.strengths) for robust in (oracle, soft))
        return tried(judged, attempts(self.plan, aims, self.attack), x, y, rng=rng)


@dataclass(frozen=True)
class Sweep:
    """One network with several numbers of neighbours.

    Args:
        name: of the network.
        settings: the fields of the question.
        summaries: by the number of neighbours, rising.
    """

    name: str
    settings: Mapping[str, Any]
    summaries: Mapping[int, MixingSummary]

    @property
    def title(self) -> str:
        """The network, its neighbours and the attack."""
        neighbours = f"{self.settings['weights_of']} neighbours among {count(self.settings['images'])} images"
        return f"{self.name}, {neighbours}, {self.settings['attack']}"


def sweeps_of(answers: Answers) -> list[Sweep]:
    """Answers that differ in the numbers of neighbours alone stand together."""
    groups: dict[str, tuple[Answer, dict[int, MixingSummary]]] = {}
    for answer in answers:
        if len(answer.rows):
            settings = {name: value for name, value in answer.settings.items() if name != "k"}
            key = json.dumps([answer.place, answer.run, answer.key.weights_hash, answer.key.images, settings])
            _, summaries = groups.setdefault(key, (answer, {}))
            for place, k in enumerate(answer.settings["k"]):
                summaries[k] = summarise_mixing(answer.rows["right"].list.get(place), planned(answer.settings))
    return [
        Sweep(f"{answer.run} ({answer.key.weights})", answer.settings, dict(sorted(summaries.items())))
        for answer, summaries in groups.values()
    ]


def strength_chart(sweep: Sweep) -> Figure:
    """Figure 5 or 9: accuracy of the mixtures against their strength, a colour for each number of neighbours."""
    curves = tuple(
        rate_curve(ATTACKS[kind], [getattr(at, kind) for at in summary.strengths], run=place)
        for place, summary in enumerate(sweep.summaries.values())
        for kind in ("clean", "worst")
    )
    ticks = tuple(written(value) for value in planned(sweep.settings).strengths)
    chart = Chart("Network and neighbours", "strength α (0: network, ∞: neighbours)", curves, True, ticks=ticks)
    return figure(chart, [f"k = {k}" for k in sweep.summaries], "")


def count_chart(sweep: Sweep) -> Figure:
    """Accuracy of the neighbours alone against their number."""
    alone = [summary.strengths[-1] for summary in sweep.summaries.values()]
    names = {**ATTACKS, "itself": "attack on the neighbours"}
    curves = tuple(rate_curve(name, [getattr(at, kind) for at in alone]) for kind, name in names.items())
    ticks = tuple(str(k) for k in sweep.summaries)
    return figure(Chart("Neighbours alone", "number of neighbours k", curves, True, ticks=ticks), [sweep.name], "")


def strength_words(sweep: Sweep) -> str:
    """The best mixture, beside the network and the neighbours alone."""
    k, top = max(
        ((k, at) for k, summary in sweep.summaries.items() for at in summary.strengths),
        key=lambda one: (one[1].worst.value, one[1].clean.value),
    )
    first = next(iter(sweep.summaries.values()))
    return (
        f"On {several(first.examples, 'image')}, the worst case is best with k = {k} at strength "
        f"{written(top.mixture)}: {_two(top)}; the network alone has {_two(first.strengths[0])}."
    )


def count_words(sweep: Sweep) -> str:
    """The best number of neighbours without the network."""
    alone = {k: summary.strengths[-1] for k, summary in sweep.summaries.items()}
    k, top = max(alone.items(), key=lambda one: one[1].clean.value)
    return (
        f"Without the network most clean images are right with k = {k}: {percent(top.clean.value)}; attacks on the "
        f"network leave {percent(top.on_standard.value)}, attacks on soft neighbours {percent(top.itself.value)}."
    )


def table(sweep: Sweep) -> Table:
    """Every number of neighbours and strength."""
    rows = [
        (f"k = {k}, strength {written(at.mixture)}", [getattr(at, kind).cell for kind in ATTACKS])
        for k, summary in sweep.summaries.items()
        for at in summary.strengths
    ]
    columns = [name.capitalize() for name in ATTACKS.values()]
    return Table("Accuracy by number of neighbours and strength", "Mixture", columns, rows)


def _two(at: AtStrength) -> str:
    return f"{percent(at.worst.value)}, and {percent(at.clean.value)} of the clean images"
