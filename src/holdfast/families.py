"""What recipes, commands and plug-ins may name: one registry for each family, a line for each method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.registry import Registry, instance

if TYPE_CHECKING:
    from holdfast.types import Augmentation, Certifier, Corruption, Loss, Objective, Threat

MODELS: Registry[Any] = Registry(
    "models",
    {
        "linear": instance("holdfast.models.linear:Linear"),
        "mlp": instance("holdfast.models.mlp:MLP"),
        "cnn": instance("holdfast.models.cnn:CNN"),
        "lenet": instance(
            "holdfast.models.cnn:CNN", blocks=((32,), (64,)), kernel=3, pool=2, hidden=(200,), feature_dim=None
        ),
        "cnn6": instance(
            "holdfast.models.cnn:CNN",
            blocks=((64, 64), (128, 128), (256, 256)), kernel=3, pool=2, feature_dim=None,
        ),
        "cnn8": instance(
            "holdfast.models.cnn:CNN",
            blocks=((64, 64), (128, 128), (256, 256, 256, 256)), kernel=3, pool=2, feature_dim=None,
        ),
        "resnet10": instance("holdfast.models.resnet:ResNet", blocks=(1, 1, 1, 1)),
        "resnet18": instance("holdfast.models.resnet:ResNet", blocks=(2, 2, 2, 2)),
        "resnet34": instance("holdfast.models.resnet:ResNet", blocks=(3, 4, 6, 3)),
        "resnet50": instance("holdfast.models.resnet:ResNet", blocks=(3, 4, 6, 3), bottleneck=True),
        "preactresnet18": instance("holdfast.models.preactresnet:PreActResNet", blocks=(2, 2, 2, 2)),
        "wrn-40-1": instance("holdfast.models.wideresnet:WideResNet", depth=40, widen=1),
        "wrn-40-2": instance("holdfast.models.wideresnet:WideResNet", depth=40, widen=2),
        "wrn-28-10": instance("holdfast.models.wideresnet:WideResNet", depth=28, widen=10),
        "wrn-34-10": instance("holdfast.models.wideresnet:WideResNet", depth=34, widen=10),
        "allconv": instance("holdfast.models.allconv:AllConv"),
        "allconv-augmix": instance("holdfast.models.allconv:AllConvAugMix"),
        "densenet": instance("holdfast.models.densenet:DenseNet"),
        "mobilenetv3-small": instance("holdfast.models.mobilenet:MobileNetV3Small"),
        "vit-tiny": instance("holdfast.models.vit:ViT"),
        "m5": instance("holdfast.models.m5:M5"),
        "lipschitz-mlp": instance("holdfast.models.lipschitz:LipschitzMLP"),
        "lipschitz-cnn": instance("holdfast.models.lipschitz:LipschitzCNN"),
        "in_basis": "holdfast.models.basis:InBasis",
        "shared_har": "holdfast.ensembles.shared_har:SharedHAR",
        "python": "holdfast.models.external:Python",
        "timm": "holdfast.models.external:Timm",
        "torchvision": "holdfast.models.external:Torchvision",
    },
)  # fmt: skip
"""Prototypes to take fields over from; a class where fields have no defaults."""

COMPOSITES: Registry[Any] = Registry(
    "composites",
    {
        "composite": "holdfast.ensembles.of_runs:CompositeOfRuns",
        "adaptive_composite": "holdfast.ensembles.of_runs:AdaptiveCompositeOfRuns",
        "har": "holdfast.ensembles.of_runs:HAROfRuns",
        "defended": "holdfast.ensembles.of_runs:DefendedRun",
    },
)

ARCHITECTURES: Registry[Any] = Registry("architectures", {}, including=(MODELS, COMPOSITES))
"""Networks that a recipe may name."""

MIXINGS: Registry[Any] = Registry(
    "mixings",
    {
        "gradient_ratio": "holdfast.ensembles.mixing:GradientRatio",
        "local_bias": "holdfast.ensembles.mixing:LocalBias",
        "probability": "holdfast.ensembles.mixing:Probability",
    },
)

DEFENCES: Registry[Any] = Registry(
    "defences",
    {
        "bit_depth": "holdfast.ensembles.defences:BitDepth",
        "jpeg": "holdfast.ensembles.defences:JPEG",
        "feature_distillation": "holdfast.ensembles.defences:FeatureDistillation",
        "gaussian_votes": "holdfast.ensembles.defences:GaussianVotes",
    },
)
"""What `defended` may put in front of a network."""

DATASETS: Registry[Any] = Registry(
    "data",
    {
        "cifar10": instance("holdfast.data.cifar:Cifar10"),
        "cifar100": instance("holdfast.data.cifar:Cifar100"),
        "cifar5x5": "holdfast.data.selected:CIFAR5X5",
        "digits": instance("holdfast.data.digits:Digits"),
        "emnist": instance("holdfast.data.emnist:Emnist"),
        "fashion_mnist": "holdfast.data.idx:FASHION_MNIST",
        "folder": "holdfast.data.folder:Folder",
        "kmnist": "holdfast.data.idx:KMNIST",
        "mnist": "holdfast.data.idx:MNIST",
        "npy": "holdfast.data.npy:Npy",
        "npz": "holdfast.data.npz:Npz",
        "selected": "holdfast.data.selected:Selected",
        "spoken_digits": instance("holdfast.data.waveforms:Waveforms", path="free_spoken_digits_8khz.npz"),
        "svhn": instance("holdfast.data.svhn:Svhn"),
        "wav_folder": "holdfast.data.wav_folder:WavFolder",
        "waveforms": "holdfast.data.waveforms:Waveforms",
    },
)
"""Sources by name: an instance to use or to `dataclasses.replace`, or the class where a path is needed."""

HIERARCHIES: Registry[Any] = Registry(
    "hierarchies",
    {
        "cifar10": "holdfast.data.hierarchies:CIFAR10_GROUPS",
        "cifar5x5": "holdfast.data.hierarchies:CIFAR5X5_GROUPS",
        "coarse": instance("holdfast.data.hierarchies:Coarse"),
        "digits": "holdfast.data.hierarchies:DIGIT_GROUPS",
        "fashion_mnist": "holdfast.data.hierarchies:FASHION_GROUPS",
        "file": "holdfast.data.hierarchies:File",
        "table": "holdfast.data.hierarchies:Table",
    },
)
"""Hierarchies by name; `coarse` reads that of CIFAR-100 off the data, `file` and `table` are the user's own."""

