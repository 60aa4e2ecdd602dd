"""What parts of a recipe ask of each other, checked before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.attacks.transfer import Transfer
from holdfast.augment.soft import softens
from holdfast.checks import is_attack
from holdfast.families import AUGMENTATIONS, OBJECTIVES, QUESTIONS
from holdfast.objectives.standard import Standard
from holdfast.objectives.threat_warmup import has_growing_threat
from holdfast.questions.question import Needs
from holdfast.recipe.foreign import Unresolved
from holdfast.registry import Registry
from holdfast.types import Attack, Augmentation, Objective

if TYPE_CHECKING:
    from holdfast.checks import Check
    from holdfast.ensembles.transform_fit import TransformFit
    from holdfast.questions.question import Question
    from holdfast.recipe.schema import DataRecipe, TrainRecipe


def require_growing_threat(share: float, objective: Objective) -> None:
    """Refuse what is no share, and an objective without an adversary that could grow."""
    if not 0 <= share <= 1:
        raise ValueError(f"threat_warmup must lie in [0, 1], a share of training; got {share}")
    if share and not isinstance(objective, Unresolved) and not has_growing_threat(objective):
        raise ValueError(
            "threat_warmup: expected an objective with a threat that can grow, such as adversarial or trades; "
            f"got {_name(objective, OBJECTIVES)}"
        )


def require_fitting_labels(augment: tuple[Augmentation, ...], objective: Objective) -> None:
    """Refuse augmentations that soften labels beside an objective that wants classes."""
    softening = [one for one in augment if not isinstance(one, Unresolved) and softens(one)]
    if softening and not isinstance(objective, Unresolved) and not getattr(objective, "soft_labels", False):
        # A property says that it depends on the fields.
        fit = [name for name, kind in OBJECTIVES.usable() if getattr(kind, "soft_labels", False) is True]
        raise ValueError(
            f"data.augment: {_name(softening[0], AUGMENTATIONS)} softens labels, which train.objective "
            f"{_name(objective, OBJECTIVES)} does not take; expected one of {', '.join(fit)}"
        )


def refuse_theory(analyses: tuple[Question, ...]) -> None:
    """Refuse questions about neither a network nor data, to which every run would have the same answer."""
    for question in analyses:
        if not isinstance(question, Unresolved) and question.needs is Needs.NOTHING:
            name = _name(question, QUESTIONS)
            command = f"holdfast analyse {name.replace('_', '-')}"
            raise ValueError(f"analyses: {name} is about no run; leave it out, and ask with {command}")


def refuse_training_settings(train: TrainRecipe) -> None:
    """Refuse settings that need training; epochs and the like are allowed, for other variants of the recipe."""
    changes = {"objective": train.objective != Standard(), "init_from": train.init_from, "freeze": train.freeze}
    for name, given in changes.items():
        if given:
            raise ValueError(f"train.{name}: a composite of fixed strength has nothing to train; leave it out")


def require_fit_data(fit: TransformFit | None, data: DataRecipe, checks: tuple[Check, ...]) -> None:
    """Refuse a fit without images or without an adversary."""
    if fit is None:
        return
    if not data.validation:
        raise ValueError("model.fit needs data.validation > 0: it is made on validation images")
    if fitting_attack(fit, checks) is None and not any(isinstance(check, Unresolved) for check in checks):
        raise ValueError("model.fit: expected an attack in it or among the checks; got neither")


def fitting_attack(fit: TransformFit, checks: tuple[Check, ...]) -> Attack | None:
    """The adversary of a fit: its own or, failing that, the first attack among the checks."""
    attacks: list[Any] = [check for check in checks if is_attack(check) and not isinstance(check, Transfer)]
    return next(iter(attacks), None) if fit.attack is None else fit.attack


def _name(value: Any, family: Registry[Any]) -> str:
    kinds = {
        name: entry if isinstance(entry, type) else type(entry) for name, entry in family.usable(only_imported=True)
    }
    return next((name for name, kind in kinds.items() if type(value) is kind), type(value).__name__)
