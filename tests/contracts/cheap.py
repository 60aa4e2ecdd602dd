"""One cheap instance of every method in a registry; a new entry needs its line here, or the suite fails."""

import copy
import dataclasses
import importlib.util
import math

import pytest
import torch

from holdfast.attacks import (
    APGD,
    ART,
    BIM,
    CW,
    DDN,
    EOT,
    FAB,
    FGSM,
    FMN,
    NES,
    PGD,
    RFGSM,
    SPSA,
    Aimed,
    AutoAttack,
    Boundary,
    CWLinf,
    DeepFool,
    EightBit,
    Foolbox,
    Hierarchical,
    HierarchicalHalving,
    HierarchicalPGD,
    HopSkipJump,
    SimBA,
    Square,
    Targeted,
    TargetedAPGD,
    Torchattacks,
    TransferLoop,
    transfer_loop,
)
from holdfast.attacks.stages import InputDiversity, Momentum, ReversePerturbation, Variance
from holdfast.augment import (
    AugMix,
    DeepAugment,
    HorizontalFlip,
    PixMix,
    RandAugment,
    RandomCrop,
    Spider,
    TrivialAugment,
)
from holdfast.certify import (
    GaussianSmoothing,
    GroupCertificate,
    LaplaceSmoothing,
    Margin,
    MixtureMargin,
    MixtureSmoothing,
    SmoothedMargin,
    UniformSmoothing,
)
from holdfast.corruptions import (
    BandNoise,
    Bar,
    Chain,
    Clean,
    Common,
    DownUp,
    EnergyFilter,
    GaussianNoise,
    LowPass,
    Occlusion,
    Stripes,
    UniformNoise,
)
from holdfast.corruptions import Linear as LinearCorruption
from holdfast.ensembles import AdaptiveComposite, Composite, Probability, SharedHAR
from holdfast.hierarchy import hierarchy_of, with_hierarchy
from holdfast.losses import cross_entropy, difference_of_logits_ratio, margin
from holdfast.models import MODELS
from holdfast.models.basis import InBasis
from holdfast.modes import evaluating
from holdfast.objectives import (
    AWP,
    CURE,
    FOAR,
    LLR,
    MART,
    MCR,
    MMA,
    MSCR,
    SAM,
    SOAR,
    TRADES,
    Adversarial,
    Alarm,
    Align,
    Annealing,
    Center,
    CleanAndNoisy,
    Discriminative,
    Fast,
    Free,
    HierarchicalCrossEntropy,
    Hint,
    InputGradient,
    Jacobian,
    JensenShannon,
    LargeMargin,
    MulticlassHinge,
    Noisy,
    PolicyTraining,
    SeverityLabels,
    SmoothedCrossEntropy,
    Stability,
    Standard,
    TruncatedMargin,
    Zhen,
)
from holdfast.questions.bands import Bands
from holdfast.questions.classes import Classes
from holdfast.questions.confidences import Confidences
from holdfast.questions.curvature import Curvature
from holdfast.questions.features import Features
from holdfast.questions.flatness import Flatness
from holdfast.questions.fourier_heatmap import FourierHeatmap
from holdfast.questions.gradient_norm import GradientNorm
from holdfast.questions.gradient_spectrum import GradientSpectrum
from holdfast.questions.head_spectrum import HeadSpectrum
from holdfast.questions.linear_dynamics import LinearDynamics
from holdfast.questions.lipschitz import Lipschitz
from holdfast.questions.mixing import Mixtures
from holdfast.questions.neighbours import Neighbours
from holdfast.questions.segment import Segments
from holdfast.questions.similarity import Similarity
from holdfast.questions.spectrum import Spectrum
from holdfast.questions.sra import SmoothedRobustness
from holdfast.questions.stability import NoiseStability
from holdfast.questions.surface import LossSurface
from holdfast.questions.thickness import Thickness
from holdfast.threat import L0, L1, L2, Linf
from holdfast.wrappers import behind, network
from tests.zoo import linear