AUGMENTATIONS: Registry[Augmentation] = Registry(
    "augmentations",
    {
        "random_crop": instance("holdfast.augment.crop:RandomCrop"),
        "horizontal_flip": instance("holdfast.augment.flip:HorizontalFlip"),
        "spider": instance("holdfast.augment.spider:Spider"),
        "augmix": instance("holdfast.augment.augmix:AugMix"),
        "pixmix": instance("holdfast.augment.pixmix:PixMix"),
        "deepaugment": instance("holdfast.augment.deepaugment:DeepAugment"),
        "randaugment": instance("holdfast.augment.randaugment:RandAugment"),
        "trivialaugment": instance("holdfast.augment.randaugment:TrivialAugment"),
        "low_pass": instance("holdfast.corruptions.frequencies:LowPass"),
        "energy_filter": instance("holdfast.corruptions.frequencies:EnergyFilter"),
    },
)

OBJECTIVES: Registry[type[Objective]] = Registry(
    "objectives",
    {
        "standard": "holdfast.objectives.standard:Standard",
        "noisy": "holdfast.objectives.noisy:Noisy",
        "clean_and_noisy": "holdfast.objectives.noisy:CleanAndNoisy",
        "stability": "holdfast.objectives.noisy:Stability",
        "discriminative": "holdfast.objectives.discriminative:Discriminative",
        "center": "holdfast.objectives.center:Center",
        "large_margin": "holdfast.objectives.large_margin:LargeMargin",
        "adversarial": "holdfast.objectives.adversarial:Adversarial",
        "trades": "holdfast.objectives.trades:TRADES",
        "mart": "holdfast.objectives.mart:MART",
        "mma": "holdfast.objectives.mma:MMA",
        "fast": "holdfast.objectives.fast:Fast",
        "free": "holdfast.objectives.free:Free",
        "awp": "holdfast.objectives.awp:AWP",
        "sam": "holdfast.objectives.sam:SAM",
        "soar": "holdfast.objectives.soar:SOAR",
        "foar": "holdfast.objectives.foar:FOAR",
        "cure": "holdfast.objectives.cure:CURE",
        "llr": "holdfast.objectives.llr:LLR",
        "input_gradient": "holdfast.objectives.input_gradient:InputGradient",
        "jacobian": "holdfast.objectives.jacobian:Jacobian",
        "jensen_shannon": "holdfast.objectives.jensen_shannon:JensenShannon",
        "mscr": "holdfast.objectives.radius:MSCR",
        "mcr": "holdfast.objectives.radius:MCR",
        "zhen": "holdfast.objectives.radius:Zhen",
        "multiclass_hinge": "holdfast.objectives.hinge:MulticlassHinge",
        "truncated_margin": "holdfast.objectives.hinge:TruncatedMargin",
        "smoothed_cross_entropy": "holdfast.objectives.smoothed:SmoothedCrossEntropy",
        "hierarchical_cross_entropy": "holdfast.objectives.hierarchical:HierarchicalCrossEntropy",
        "severity_labels": "holdfast.objectives.hierarchical:SeverityLabels",
        "policy": "holdfast.objectives.policy:PolicyTraining",
        "align": "holdfast.objectives.alignment:Align",
    },
)

