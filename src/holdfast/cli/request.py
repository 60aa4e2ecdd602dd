"""A network and its images as the options of a command state them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from holdfast.cli.device import device_of
from holdfast.cli.drawing import mention_kept_images
from holdfast.cli.groups import ImageOptions, NetworkOptions, WorkOptions
from holdfast.cli.locks import hold
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.conduct.ready import Ready
    from holdfast.conduct.request import Images, Request
    from holdfast.data.dataset import Source
    from holdfast.runs.foreign import Foreign
    from holdfast.types import Architecture


@dataclass(frozen=True, kw_only=True)
class NamedNetwork:
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
            got = "neither" if self.run is None else "both"
            raise RecipeError(
                f"{self.verb}: expected a RUN, or --model with --weights and --data; got {got}; see --help"
            )
        refuse_both(self.verb, self.images)
        self._refuse_unused_out()
        own = {name: getattr(self.network, name) for name in ("weights", "mean", "std", "name", "seed")}
        if self.run is not None and any(option is not None for option in own.values()):
            *names, last = (f"--{name}" for name in own if self.verb != "audit" or name != "seed")
            raise RecipeError(f"{self.verb}: {', '.join(names)} and {last} go with --model; got a RUN too")

    def _refuse_unused_out(self) -> None:
        """Refuse a directory for results that are kept in the run's own."""
        same_images = self.images == ImageOptions(data_root=self.images.data_root)
        if self.run is not None and self.run.is_dir() and same_images and self.work.out != WorkOptions().out:
            raise RecipeError(f"{self.verb}: --out goes with --data or --model; {self.run} keeps its own results")

    def ready(self) -> Ready:
        """The network on its device, ready to be checked."""
        from holdfast.conduct.networks import make_ready

        ready = make_ready(self.request(), hold)
        mention_kept_images(ready.run, ready.splits)
        return ready

    def request(self) -> Request:
        """The same for the library."""
        from holdfast.conduct.request import Request
        from holdfast.recipe.sweeps import read_checks

        return Request(
            network=self._foreign() if self.run is None else self.run,
            images=chosen_images(self.images),
            checks=None if self.checks is None else tuple(read_checks(self.checks, "--checks")),
            evaluate=self._evaluate(),
            name=self.network.name,
            out=self.work.out,
            data_root=self.images.data_root,
            device=device_of(self.work.device),
            trust=self.work.trust,
            fresh=self.fresh,
            runs_checks=self.runs_checks,
        )

    def _evaluate(self) -> dict[str, Any]:
        """How checks run, where options state it."""
        from holdfast.recipe.schema import EvaluateRecipe
        from holdfast.recipe.strict import parse

        fields: dict[str, Any] = {"order": self.order, "budget": self.budget, "batch_size": self.work.batch_size}
        stated = {name: value for name, value in fields.items() if value is not None}
        changed = parse(EvaluateRecipe, stated, where=lambda path: "--" + "-".join(path).replace("_", "-"))
        return {name: getattr(changed, name) for name in stated}

    def _foreign(self) -> Foreign:
        """The network that `--model` and the options beside it describe."""
        from holdfast.conduct.networks import name_of
        from holdfast.runs.foreign import Foreign

        images, network = chosen_images(self.images), self.network
        if images.source is None or (data := images.of(images.source)) is None:
            raise RecipeError(f"{self.verb}: expected --data NAME_OR_PATH beside --model")
        foreign = Foreign(
            model=_architecture(str(network.model)),
            data=data,
            weights=None if network.weights is None else str(network.weights),
            mean=_floats("--mean", network.mean),
            std=_floats("--std", network.std),
            seed=network.seed or 0,
        )
        name = name_of(foreign.facts()["model"])
        if network.weights is None and ":" not in name:
            raise RecipeError(
                f"{self.verb}: expected --weights beside --model {name}; without them it is a random network"
            )
        return foreign


def refuse_both(verb: str, images: ImageOptions) -> None:
    """Refuse two ways to choose some of the images."""
    if images.subset is not None and images.first is not None:
        raise RecipeError(f"{verb}: expected --subset or --first; got both")
    if images.data is None and (images.size is not None or images.grey):
        raise RecipeError(f"{verb}: --size and --grey say how to read the images of --data; got none")


def chosen_images(images: ImageOptions) -> Images:
    """The requested images."""
    from holdfast.conduct.request import Images

    return Images(source=_source(images), subset=images.subset, first=images.first)


def _source(images: ImageOptions) -> Source | None:
    from holdfast.data.dataset import Source
    from holdfast.data.roots import resolve

    if images.data is None:
        return None
    if images.data.startswith("{"):
        return cast("Source", _as_in_a_recipe("--data", images.data, Source))
    return resolve(images.data, images.data_root, size=images.size, grey=images.grey)


def _architecture(model: str) -> Architecture:
    """The network of `--model`: `kind:name`, a name of the registry, or a mapping as in a recipe."""
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