THREATS = {"linf": Linf(0.1), "l2": L2(0.4), "l1": L1(1.0), "l0": L0(3)}

COUNTS = {"l0"}
"""Threats that count changed values. They are no norms: their balls are not convex, a longer step changes no more
values than a short one, and there is no dual norm. tests/threat/test_l0.py has what holds instead."""


def _foreign(kind, name, threat, **options):
    """An attack of another library; the test is skipped where it is not installed."""
    if importlib.util.find_spec(kind.__name__.lower()) is None:
        pytest.skip(f"{kind.__name__.lower()} is not installed")
    return kind(attack=name, threat=threat, options=options)


def _foolbox(threat):
    name = {L2: "L2PGD", L1: "L1PGD"}.get(type(threat), "LinfPGD")
    return _foreign(Foolbox, name, threat, steps=5, rel_stepsize=0.5)


def _torchattacks(threat):
    return _foreign(Torchattacks, "PGDL2" if isinstance(threat, L2) else "PGD", threat, steps=5, alpha=0.05)


def _prototype(prototype):
    """A prototype in another threat, with few steps and neighbours, and few images that change their size.

    Those have slopes that other pixels share, which the weights of a random linear network do not.
    """
    cheaper = {Variance: {"neighbours": 2}, InputDiversity: {"probability": 0.2}}

    def made(threat):
        stages = [dataclasses.replace(stage, **cheaper.get(type(stage), {})) for stage in prototype.stages]
        return dataclasses.replace(prototype, threat=threat, steps=4, stages=tuple(stages))

    return made


def _art(threat):
    # In l1 it climbs one coordinate, even where the box stops it: it may not come back from a random start.
    options = {"max_iter": 5, "eps_step": threat.eps / 2, "num_random_init": 0 if isinstance(threat, L1) else 1}
    return _foreign(ART, "ProjectedGradientDescent", threat, **options)


TRANSFER = [
    f"{short}{of}" for of in ("", "_transferattack") for short in ("mi", "ni", "vmi", "vni", "sini", "di", "ti")
]
"""Prototypes of published attacks."""


@dataclasses.dataclass(frozen=True)
class OfAnyClasses:
    """A method on a hierarchy, for networks of any number of classes: every class is a group, or every two are one.

    With a class in each group the method promises what one without a hierarchy promises.
    """

    method: object
    size: int = 1

    def __getattr__(self, name):
        return getattr(self.method, name)

    def on(self, classes):
        """The method on the hierarchy of so many classes."""
        names = [str(label) for label in range(classes)]
        size = min(self.size, classes - 1)  # two groups at least
        groups = {f"g{start}": names[start : start + size] for start in range(0, classes, size)}
        return with_hierarchy(self.method, hierarchy_of(names, {"group": groups}))

    def __call__(self, model, x, *args, **options):
        with evaluating(network(model)), torch.no_grad():
            classes = network(model)(x[:1] if len(x) else x.new_zeros(1, *x.shape[1:])).shape[1]
        return self.on(classes)(model, x, *args, **options)


def bound(method, classes):
    """The method itself, on the hierarchy of so many classes if it needs one."""
    return method.on(classes) if isinstance(method, OfAnyClasses) else method