EMBEDDING_DISTANCES: Registry[Any] = Registry(
    "embedding_distances",
    {
        "rkd": "holdfast.objectives.embedding_distances:RKD",
        "ega": "holdfast.objectives.embedding_distances:EGA",
        "hint": "holdfast.objectives.embedding_distances:Hint",
        "nce": "holdfast.objectives.embedding_distances:NCE",
    },
)
"""What `align` may compare features with."""

OPTIMIZERS: Registry[Any] = Registry(
    "optimizers",
    {
        "sgd": "holdfast.optim.optimizers:SGD",
        "adam": "holdfast.optim.optimizers:Adam",
        "adamw": "holdfast.optim.optimizers:AdamW",
        "rmsprop": "holdfast.optim.optimizers:RMSProp",
        "signsgd": "holdfast.optim.optimizers:SignSGD",
    },
)

SCHEDULES: Registry[Any] = Registry(
    "schedules",
    {
        "constant": "holdfast.optim.schedules:Constant",
        "multistep": "holdfast.optim.schedules:MultiStep",
        "cosine": "holdfast.optim.schedules:Cosine",
        "cosine_restarts": "holdfast.optim.schedules:CosineRestarts",
        "one_cycle": "holdfast.optim.schedules:OneCycle",
    },
)

THREATS: Registry[type[Threat]] = Registry(
    "threats",
    {
        "linf": "holdfast.threat.linf:Linf",
        "l2": "holdfast.threat.l2:L2",
        "l1": "holdfast.threat.l1:L1",
        "l0": "holdfast.threat.l0:L0",
    },
)

LOSSES: Registry[Loss] = Registry(
    "losses",
    {
        "cross_entropy": "holdfast.losses:cross_entropy",
        "margin": "holdfast.losses:margin",
        "dlr": "holdfast.losses:difference_of_logits_ratio",
    },
)
"""The losses of labels that a recipe may name."""

STEP_SCHEDULES: Registry[Any] = Registry(
    "step_schedules",
    {
        "constant": "holdfast.attacks.schedule:constant",
        "linear": "holdfast.attacks.schedule:linear",
        "cosine": "holdfast.attacks.schedule:cosine",
        "halving": "holdfast.attacks.schedule:halving",
    },
)

SAMPLINGS: Registry[Any] = Registry(
    "samplings",
    {
        "fixed": "holdfast.certify.sampling:Fixed",
        "full_radius": "holdfast.certify.sampling:FullRadius",
        "decision": "holdfast.certify.sampling:Decision",
    },
)

CORRUPTIONS: Registry[type[Corruption]] = Registry(
    "corruptions",
    {
        "clean": "holdfast.corruptions.noise:Clean",
        "gaussian_noise": "holdfast.corruptions.noise:GaussianNoise",
        "uniform_noise": "holdfast.corruptions.noise:UniformNoise",
        "linear": "holdfast.corruptions.linear:Linear",
        "common": "holdfast.corruptions.common.corruption:Common",
        "occlusion": "holdfast.corruptions.masks:Occlusion",
        "stripes": "holdfast.corruptions.masks:Stripes",
        "down_up": "holdfast.corruptions.masks:DownUp",
        "chain": "holdfast.corruptions.chain:Chain",
        "bar": "holdfast.corruptions.bar.corruption:Bar",
        "low_pass": "holdfast.corruptions.frequencies:LowPass",
        "energy_filter": "holdfast.corruptions.frequencies:EnergyFilter",
        "band_noise": "holdfast.corruptions.frequencies:BandNoise",
    },
)

