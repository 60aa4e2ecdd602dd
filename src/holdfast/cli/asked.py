"""What the user says about a network and its images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.data import Source
    from holdfast.models import Architecture
    from holdfast.recipe import DataRecipe, EvaluateRecipe
    from holdfast.runs import Foreign


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user said, by option; `fresh` deletes earlier results, and `verb` is the command, for messages."""

    run: Path | None
    model: str | None
    weights: Path | None
    data: str | None
    mean: str | None
    std: str | None
    name: str | None
    seed: int | None
    trust: bool
    out: Path
    root: Path | None
    verb: str
    device: str | None = None
    checks: str | None = None
    size: int | None = None
    grey: bool = False
    subset: int | None = None
    first: int | None = None
    batch_size: int | None = None
    order: str | None = None
    budget: str | None = None
    fresh: bool = False

    def __post_init__(self) -> None:
        if (self.run is None) == (self.model is None):
            raise RecipeError(f"{self.verb}: expected a RUN, or --model with --weights and --data; see --help")
        if self.subset is not None and self.first is not None:
            raise RecipeError(f"{self.verb}: expected --subset or --first; got both")
        ours = {"weights": self.weights, "mean": self.mean, "std": self.std, "name": self.name, "seed": self.seed}
        if self.run is not None and any(option is not None for option in ours.values()):
            *names, last = (f"--{name}" for name in ours if self.verb != "audit" or name != "seed")
            raise RecipeError(f"{self.verb}: {', '.join(names)} and {last} go with --model; got a RUN too")

    def how(self, base: EvaluateRecipe) -> EvaluateRecipe:
        """How checks run: as `base` says, except for what was asked."""
        from holdfast.recipe import EvaluateRecipe, parse

        fields: dict[str, Any] = {"order": self.order, "budget": self.budget, "batch_size": self.batch_size}
        stated = {name: value for name, value in fields.items() if value is not None}
        changed = parse(EvaluateRecipe, stated, where=lambda path: "--" + "-".join(path).replace("_", "-"))
        return replace(base, **{name: getattr(changed, name) for name in stated})

    def images(self, source: Source | None = None) -> DataRecipe | None:
        """Which images were asked for; None for those of the run itself.

        Args:
            source: where the images of the run come from.
        """
        from holdfast.recipe import DataRecipe

        if source is not None and self.data is None and self.subset is None and self.first is None:
            return None
        chosen = source if self.data is None and source is not None else self._source()
        return DataRecipe(source=chosen, test_subset=self.subset, test_first=self.first)

    def _source(self) -> Source:
        from holdfast.data import Source, resolve

        if str(self.data).startswith("{"):
            return cast("Source", _as_in_a_recipe("--data", str(self.data), Source))
        return resolve(str(self.data), self.root, size=self.size, grey=self.grey)

    @property
    def part(self) -> str:
        """What the name of a run says of the images chosen."""
        first = "" if self.first is None else f"-first-{self.first}"
        return first if self.subset is None else f"-{self.subset}"

    def network(self) -> Foreign:
        """The network that `--model` and the options beside it describe."""
        from holdfast.runs import Foreign

        model = str(self.model)
        if self.data is None:
            raise RecipeError(f"{self.verb}: expected --data NAME_OR_PATH beside --model")
        data = self.images()
        assert data is not None, "only a run has images of its own"
        return Foreign(
            model=_architecture(model),
            data=data,
            weights=None if self.weights is None else str(self.weights),
            mean=_floats("--mean", self.mean),
            std=_floats("--std", self.std),
            seed=self.seed or 0,
        )


def _architecture(model: str) -> Architecture:
    """The network of `--model`: `kind:name`, a name of the registry, or a mapping as a recipe has it."""
    from holdfast.models import Architecture
    from holdfast.recipe import parse
    from holdfast.recipe.schema import FAMILIES

    if model.startswith("{"):
        return cast("Architecture", _as_in_a_recipe("--model", model, Architecture))
    kind, separator, factory = model.partition(":")
    if separator and kind not in FAMILIES[Architecture]:
        raise RecipeError(
            f"--model: unknown name '{kind}' before a colon; known: python, timm, torchvision. Did you mean "
            f"'python:{model}', a function of yours?"
        )
    stated = {kind: factory} if separator else model
    return cast("Architecture", parse(Architecture, stated, where=lambda path: "--model"))


def _as_in_a_recipe(option: str, text: str, kind: Any) -> Any:
    import yaml

    from holdfast.recipe import parse
    from holdfast.yaml_text import load_yaml

    try:
        stated = load_yaml(text)
    except yaml.YAMLError:
        raise RecipeError(f"{option}: expected what a recipe has there; got {text!r}") from None
    return parse(kind, stated, where=lambda path: ".".join((option, *path)))


def _floats(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise RecipeError(f"{option}: expected numbers such as 0.49,0.48,0.45; got {text!r}") from None
