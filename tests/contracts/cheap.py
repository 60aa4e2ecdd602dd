"""One cheap instance of every method in a registry; a new entry needs its line here, or the suite fails."""

import dataclasses

import pytest

from holdfast.attacks import (
    APGD,
    BIM,
    CW,
    DDN,
    FAB,
    FGSM,
    FMN,
    NES,
    PGD,
    RFGSM,
    SPSA,
    Boundary,
    CWLinf,
    DeepFool,
    EightBit,
    HopSkipJump,
    SimBA,
    Square,
    Targeted,
    TargetedAPGD,
)
from holdfast.augment import HorizontalFlip, RandomCrop
from holdfast.corruptions import Clean, GaussianNoise, UniformNoise
from holdfast.losses import cross_entropy, difference_of_logits_ratio, margin
from holdfast.models import MODELS
from holdfast.objectives import Adversarial, CleanAndNoisy, Noisy, Stability, Standard
from holdfast.threat import L1, L2, Linf

THREATS = {"linf": Linf(0.1), "l2": L2(0.4), "l1": L1(1.0)}

ATTACKS = {  # functions of the threat
    "fgsm": lambda threat: FGSM(threat=threat),
    "pgd": lambda threat: PGD(threat=threat, steps=5, restarts=2),
    "apgd": lambda threat: APGD(threat=threat, steps=10, restarts=2),
    "apgd_targeted": lambda threat: TargetedAPGD(threat=threat, steps=10, targets=3),
    "fab": lambda threat: FAB(threat=threat, steps=6, restarts=2, targets=2),
    "deepfool": lambda threat: DeepFool(threat=threat, steps=5, candidates=4),
    "ddn": lambda threat: DDN(threat=threat, steps=10, init=0.3),
    "fmn": lambda threat: FMN(threat=threat, steps=10),
    "cw": lambda threat: CW(threat=threat, steps=15, searches=3, step_size=0.05, constant=0.1),
    "cw_linf": lambda threat: CWLinf(threat=threat, steps=10, rounds=4, step_size=0.05, constant=0.1, largest=1.0),
    "rfgsm": lambda threat: RFGSM(threat=threat, share=0.25),
    "bim": lambda threat: BIM(threat=threat, steps=5),
    "square": lambda threat: Square(threat=threat, queries=40, loss=cross_entropy),
    "simba": lambda threat: SimBA(threat=threat, steps=24, basis="dct"),
    "spsa": lambda threat: SPSA(threat=threat, steps=6, pairs=8, step_size=0.05, loss=cross_entropy),
    "nes": lambda threat: NES(threat=threat, steps=6, pairs=8),
    "hopskipjump": lambda threat: HopSkipJump(threat=threat, steps=4, samples=20),
    "boundary": lambda threat: Boundary(threat=threat, steps=60),
    "eight_bit": lambda threat: EightBit(attack=PGD(threat=threat, steps=5), repairs=3),
    "targeted": lambda threat: Targeted(attack=PGD(threat=threat, steps=5), at="random"),
}

CHOOSES_ITS_TARGET = {"targeted"}
"""Attacks that aim at a class of their own choice when none is given."""

REFUSES: dict[str, set[str]] = {
    "deepfool": {"l1"},
    "ddn": {"l1", "linf"},
    "cw": {"l1", "linf"},
    "cw_linf": {"l1", "l2"},
    "hopskipjump": {"l1"},
    "boundary": {"l1", "linf"},
}
"""Threats that an attack does not have; making it with one of them must be a ValueError."""

WITHOUT_GRADIENT: set[str] = {"square", "simba", "spsa", "nes", "hopskipjump", "boundary"}
"""Attacks that only look at outputs."""

MAY_GIVE_UP: set[str] = {"boundary", "hopskipjump", "cw", "cw_linf", "ddn", "deepfool", "fab", "fmn"}
"""Attacks that return the image itself where they find nothing within the budget."""

LOSSES = {"cross_entropy": cross_entropy, "margin": margin, "dlr": difference_of_logits_ratio}

OBJECTIVES = {
    "standard": Standard(label_smoothing=0.1),
    "noisy": Noisy(sigma=0.2),
    "clean_and_noisy": CleanAndNoisy(sigma=0.2, weight=0.5),
    "stability": Stability(sigma=0.2, weight=0.5),
    "adversarial": Adversarial(attack=PGD(threat=Linf(0.1), steps=2, until_lost=False)),
}

CORRUPTIONS = {"clean": Clean(), "gaussian_noise": GaussianNoise(0.2), "uniform_noise": UniformNoise(0.2)}

AUGMENTATIONS = {"random_crop": RandomCrop(padding=2), "horizontal_flip": HorizontalFlip()}

EXTERNAL = {"python", "timm", "torchvision"}
"""Models whose insides are somebody else's; they have tests of their own."""

_ATTRIBUTES = {"resnet50": {"blocks": (1, 1, 1, 1)}, "vit-tiny": {"depth": 2}, "densenet": {"depth": 10}}


def _narrow(name):
    prototype = MODELS[name]
    known = {field.name for field in dataclasses.fields(prototype)}
    width = {"width": 0.05 if "-10" in name else 0.125} if "width" in known else {}
    depth = {"depth": 10} if name.startswith("wrn") else {}
    return dataclasses.replace(prototype, **width, **depth, **_ATTRIBUTES.get(name, {}))


MODEL_NAMES = [
    "linear",
    "mlp",
    "cnn",
    "lenet",
    "cnn6",
    "cnn8",
    "resnet10",
    "resnet18",
    "resnet34",
    "resnet50",
    "preactresnet18",
    "wrn-40-1",
    "wrn-40-2",
    "wrn-28-10",
    "wrn-34-10",
    "allconv",
    "densenet",
    "mobilenetv3-small",
    "vit-tiny",
]

CHEAP_MODELS = {name: _narrow(name) for name in MODEL_NAMES}


def cheap(instances, name, family):
    """The cheap instance of a registry's entry; without one the test fails and says what to do."""
    if name not in instances:
        pytest.fail(f"'{name}' is in {family} without a cheap instance: add one to tests/contracts/cheap.py")
    return instances[name]