ATTACKS: Registry[Any] = Registry(
    "attacks",
    {
        "fgsm": "holdfast.attacks.fgsm:FGSM",
        "rfgsm": "holdfast.attacks.rfgsm:RFGSM",
        "bim": "holdfast.attacks.bim:BIM",
        "pgd": "holdfast.attacks.pgd:PGD",
        "apgd": "holdfast.attacks.apgd:APGD",
        "apgd_targeted": "holdfast.attacks.apgd_targeted:TargetedAPGD",
        "fab": "holdfast.attacks.fab:FAB",
        "deepfool": "holdfast.attacks.deepfool:DeepFool",
        "ddn": "holdfast.attacks.ddn:DDN",
        "fmn": "holdfast.attacks.fmn:FMN",
        "cw": "holdfast.attacks.cw:CW",
        "cw_linf": "holdfast.attacks.cw:CWLinf",
        "square": "holdfast.attacks.square:Square",
        "simba": "holdfast.attacks.simba:SimBA",
        "spsa": "holdfast.attacks.spsa:SPSA",
        "nes": "holdfast.attacks.spsa:NES",
        "hopskipjump": "holdfast.attacks.hopskipjump:HopSkipJump",
        "boundary": "holdfast.attacks.boundary:Boundary",
        "autoattack": "holdfast.attacks.autoattack:AutoAttack",
        "transfer_loop": "holdfast.attacks.transfer_loop:PLAIN",
        "mi": "holdfast.attacks.transfer_loop:MI",
        "ni": "holdfast.attacks.transfer_loop:NI",
        "vmi": "holdfast.attacks.transfer_loop:VMI",
        "vni": "holdfast.attacks.transfer_loop:VNI",
        "sini": "holdfast.attacks.transfer_loop:SINI",
        "di": "holdfast.attacks.transfer_loop:DI",
        "ti": "holdfast.attacks.transfer_loop:TI",
        "mi_transferattack": "holdfast.attacks.transfer_loop:MI_TRANSFERATTACK",
        "ni_transferattack": "holdfast.attacks.transfer_loop:NI_TRANSFERATTACK",
        "vmi_transferattack": "holdfast.attacks.transfer_loop:VMI_TRANSFERATTACK",
        "vni_transferattack": "holdfast.attacks.transfer_loop:VNI_TRANSFERATTACK",
        "sini_transferattack": "holdfast.attacks.transfer_loop:SINI_TRANSFERATTACK",
        "di_transferattack": "holdfast.attacks.transfer_loop:DI_TRANSFERATTACK",
        "ti_transferattack": "holdfast.attacks.transfer_loop:TI_TRANSFERATTACK",
        "eight_bit": "holdfast.attacks.eight_bit:EightBit",
        "eot": "holdfast.attacks.eot:EOT",
        "targeted": "holdfast.attacks.targeted:Targeted",
        "aimed": "holdfast.attacks.aimed:Aimed",
        "hierarchical": "holdfast.attacks.hierarchical:Hierarchical",
        "hierarchical_pgd": "holdfast.attacks.hierarchical_pgd:HierarchicalPGD",
        "hierarchical_halving": "holdfast.attacks.hierarchical_halving:HierarchicalHalving",
        "foolbox": "holdfast.attacks.foolbox:Foolbox",
        "torchattacks": "holdfast.attacks.torchattacks:Torchattacks",
        "art": "holdfast.attacks.art:ART",
    },
)
"""Classes, and prototypes of published attacks to take fields over from."""