ATTACKS = {  # functions of the threat
    "fgsm": lambda threat: FGSM(threat=threat),
    "pgd": lambda threat: PGD(threat=threat, steps=5, restarts=2),
    "apgd": lambda threat: APGD(threat=threat, steps=10, restarts=2),
    "apgd_targeted": lambda threat: TargetedAPGD(threat=threat, steps=20, targets=3),
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
    "autoattack": lambda threat: AutoAttack(threat=threat, steps=8, targets=2, queries=20),
    "eot": lambda threat: EOT(attack=PGD(threat=threat, steps=5), draws=2),
    "aimed": lambda threat: Aimed(attack=PGD(threat=threat, steps=5), strength=1.0),
    "hierarchical": lambda threat: OfAnyClasses(Hierarchical(attack=PGD(threat=threat, steps=5, restarts=2))),
    "hierarchical_pgd": lambda threat: OfAnyClasses(HierarchicalPGD(threat=threat, steps=5)),
    "hierarchical_halving": lambda threat: OfAnyClasses(
        HierarchicalHalving(threat=threat, steps=8, candidates=3, targets=2)
    ),
    "targeted": lambda threat: Targeted(attack=PGD(threat=threat, steps=5), at="random"),
    "transfer_loop": lambda threat: TransferLoop(
        threat=threat, steps=4, stages=(ReversePerturbation(steps=2), Momentum(decay=0.9)), random_start=True
    ),
    **{name: _prototype(getattr(transfer_loop, name.upper())) for name in TRANSFER},
    "foolbox": _foolbox,
    "torchattacks": _torchattacks,
    "art": _art,
}

CHOOSES_ITS_TARGET = {"targeted"}
"""Attacks that aim at a class of their own choice when none is given."""

REFUSES: dict[str, set[str]] = {
    **{name: {"l1"} for name in ("transfer_loop", *TRANSFER)},
    "deepfool": {"l1"},
    "ddn": {"l1", "linf"},
    "cw": {"l1", "linf"},
    "cw_linf": {"l1", "l2"},
    "hopskipjump": {"l1"},
    "boundary": {"l1", "linf"},
    "torchattacks": {"l1"},
}
"""Threats that an attack does not have; making it with one of them must be a ValueError."""

for _name in sorted(set(ATTACKS) - {"fgsm", "fmn"}):  # those that wrap an attack refuse with the PGD inside
    REFUSES.setdefault(_name, set()).update(COUNTS)

MAY_GIVE_UP: set[str] = {
    *("autoattack", "boundary", "hopskipjump", "cw", "cw_linf", "ddn", "deepfool", "fab", "fmn"),
    *("hierarchical_halving", "hierarchical_pgd"),
}
"""Attacks that return the image itself where they find nothing within the budget."""

LOSSES = {"cross_entropy": cross_entropy, "margin": margin, "dlr": difference_of_logits_ratio}


class Shown(torch.nn.Module):
    """A fixed classifier whose first feature map is the image."""

    def __init__(self, seed, like):
        super().__init__()
        self.inside = linear(3, like.shape[1:], seed=seed, dtype=like.dtype)

    def stages(self, x):
        yield x

    def forward(self, x):
        return self.inside(x)


