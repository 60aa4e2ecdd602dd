"""Robustness of image classifiers: training, evaluation under attack, certificates and analyses.

>>> from holdfast import PGD, Linf, evaluate
>>> attack = PGD(threat=Linf(8 / 255), steps=20, step_size=2 / 255)
>>> z = attack(model, x, y)  # doctest: +SKIP
>>> print(evaluate(model, x, y, checks=[attack]))  # doctest: +SKIP
"""

# Only what Python has loaded before: with `python -m`, all else would come from the working directory.
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    __version__: str
    from holdfast.attacks.fgsm import FGSM
    from holdfast.attacks.pgd import PGD
    from holdfast.certify.margin import Margin
    from holdfast.certify.smoothed_margin import SmoothedMargin
    from holdfast.certify.smoothing import GaussianSmoothing
    from holdfast.conduct.fitting import fit
    from holdfast.conduct.runs import run
    from holdfast.conduct.stored import load_run
    from holdfast.corruptions.noise import Clean, GaussianNoise, UniformNoise
    from holdfast.errors import HoldfastError
    from holdfast.evaluation.direct import evaluate
    from holdfast.lipschitz.bound import lipschitz_bound
    from holdfast.models.network import normalised
    from holdfast.recipe.load import load_recipes
    from holdfast.report import write_report
    from holdfast.rng import Streams
    from holdfast.runs.weights import load_model
    from holdfast.threat.l1 import L1
    from holdfast.threat.l2 import L2
    from holdfast.threat.linf import Linf

_HOMES = {
    "attacks": ("FGSM", "PGD"),
    "certify": ("GaussianSmoothing", "Margin", "SmoothedMargin"),
    "conduct": ("fit", "load_run", "run"),
    "corruptions": ("Clean", "GaussianNoise", "UniformNoise"),
    "errors": ("HoldfastError",),
    "evaluation": ("evaluate",),
    "lipschitz": ("lipschitz_bound",),
    "models": ("normalised",),
    "recipe": ("load_recipes",),
    "report": ("write_report",),
    "rng": ("Streams",),
    "runs": ("load_model",),
    "threat": ("L1", "L2", "Linf"),
}

__all__ = [
    "FGSM",
    "L1",
    "L2",
    "PGD",
    "Clean",
    "GaussianNoise",
    "GaussianSmoothing",
    "HoldfastError",
    "Linf",
    "Margin",
    "SmoothedMargin",
    "Streams",
    "UniformNoise",
    "evaluate",
    "fit",
    "lipschitz_bound",
    "load_model",
    "load_recipes",
    "load_run",
    "normalised",
    "run",
    "write_report",
]


def __getattr__(name: str) -> "Any":
    """Import a name when it is first used, so that the command line starts without torch."""
    if name == "__version__":
        from importlib.metadata import version

        return version("holdfast")
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"holdfast.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'holdfast' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names, also before they are imported."""
    return sorted([*__all__, "__version__"])