STAGES: Registry[Any] = Registry(
    "stages",
    {
        "momentum": "holdfast.attacks.stages.momentum:Momentum",
        "variance": "holdfast.attacks.stages.variance:Variance",
        "scale_copies": "holdfast.attacks.stages.scale_copies:ScaleCopies",
        "input_diversity": "holdfast.attacks.stages.input_diversity:InputDiversity",
        "translation_kernel": "holdfast.attacks.stages.translation_kernel:TranslationKernel",
        "reverse_perturbation": "holdfast.attacks.stages.reverse_perturbation:ReversePerturbation",
        "linbp": "holdfast.attacks.stages.linbp:LinBP",
        "bpa": "holdfast.attacks.stages.bpa:BPA",
        "skip_gradient": "holdfast.attacks.stages.skip_gradient:SkipGradient",
        "loss_ensemble": "holdfast.attacks.stages.loss_ensemble:LossEnsemble",
    },
)
"""What `transfer_loop` does to a gradient, or to the backward pass that it comes from."""

CERTIFIERS: Registry[type[Certifier]] = Registry(
    "certifiers",
    {
        "margin": "holdfast.certify.margin:Margin",
        "smoothed_margin": "holdfast.certify.smoothed_margin:SmoothedMargin",
        "smoothing": "holdfast.certify.smoothing:GaussianSmoothing",
        "laplace_smoothing": "holdfast.certify.smoothing:LaplaceSmoothing",
        "uniform_smoothing": "holdfast.certify.smoothing:UniformSmoothing",
        "group_certificate": "holdfast.certify.groups:GroupCertificate",
        "mixture_margin": "holdfast.certify.mixture:MixtureMargin",
        "mixture_smoothing": "holdfast.certify.mixture:MixtureSmoothing",
    },
)

CHECKS: Registry[Any] = Registry(
    "checks",
    {"stored": "holdfast.corruptions.stored:Stored", "transfer": "holdfast.attacks.transfer:Transfer"},
    including=(CORRUPTIONS, ATTACKS, CERTIFIERS),
)

QUESTIONS: Registry[Any] = Registry(
    "questions",
    {
        "spectrum": "holdfast.questions.spectrum:Spectrum",
        "bands": "holdfast.questions.bands:Bands",
        "fourier_heatmap": "holdfast.questions.fourier_heatmap:FourierHeatmap",
        "gradient_spectrum": "holdfast.questions.gradient_spectrum:GradientSpectrum",
        "thickness": "holdfast.questions.thickness:Thickness",
        "flatness": "holdfast.questions.flatness:Flatness",
        "gradient_norm": "holdfast.questions.gradient_norm:GradientNorm",
        "lipschitz": "holdfast.questions.lipschitz:Lipschitz",
        "classes": "holdfast.questions.classes:Classes",
        "features": "holdfast.questions.features:Features",
        "head_spectrum": "holdfast.questions.head_spectrum:HeadSpectrum",
        "surface": "holdfast.questions.surface:LossSurface",
        "confidences": "holdfast.questions.confidences:Confidences",
        "sra": "holdfast.questions.sra:SmoothedRobustness",
        "mixing": "holdfast.questions.mixing:Mixtures",
        "neighbours": "holdfast.questions.neighbours:Neighbours",
        "curvature": "holdfast.questions.curvature:Curvature",
        "stability": "holdfast.questions.stability:NoiseStability",
        "segment": "holdfast.questions.segment:Segments",
        "similarity": "holdfast.questions.similarity:Similarity",
        "linear_dynamics": "holdfast.questions.linear_dynamics:LinearDynamics",
    },
)
"""In the order of a page; their modules start without torch."""

ALL: dict[str, Registry[Any]] = {
    "models": ARCHITECTURES,
    "mixings": MIXINGS,
    "defences": DEFENCES,
    "data": DATASETS,
    "hierarchies": HIERARCHIES,
    "augmentations": AUGMENTATIONS,
    "objectives": OBJECTIVES,
    "embedding_distances": EMBEDDING_DISTANCES,
    "optimizers": OPTIMIZERS,
    "schedules": SCHEDULES,
    "checks": CHECKS,
    "attacks": ATTACKS,
    "certifiers": CERTIFIERS,
    "corruptions": CORRUPTIONS,
    "threats": THREATS,
    "losses": LOSSES,
    "step_schedules": STEP_SCHEDULES,
    "stages": STAGES,
    "samplings": SAMPLINGS,
    "questions": QUESTIONS,
}
"""In the order of `holdfast list`."""
