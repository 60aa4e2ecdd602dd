"""What a recipe holds. Every field is a field of a method, or one of these few groups."""

from __future__ import annotations

import math
import re
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, NewType

from holdfast.attacks.persistence import check_persistent
from holdfast.attacks.schedule import StepSchedule
from holdfast.attacks.stages.stage import Stage
from holdfast.certify.sampling import Sampling
from holdfast.checks import Check
from holdfast.corruptions.noise import Clean
from holdfast.data.dataset import Source
from holdfast.data.hierarchies import Grouping
from holdfast.ensembles.defences import InputDefence
from holdfast.families import (
    ARCHITECTURES,
    ATTACKS,
    AUGMENTATIONS,
    CERTIFIERS,
    CHECKS,
    CORRUPTIONS,
    DATASETS,
    DEFENCES,
    EMBEDDING_DISTANCES,
    HIERARCHIES,
    LOSSES,
    MIXINGS,
    OBJECTIVES,
    OPTIMIZERS,
    QUESTIONS,
    SAMPLINGS,
    SCHEDULES,
    STAGES,
    STEP_SCHEDULES,
    THREATS,
)  # fmt: skip
from holdfast.objectives.embedding_distances import EmbeddingDistance
from holdfast.objectives.standard import Standard
from holdfast.optim.optimizers import SGD, Optimizer
from holdfast.optim.schedules import Cosine, Schedule
from holdfast.questions.question import Question
from holdfast.recipe.consistency import (
    refuse_theory,
    refuse_training_settings,
    require_fit_data,
    require_fitting_labels,
    require_growing_threat,
)
from holdfast.recipe.foreign import Unresolved
from holdfast.registry import Registry
from holdfast.types import Architecture, Attack, Augmentation, Certifier, Corruption, Loss, Mixing, Objective, Threat

Seconds = NewType("Seconds", float)
"""A time span. Recipes and the command line may write `90s`, `10min` or `1.5h`."""

FAMILIES: dict[Any, Registry[Any]] = {
    Attack: ATTACKS,
    Architecture: ARCHITECTURES,
    Augmentation: AUGMENTATIONS,
    Certifier: CERTIFIERS,
    Check: CHECKS,
    Corruption: CORRUPTIONS,
    EmbeddingDistance: EMBEDDING_DISTANCES,
    Grouping: HIERARCHIES,
    InputDefence: DEFENCES,
    Loss: LOSSES,
    Mixing: MIXINGS,
    Objective: OBJECTIVES,
    Optimizer: OPTIMIZERS,
    Question: QUESTIONS,
    Sampling: SAMPLINGS,
    Schedule: SCHEDULES,
    Source: DATASETS,
    Stage: STAGES,
    StepSchedule: STEP_SCHEDULES,
    Threat: THREATS,
}
"""Where a field of each type finds its names: classes, ready-made instances to change, or plain functions."""

NAMES = {"Attack": Attack, "Corruption": Corruption, "Loss": Loss, "Mixing": Mixing, "Threat": Threat}
"""Families in the annotations of questions, whose modules do not import them, since they start without torch."""


