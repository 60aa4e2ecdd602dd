"""Two networks to mix: those of a composite's run, or of two runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.cli.networks import Ready
from holdfast.errors import RecipeError, unknown

if TYPE_CHECKING:
    from torch import nn

    from holdfast.ensembles import Mixing
    from holdfast.types import Attack


@dataclass(frozen=True)
class PairOfNetworks:
    """What is mixed.

    Args:
        standard: the accurate network.
        robust: the robust one.
        mixing: how.
        whole: the composite that the two came in, None for two runs.
        facts: what tells the question from others.
    """

    standard: nn.Module
    robust: nn.Module
    mixing: Mixing
    whole: Any
    facts: dict[str, Any]


def pair_of(ready: Ready, robust: Path | None, mixing: str | None, attack: Attack) -> PairOfNetworks:
    """The two networks: those of a composite's run, or the run's and another.

    Raises:
        RecipeError: if one is missing or too many are there.
        ModelError: if they do not fit together.
    """
    from holdfast.cli.device import to_device
    from holdfast.ensembles import NearestNeighbours
    from holdfast.ensembles.composite import Pair, frozen
    from holdfast.evaluation import try_out
    from holdfast.runs import fits, load_model

    subject: Any = ready.subjects[0]
    if isinstance(subject.model, Pair):
        if robust is not None:
            raise RecipeError(
                f"analyse mixing: {subject.run} is a composite with a robust network of its own; got another"
            )
        if mixing is not None:
            raise RecipeError(f"analyse mixing: {subject.run} is a composite with a mixing of its own; got --mixing")
        one = subject.model
        if isinstance(one.robust, NearestNeighbours):
            raise RecipeError(f"analyse mixing: {subject.run} looks up neighbours; ask `holdfast analyse neighbours`")
        facts = {"robust": "", "robust_hash": "", **mixing_facts(one.mixing)}
        return PairOfNetworks(one.standard, one.robust, one.mixing, one, facts)
    if robust is None:
        raise RecipeError("analyse mixing: expected STANDARD and ROBUST, or the run of a composite; see --help")
    loaded = load_model(robust, trust=subject.trust)
    if isinstance(loaded.model, Pair):
        raise RecipeError(f"analyse mixing: {robust} is a composite itself; expected one network")
    fits(loaded.card, ready.splits)
    try_out(loaded.model, ready.splits.test, len(ready.splits.classes))
    to_device(loaded.model, ready.device)
    made = mixing_of(mixing or "classes", attack)
    facts = {"robust": loaded.card.recipe.name, "robust_hash": loaded.card.hash[:12], **mixing_facts(made)}
    # Frozen, attacks through gradients of many classes hold one block of them.
    return PairOfNetworks(frozen(subject.model), frozen(loaded.model), made, None, facts)


def mixing_of(name: str, attack: Attack) -> Mixing:
    """The way to mix of a name, measuring gradients in the dual of the attack's norm, or as a recipe has it."""
    import yaml

    from holdfast.ensembles import GradientRatio, Mixing, Probability, RobustTransform
    from holdfast.recipe import parse
    from holdfast.yaml_text import load_yaml

    if name.startswith("{"):
        try:
            said = load_yaml(name)
        except yaml.YAMLError:
            raise RecipeError(f"--mixing: expected a mixing as a recipe has it; got {name!r}") from None
        return cast(Mixing, parse(Mixing, said, where=lambda path: ".".join(("--mixing", *path))))
    norm = norm_of(attack)
    known: dict[str, Mixing] = {
        "classes": GradientRatio(norm=norm), "largest": GradientRatio(norm=norm, gradients="largest"),
        "probability": Probability(), "transformed": Probability(transform=RobustTransform()),
    }  # fmt: skip
    if name not in known:
        raise RecipeError(f"--mixing: {unknown(name, known)}")
    return known[name]


def norm_of(attack: Attack) -> Any:
    """Name of the norm in which an attack is bounded."""
    from holdfast.recipe.plain import plain
    from holdfast.types import Threat

    ((norm, _),) = plain(attack.threat, Threat).items()
    return norm


def mixing_facts(mixing: Mixing) -> dict[str, str]:
    """A way to mix in words, and all its fields."""
    from holdfast.ensembles import GradientRatio, Probability

    words = type(mixing).__name__
    if isinstance(mixing, GradientRatio):
        words = f"gradient ratios of {'all classes' if mixing.gradients == 'classes' else 'the largest logits'}"
    if isinstance(mixing, Probability):
        words = f"probabilities{'' if mixing.transform is None else ', the robust logits transformed'}"
    return {"mixing": words, "mixing_params": repr(mixing)}