class Beta(torch.nn.Module):
    """A policy made of a classifier."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, of_standard, of_robust):
        logits = self.model(of_standard)
        return logits @ torch.linspace(-1, 2, logits.shape[1], dtype=logits.dtype)


@dataclasses.dataclass(frozen=True)
class OfPolicy:
    """An objective that trains policies, which makes one of the classifier it is given."""

    objective: PolicyTraining

    @property
    def passes(self):
        return self.objective.passes

    def __call__(self, model, x, y, *, rng=None):
        composite = AdaptiveComposite(Shown(1, x), Shown(2, x), Probability(), Beta(model))
        return self.objective(composite, x, y, rng=rng)


OBJECTIVES = {
    "standard": Standard(label_smoothing=0.1),
    "noisy": Noisy(sigma=0.2),
    "clean_and_noisy": CleanAndNoisy(sigma=0.2, weight=0.5),
    "stability": Stability(sigma=0.2, weight=0.5),
    "discriminative": Discriminative(noise=GaussianNoise(0.2), augment=(RandomCrop(padding=1),), delta_v=0.1),
    "center": Center(weight=0.1),
    "large_margin": LargeMargin(m=3, annealing=Annealing(base=1.0)),
    "adversarial": Adversarial(attack=PGD(threat=Linf(0.1), steps=2, until_lost=False)),
    "trades": TRADES(threat=Linf(0.1), steps=2),
    "mart": MART(threat=L2(0.4), steps=2),
    "mma": MMA(threat=Linf(0.2), steps=2, searches=5, least=0.05),
    "fast": Fast(threat=Linf(0.1), alarm=Alarm(examples=4, steps=2)),
    "free": Free(threat=Linf(0.1), replays=2),
    "awp": AWP(objective=TRADES(threat=Linf(0.1), steps=2), gamma=1e-3),
    "sam": SAM(objective=Noisy(sigma=0.2), rho=0.05),
    "soar": SOAR(threat=Linf(0.1), draws=2, clip=50.0),
    "foar": FOAR(threat=L2(0.4)),
    "cure": CURE(weight=0.5),
    "llr": LLR(threat=Linf(0.1), steps=2),
    "input_gradient": InputGradient(weight=0.1),
    "jacobian": Jacobian(projections=2),
    "jensen_shannon": JensenShannon(augment=(AugMix(), Spider(tau=1.0)), weight=2.0),
    "mscr": MSCR(d=20.0, sigma=0.2),
    "mcr": MCR(d=20.0),
    "zhen": Zhen(d=20.0, sigma=0.2),
    "multiclass_hinge": MulticlassHinge(d=0.3),
    "truncated_margin": TruncatedMargin(d=20.0),
    "smoothed_cross_entropy": SmoothedCrossEntropy(sigma=0.2),
    "align": Align(witnesses=("a", "b"), embedding=Hint()).on([linear(3, seed=seed) for seed in (1, 2)]),
    "hierarchical_cross_entropy": OfAnyClasses(
        HierarchicalCrossEntropy(attack=Hierarchical(attack=PGD(threat=Linf(0.1), steps=2))), size=2
    ),
    "severity_labels": OfAnyClasses(SeverityLabels(beta=2.0), size=2),
    "policy": OfPolicy(PolicyTraining(threat=Linf(0.1), steps=2, strengths=(0.0, 1.0, math.inf))),
}

QUESTIONS = {
    "thickness": Thickness(points=5, steps=2),
    "flatness": Flatness(radii=(0.0, 0.5), draws=2),
    "gradient_norm": GradientNorm(norm="linf"),
    "classes": Classes(delta_v=1.0),
    "features": Features(noise=GaussianNoise(0.2), maps=("pca", "tsne"), images=6, points=4, resamples=3),
    "head_spectrum": HeadSpectrum(),
    "spectrum": Spectrum(),
    "bands": Bands(bands=3, draws=2, variance=0.1),
    "fourier_heatmap": FourierHeatmap(length=0.5),
    "gradient_spectrum": GradientSpectrum(),
    "lipschitz": Lipschitz(lower_steps=2, starts=2),
    "surface": LossSurface(along=("fgsm", "pgd@other"), show=(3, 30), steps=1, eps=0.1),
    "confidences": Confidences(eps=0.1),
    "curvature": Curvature(draws=2, lanczos=2, copies=2),
    "stability": NoiseStability(deltas=(0.01, 100.0), copies=3, draws=2),
    "segment": Segments(points=3),
    "sra": SmoothedRobustness(eps=(0.0, 0.1), sigma=(0.0, 0.2), loss="margin", steps=2, draws=3),
    "mixing": Mixtures(robust="other", gradients="largest", strengths=(1.0,), radii=(0.05,)),
    "neighbours": Neighbours(k=(1, 3), strengths=(0.1,)),
    "similarity": Similarity(others=("other", "another"), bands=3),
    "linear_dynamics": LinearDynamics(steps=20, samples=3, problems=4),
}

CORRUPTIONS = {
    "clean": Clean(),
    "gaussian_noise": GaussianNoise(0.2),
    "uniform_noise": UniformNoise(0.2),
    "linear": LinearCorruption(0.3),
    "common": Common(kind="snow"),
    "occlusion": Occlusion(count=2, size=2),
    "stripes": Stripes(count=1, thickness=2),
    "down_up": DownUp(factor=2),
    "chain": Chain(of=(Occlusion(count=1, size=2), GaussianNoise(0.1))),
    "bar": Bar("pinch_and_twirl", severity=5),
    "low_pass": LowPass(share=0.7),
    "energy_filter": EnergyFilter(share=0.7),
    "band_noise": BandNoise(band=1, bands=4, variance=0.04, clip=True),
}


@dataclasses.dataclass(frozen=True)
class OfMixture:
    """A certifier of composites, which makes one of the classifier it is given: all robust, so that it is the same."""

    certifier: MixtureMargin | MixtureSmoothing

    @property
    def norm(self):
        return self.certifier.norm

    @property
    def smoothed(self):
        return self.certifier.smoothed

    @staticmethod
    def composite(model):
        return Composite(copy.deepcopy(model), copy.deepcopy(model), Probability(), math.inf)

    def __call__(self, model, x, *, rng=None):
        return self.certifier(behind(model, self.composite), x, rng=rng)


CERTIFIERS = {
    "margin": Margin(norm="linf"),
    "smoothed_margin": SmoothedMargin(sigma=0.05, n=256, n0=32, alpha=0.01),
    "smoothing": GaussianSmoothing(sigma=0.1, n=256, n0=32, alpha=0.01),
    "laplace_smoothing": LaplaceSmoothing(scale=0.1, n=256, n0=32, alpha=0.01),
    "uniform_smoothing": UniformSmoothing(width=0.2, n=256, n0=32, alpha=0.01),
    "group_certificate": OfAnyClasses(GroupCertificate(certifier=Margin(norm="linf"))),
    "mixture_margin": OfMixture(MixtureMargin(norm="l2")),
    "mixture_smoothing": OfMixture(MixtureSmoothing(smoothing=GaussianSmoothing(sigma=0.1, n=256, n0=32, alpha=0.01))),
}

AUGMENTATIONS = {
    "random_crop": RandomCrop(padding=2),
    "horizontal_flip": HorizontalFlip(),
    "spider": Spider(tau=8.0),
    "augmix": AugMix(severity=8, alpha=0.7, all_ops=True),
    "pixmix": PixMix(pictures=8, severity=8, all_ops=True),
    "deepaugment": DeepAugment(strength=0.5),
    "randaugment": RandAugment(count=3, magnitude=8),
    "trivialaugment": TrivialAugment(),
    "low_pass": LowPass(share=0.7),
    "energy_filter": EnergyFilter(share=0.7),
}

ROUNDS = {"deepaugment": 100, "pixmix": 4, "low_pass": 8, "energy_filter": 8}
"""Augmentations that depend on the batch by rounding, and by how many times the precision at most: convolutions
and products of matrices are summed in an order of their own, powers are rounded by place in memory."""

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
    "allconv-augmix",
    "densenet",
    "mobilenetv3-small",
    "vit-tiny",
    "m5",
    "lipschitz-mlp",
    "lipschitz-cnn",
]

_FIVE = hierarchy_of(tuple("abcde"), {"group": {"x": ["d", "a"], "y": ["b", "e"], "z": ["c"]}})

CHEAP_MODELS = {
    **{name: _narrow(name) for name in MODEL_NAMES},
    "in_basis": InBasis(network=_narrow("resnet10")),
    "shared_har": SharedHAR(network=_narrow("resnet10"), hierarchy=_FIVE),
}


def cheap(instances, name, family):
    """The cheap instance of a registry's entry; without one the test fails and says what to do."""
    if name not in instances:
        pytest.fail(f"'{name}' is in {family} without a cheap instance: add one to tests/contracts/cheap.py")
    return instances[name]