def hints_of(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields."""
    return typing.get_type_hints(kind, localns=NAMES)


@dataclass(frozen=True, kw_only=True)
class DataRecipe:
    """Which images.

    Args:
        source: a data set by name, or a path with its reader.
        hierarchy: groups of its classes, and what mistakes cost: a name of `holdfast list hierarchies`, or a `table` or
            `file` of your own; None for that of the source, of which most have none.
        view: other labels: the name of a level, whose groups become the classes, or of a level and a group, such as
            group/animals, for the classes of this group alone. All images are chosen before, so that views of the same
            data have the same images.
        validation: share of the training images held out, stratified by class, for model selection.
        subset: use only this many training images, validation included, balanced over the classes.
        test_subset: test on this many images, drawn at random and balanced over the classes.
        test_seed: seed of this draw, so that all seeds and variants of a recipe are tested on the same images; training
            and validation images are drawn with the seed of the run.
        test_first: test on the first so many images instead, as published protocols often do.
        augment: random changes of training images, in this order.
    """

    source: Source
    hierarchy: Grouping | None = None
    view: str | None = None
    validation: float = 0.0
    subset: int | None = None
    test_subset: int | None = None
    test_seed: int = 0
    test_first: int | None = None
    augment: tuple[Augmentation, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation must lie in [0, 1), got {self.validation}")
        _at_least(1, subset=self.subset, test_subset=self.test_subset, test_first=self.test_first)
        _at_least(0, test_seed=self.test_seed)
        if self.test_subset is not None and self.test_first is not None:
            raise ValueError("expected test_subset or test_first, got both")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which weights are the best, judged on the validation images, never on the test images.

    Args:
        metric: what to compare.
        attack: for robust_accuracy: an example counts if it is right at the point this attack finds. For
            transfer_rate: the attack on the network that is trained, such as mi.
        target: for transfer_rate: a held-out network, which is in no table: directory of a run (its best weights, else
            its last) or one weights file; `{seed}` in it stands for the seed of the run. Compared is the error rate of
            the target at these points, on the validation images that it gets right without an attack.
        corruptions: for corrupted_accuracy: every validation image is changed by one of these, in turn, and always in
            the same way; none given means the ten kinds of C-bar at severities 1 to 5, which no test here uses.
        every: epochs between two judgements.
        patience: stop after so many judgements without a better one.
    """

    metric: Literal["accuracy", "loss", "robust_accuracy", "corrupted_accuracy", "transfer_rate"] = "accuracy"
    attack: Attack | None = None
    target: str | None = None
    corruptions: tuple[Corruption, ...] = ()
    every: int = 1
    patience: int | None = None

    def __post_init__(self) -> None:
        _at_least(1, every=self.every, patience=self.patience)
        if self.metric in ("robust_accuracy", "transfer_rate") and self.attack is None:
            raise ValueError(f"metric {self.metric} needs an attack")
        if (self.metric == "transfer_rate") != (self.target is not None):
            raise ValueError(f"expected the metric transfer_rate and a target together; got {self.metric}")
        if self.metric == "transfer_rate" and self.attack is not None and not isinstance(self.attack, Unresolved):
            check_persistent("selection", self.attack)
        if self.corruptions and self.metric != "corrupted_accuracy":
            raise ValueError(f"corruptions go with the metric corrupted_accuracy, got {self.metric}")


@dataclass(frozen=True, kw_only=True)
class FabricRecipe:
    """Where and how training runs: arguments of Lightning Fabric.

    Args:
        accelerator: cpu, cuda, mps or auto.
        devices: how many.
        precision: such as 32-true, bf16-mixed, 16-mixed, 64-true.
        strategy: auto, ddp, ...
    """

    accelerator: str = "auto"
    devices: int = 1
    precision: str = "32-true"
    strategy: str = "auto"

    def __post_init__(self) -> None:
        _at_least(1, devices=self.devices)


Freeze = Literal["features"]
"""What training may leave as it is."""

MOST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class TrainRecipe:
    """How to train.

    Args:
        objective: what to minimise.
        epochs: passes over the training images.
        batch_size: images per step, over all devices.
        optimizer: how to step.
        schedule: how the learning rate changes.
        warmup: epochs of linear rise before.
        threat_warmup: share of training over which the budget of the objective's adversary rises linearly to its full
            size; the first remedy where adversarial training collapses to a constant answer.
        l1: weight of the sum of the absolute values of all parameters, which is added to the objective; the L2 penalty
            is the optimizer's `weight_decay`.
        clip: largest norm of the gradient.
        ema: decay of a running mean of the weights; the mean is what is judged and saved.
        selection: which weights are best.
        fabric: device, precision and strategy.
        init_from: directory of a run of the same network, or its weights file, to start from instead of fresh weights;
            `{seed}` in it stands for the seed of the run.
        freeze: `features` trains the head alone, on features that stay as they are, statistics of BatchNorm included;
            beside `init_from` the head keeps its fresh weights, and the other run may have had other classes.
        keep_every: also keep the weights of every so many epochs, to follow how robustness changes during training.
    """

    objective: Objective = field(default_factory=Standard)
    epochs: int = 20
    batch_size: int = 128
    optimizer: Optimizer = field(default_factory=SGD)
    schedule: Schedule = field(default_factory=Cosine)
    warmup: float = 0.0
    threat_warmup: float = 0.0
    l1: float = 0.0
    clip: float | None = None
    ema: float | None = None
    selection: Selection = field(default_factory=Selection)
    fabric: FabricRecipe = field(default_factory=FabricRecipe)
    init_from: str | None = None
    freeze: Freeze | None = None
    keep_every: int | None = None

    def __post_init__(self) -> None:
        _at_least(1, epochs=self.epochs, batch_size=self.batch_size, keep_every=self.keep_every)
        if max(self.epochs, self.batch_size) > MOST:
            raise ValueError(f"epochs and batch_size must be at most {MOST:,}, got {self.epochs} and {self.batch_size}")
        _at_least(0, warmup=self.warmup)
        require_growing_threat(self.threat_warmup, self.objective)
        if not 0 <= self.l1 < math.inf:
            raise ValueError(f"l1 must be finite and not negative, got {self.l1}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, got {self.clip}")
        if self.ema is not None and not 0 < self.ema < 1:
            raise ValueError(f"ema must lie between 0 and 1, got {self.ema}")
        if self.init_from is not None and not self.init_from.strip():
            raise ValueError("init_from: expected the directory of a run or a weights file, got nothing")


@dataclass(frozen=True, kw_only=True)
class EvaluateRecipe:
    """How checks run; none of it changes what they find beyond rounding.

    Args:
        block: examples, in the order of their indices, are cut into blocks of this many, the unit of resume.
        batch_size: images per forward pass.
        gallery: how many perturbed images to keep for the report.
        order: in which the components of a composed attack run: as published, or by examples broken per second,
            measured on a few examples that go through all of them. The examples broken in the end are the same.
        budget: time for the checks of the run, such as 10min; what it leaves out is named, and runs when the command
            is repeated.
        channels_last: run a copy of the network that keeps the channels of an image together in memory, which makes
            convolutions and pooling faster on many machines; the same up to rounding and ties between maxima.
    """

    block: int = 256
    batch_size: int = 256
    gallery: int = 8
    order: Literal["published", "yield"] = "published"
    budget: Seconds | None = None
    channels_last: bool = False

    def __post_init__(self) -> None:
        _at_least(1, block=self.block, batch_size=self.batch_size)
        _at_least(0, gallery=self.gallery, budget=self.budget)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One run: data, model, training and checks under one seed.

    Args:
        name: of the run, with its variant and seed; also its directory.
        seed: of everything random.
        data: which images.
        model: which network.
        train: how to train it.
        checks: what to try on it.
        evaluate: how the checks run.
        analyses: what to ask about it after the checks.
        epoch_checks: what to try on the weights that `train.keep_every` keeps, and on those of the last epoch.
    """

    name: str
    seed: int = 0
    data: DataRecipe
    model: Architecture
    train: TrainRecipe = field(default_factory=TrainRecipe)
    checks: tuple[Check, ...] = (Clean(),)
    evaluate: EvaluateRecipe = field(default_factory=EvaluateRecipe)
    analyses: tuple[Question, ...] = ()
    epoch_checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        parts = self.name.split("/")
        if not all(re.fullmatch(r"\w[\w.=+ -]*", part) for part in parts):
            raise ValueError(f"name: letters, digits and . = + - _ with / between parts expected, got {self.name!r}")
        metric = self.train.selection.metric
        if metric in ("robust_accuracy", "corrupted_accuracy", "transfer_rate") and not self.data.validation:
            raise ValueError(f"selection by {metric} needs data.validation > 0")
        if self.train.selection.patience is not None and not self.data.validation:
            raise ValueError("selection.patience needs data.validation > 0")
        if not self.checks:
            raise ValueError("checks: at least one expected")
        if self.epoch_checks and self.train.keep_every is None:
            raise ValueError("epoch_checks: expected train.keep_every, the epochs from one check to the next; got none")
        require_fitting_labels(self.data.augment, self.train.objective)
        refuse_theory(self.analyses)
        if not getattr(self.model, "trainable", True):
            refuse_training_settings(self.train)
            require_fit_data(getattr(self.model, "fit", None), self.data, self.checks)


def _at_least(low: int, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not value >= low:
            raise ValueError(f"{name} must be at least {low}, got {value}")
