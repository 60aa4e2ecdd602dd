"""A network and its images as the options of a command state them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.cli.groups import ImageOptions, NetworkOptions, WorkOptions
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.data.dataset import Source
    from holdfast.recipe.schema import DataRecipe, EvaluateRecipe
    from holdfast.runs.foreign import Foreign
    from holdfast.types import Architecture


@dataclass(frozen=True, kw_only=True)
class Request:
    """A network with images, as the options of a command state them.

    Args:
        verb: the command, for messages.
        run: directory of a run or weights by holdfast; None for a network from elsewhere.
        network: a network that holdfast did not train.
        images: what to test it on.
        work: where and how.
        checks: checks as the user wrote them, None for the run's own.
        order: order of AutoAttack's components.
        budget: time to spend.
        fresh: whether earlier results are deleted.
        runs_checks: whether the checks are run; questions may look at none of them.
    """

    verb: str
    run: Path | None = None
    network: NetworkOptions = field(default_factory=NetworkOptions)
    images: ImageOptions = field(default_factory=ImageOptions)
    work: WorkOptions = field(default_factory=WorkOptions)
    checks: str | None = None
    order: str | None = None
    budget: str | None = None
    fresh: bool = False
    runs_checks: bool = True

    def __post_init__(self) -> None:
        if (self.run is None) == (self.network.model is None):
            raise RecipeError(f"{self.verb}: expected a RUN, or --model with --weights and --data; see --help")
        if self.images.subset is not None and self.images.first is not None:
            raise RecipeError(f"{self.verb}: expected --subset or --first; got both")
        own = {name: getattr(self.network, name) for name in ("weights", "mean", "std", "name", "seed")}
        if self.run is not None and any(option is not None for option in own.values()):
            *names, last = (f"--{name}" for name in own if self.verb != "audit" or name != "seed")
            raise RecipeError(f"{self.verb}: {', '.join(names)} and {last} go with --model; got a RUN too")

    def how(self, base: EvaluateRecipe) -> EvaluateRecipe:
        """How checks run: as `base` states, but for the options that were given."""
        from holdfast.recipe.schema import EvaluateRecipe
        from holdfast.recipe.strict import parse

        fields: dict[str, Any] = {"order": self.order, "budget": self.budget, "batch_size": self.work.batch_size}
        stated = {name: value for name, value in fields.items() if value is not None}
        changed = parse(EvaluateRecipe, stated, where=lambda path: "--" + "-".join(path).replace("_", "-"))
        return replace(base, **{name: getattr(changed, name) for name in stated})

    def data(self, source: Source | None = None) -> DataRecipe | None:
        """The requested images; None for those of the run itself.

        Args:
            source: where the images of the run come from.
        """
        from holdfast.recipe.schema import DataRecipe

        images = self.images
        if source is not None and images.data is None and images.subset is None and images.first is None:
            return None
        chosen = source if images.data is None and source is not None else self._source()
        return DataRecipe(source=chosen, test_subset=images.subset, test_first=images.first)

    def _source(self) -> Source:
        from holdfast.data.dataset import Source
        from holdfast.data.roots import resolve

        images = self.images
        if str(images.data).startswith("{"):
            return cast("Source", _as_in_a_recipe("--data", str(images.data), Source))
        return resolve(str(images.data), images.data_root, size=images.size, grey=images.grey)

    @property
    def part(self) -> str:
        """Ending of a run's name for the images chosen."""
        first = "" if self.images.first is None else f"-first-{self.images.first}"
        return first if self.images.subset is None else f"-{self.images.subset}"

    def foreign(self) -> Foreign:
        """The network that `--model` and the options beside it describe."""
        from holdfast.runs.foreign import Foreign

        if self.images.data is None:
            raise RecipeError(f"{self.verb}: expected --data NAME_OR_PATH beside --model")
        data, network = self.data(), self.network
        assert data is not None, "only a run has images of its own"
        return Foreign(
            model=_architecture(str(network.model)),
            data=data,
            weights=None if network.weights is None else str(network.weights),
            mean=_floats("--mean", network.mean),
            std=_floats("--std", network.std),
            seed=network.seed or 0,
        )


def _architecture(model: str) -> Architecture:
    """The network of `--model`: `kind:name`, a name of the registry, or a mapping as a recipe has it."""
    from holdfast.recipe.schema import FAMILIES
    from holdfast.recipe.strict import parse
    from holdfast.types import Architecture

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

    from holdfast.recipe.strict import parse
    from holdfast.yaml_text import load_yaml

    try:
        stated = load_yaml(text)
    except yaml.YAMLError:
        raise RecipeError(f"{option}: expected what a recipe has there; got {text!r}") from None
    return parse(kind, stated, where=lambda path: ".".join((option, *path)), code_allowed=True)


def _floats(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise RecipeError(f"{option}: expected numbers such as 0.49,0.48,0.45; got {text!r}") from None
