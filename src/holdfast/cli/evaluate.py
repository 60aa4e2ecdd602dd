"""`holdfast evaluate`: checks on a run, on a weights file, or on a network that holdfast did not train."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from holdfast.cli.options import OUT, Json, Out, Root
from holdfast.cli.screen import interrupt_on_kill, resumable, say
from holdfast.cli.summary import show_left_out, show_summary, summary
from holdfast.errors import DataError, ModelError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.checks import Check
    from holdfast.data import Source
    from holdfast.evaluation import Subject
    from holdfast.recipe import EvaluateRecipe
    from holdfast.runs import Run, Splits

Model = Annotated[
    str | None, typer.Option("--model", help="python:package.module:factory, or a name of `holdfast list models`.")
]
Weights = Annotated[
    Path | None, typer.Option("--weights", help=".safetensors, or a state dict in .pt read with weights_only.")
]
Data = Annotated[
    str | None, typer.Option("--data", help="Data set, image folder, .npz or .npy file, or as a recipe has it.")
]
Checks = Annotated[
    str | None, typer.Option("--checks", help="quick, standard or full, or as a recipe has them; else the run's own.")
]
Order = Annotated[
    str | None, typer.Option("--order", help="Of AutoAttack's components: published, or yield (broken per second).")
]
Budget = Annotated[
    str | None, typer.Option("--budget", help="Stop after this time, such as 10min, and say what was not run.")
]
Numbers = Annotated[str | None, typer.Option(help="Per channel, such as 0.49,0.48,0.45.")]
Size = Annotated[int | None, typer.Option("--size", min=1, help="Bring a folder's images to this size.")]
Grey = Annotated[bool, typer.Option("--grey", help="Read a folder's images in one channel.")]
Subset = Annotated[int | None, typer.Option("--subset", min=1, help="Take only this many test images.")]
Name = Annotated[str | None, typer.Option("--name", help="Name of the run to write.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, max=2**63 - 1, help="Of everything random; 0.")]
BatchSize = Annotated[int | None, typer.Option("--batch-size", min=1, help="Images per forward pass.")]
Trust = Annotated[bool, typer.Option("--trust", help="Call a factory that the weights' recipe names.")]


@dataclass(frozen=True)
class Asked:
    """What the user said."""

    run: Path | None
    model: str | None
    weights: Path | None
    data: str | None
    checks: str | None
    mean: str | None
    std: str | None
    size: int | None
    grey: bool
    subset: int | None
    name: str | None
    seed: int | None
    batch_size: int | None
    order: str | None
    budget: str | None
    trust: bool
    out: Path
    root: Path | None
    quiet: bool
    verb: str = "evaluate"

    def __post_init__(self) -> None:
        if (self.run is None) == (self.model is None):
            raise RecipeError(f"{self.verb}: expected a RUN, or --model with --weights and --data; see --help")
        ours = {"weights": self.weights, "mean": self.mean, "std": self.std, "name": self.name, "seed": self.seed}
        if self.run is not None and any(option is not None for option in ours.values()):
            *names, last = (f"--{name}" for name in ours if self.verb != "audit" or name != "seed")
            raise RecipeError(f"{self.verb}: {', '.join(names)} and {last} go with --model; got a RUN too")

    def how(self, base: EvaluateRecipe) -> EvaluateRecipe:
        """How checks run: as `base` says, except for what was asked."""
        from holdfast.recipe import EvaluateRecipe, parse

        fields: dict[str, Any] = {"order": self.order, "budget": self.budget, "batch_size": self.batch_size}
        said = {name: value for name, value in fields.items() if value is not None}
        changed = parse(EvaluateRecipe, said, where=lambda path: "--" + "-".join(path).replace("_", "-"))
        return replace(base, **{name: getattr(changed, name) for name in said})

    def source(self) -> Source:
        """Where the images come from."""
        import yaml

        from holdfast.data import Source, resolve
        from holdfast.recipe import parse

        if str(self.data).startswith("{"):
            try:
                said = yaml.safe_load(str(self.data))
            except yaml.YAMLError:
                raise RecipeError(f"--data: expected a source as a recipe has it; got {self.data!r}") from None
            return cast("Source", parse(Source, said, where=lambda path: ".".join(("--data", *path))))
        return resolve(str(self.data), self.root, size=self.size, grey=self.grey)


@dataclass(frozen=True)
class Ready:
    """Networks with their images, and the run that keeps their results.

    Args:
        run: the run.
        subjects: the networks, the one that matters first.
        splits: the images.
        checks: what to try on them.
        how: and how.
        seed: of everything random.
    """

    run: Run
    subjects: Sequence[Subject]
    splits: Splits
    checks: Sequence[Check]
    how: EvaluateRecipe
    seed: int


def command(
    run: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="Run directory or weights by holdfast.")] = None,
    model: Model = None, weights: Weights = None, data: Data = None, checks: Checks = None,
    mean: Numbers = None, std: Numbers = None, size: Size = None, grey: Grey = False, subset: Subset = None,
    name: Name = None, seed: Seed = None, batch_size: BatchSize = None, order: Order = None, budget: Budget = None,
    trust: Trust = False, out: Out = OUT, data_root: Root = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Check whether a network holds; repeat the command to resume."""
    from holdfast.cli import verdicts, work
    from holdfast.cli.certify import refute
    from holdfast.report import write_report

    interrupt_on_kill()
    asked = Asked(
        run, model, weights, data, checks, mean, std, size, grey, subset, name, seed, batch_size, order, budget, trust,
        out, data_root, as_json,
    )  # fmt: skip
    with resumable():
        ready = prepared(asked)
        done = ready.run
        work.evaluate_all(done, ready.subjects, ready.splits, ready.checks, ready.how, ready.seed, quiet=as_json)
        report = write_report([done.path], done.path / "report.html")
    records = summary([done])
    if as_json:
        said = {"run": str(done.path), "results": records, "verdicts": verdicts.records([done]), "report": str(report)}
        typer.echo(json.dumps(said))
    else:
        show_summary(records)
        show_left_out([done])
        for line in verdicts.failures([done]):
            say(line)
        say(f"report: {report}")
    refute([done])


def prepared(asked: Asked) -> Ready:
    """What was asked for, ready to be checked."""
    return own(asked, asked.run) if asked.run is not None else foreign(asked, str(asked.model))


def own(asked: Asked, path: Path) -> Ready:
    """Weights that holdfast wrote; a run keeps the results, a single file gets a run of its own."""
    from holdfast.cli import work
    from holdfast.evaluation import Subject
    from holdfast.recipe import DataRecipe, read_checks
    from holdfast.runs import Run, load_model, prepare

    loaded = load_model(path, trust=asked.trust)
    card, recipe = loaded.card, loaded.card.recipe
    recipe = replace(recipe, evaluate=asked.how(recipe.evaluate))
    own = asked.data is None and asked.subset is None
    source = recipe.data.source if asked.data is None else asked.source()
    data = recipe.data if own else DataRecipe(source=source, test_subset=asked.subset)
    splits = prepare(data, recipe.seed, asked.root)
    if splits.classes == tuple(map(str, range(len(card.classes)))):  # nameless labels of as many classes
        splits = replace(splits, classes=card.classes)
    if (splits.classes, splits.shape) != (card.classes, card.shape):
        hint = "; --grey reads a folder in one channel" if splits.shape == (3, *card.shape[1:]) else ""
        raise DataError(f"{splits.name}: expected {_kind(card)}, as {path} was trained on; got {_kind(splits)}{hint}")
    chosen = recipe.checks if asked.checks is None else tuple(read_checks(asked.checks, "--checks"))
    if path.is_dir() and own:
        job = work.Job(recipe, Run(path))
        work.refuse_others(job.run, splits)
        if "name" not in job.run.info():  # trained without the command line
            job.run.tell(name=recipe.name, seed=recipe.seed, data=splits.facts())
        return Ready(job.run, work.subjects(job, trust=asked.trust), splits, chosen, recipe.evaluate, recipe.seed)
    size = "" if asked.subset is None else f"-{asked.subset}"
    run = Run(asked.out / "evaluations" / f"{path.stem}-{card.hash[:8]}-{splits.name}{size}")
    block = recipe.evaluate.block
    work.refuse_others(run, splits, weights=card.hash, block=block)
    weights = {"given": {"sha256": card.hash, "file": str(path)}}
    run.tell(name=run.path.name, data=splits.facts(), weights=weights, block=block)
    subject = Subject(loaded.model, run.path.name, "given", card.hash, asked.trust)
    return Ready(run, [subject], splits, chosen, recipe.evaluate, recipe.seed)


def _kind(data: Any) -> str:
    """Classes and shape in few words."""
    names = ", ".join(data.classes[:3]) + (", ..." if len(data.classes) > 3 else "")
    return f"images of shape {tuple(data.shape)} in {len(data.classes)} classes ({names})"


def foreign(asked: Asked, model: str) -> Ready:
    """A network that holdfast did not train."""
    from holdfast.cli import work
    from holdfast.evaluation import Subject, try_out
    from holdfast.models import load_weights, normalised
    from holdfast.recipe import DataRecipe, EvaluateRecipe, read_checks
    from holdfast.runs import Run, content_hash, prepare, versions

    if asked.data is None:
        raise RecipeError(f"{asked.verb}: expected --data NAME_OR_PATH beside --model")
    chosen, seed = read_checks(asked.checks or "quick", "--checks"), asked.seed or 0
    splits = prepare(DataRecipe(source=asked.source(), test_subset=asked.subset), seed, asked.root)
    network, channels = _network(model, splits.shape, len(splits.classes)), splits.shape[0]
    if asked.weights is not None:
        load_weights(network, asked.weights)
    elif ":" not in model:
        raise RecipeError(
            f"{asked.verb}: expected --weights beside --model {model}; without them it is a random network"
        )
    if asked.mean is not None or asked.std is not None:
        mean, std = _floats("--mean", asked.mean, channels, 0.0), _floats("--std", asked.std, channels, 1.0)
        network = normalised(network, mean, std)
    try:
        try_out(network, splits.test, len(splits.classes))
    except ModelError as error:
        raise ModelError(f"{model} on {splits.name}: {error}") from error
    label = asked.name or f"{(asked.weights.stem if asked.weights else model.split(':')[-1])}-{splits.name}"
    run, digest = Run(asked.out / label), content_hash(network.state_dict())
    how = asked.how(EvaluateRecipe())
    how = replace(how, block=max(how.block, how.batch_size))
    work.refuse_others(run, splits, weights=digest, block=how.block, seed=seed)
    run.tell(
        name=label, seed=seed, block=how.block, versions=versions(), data=splits.facts(),
        model={"name": model, "parameters": sum(p.numel() for p in network.parameters())},
        weights={"given": {"sha256": digest, "file": str(asked.weights) if asked.weights else None}},
    )  # fmt: skip
    return Ready(run, [Subject(network, label, "given", digest, asked.trust)], splits, chosen, how, seed)


def _network(model: str, shape: tuple[int, int, int], classes: int) -> Any:
    from holdfast.models import Architecture
    from holdfast.recipe import parse
    from holdfast.runs import new_network

    kind, separator, factory = model.partition(":")
    said = {kind: factory} if separator else model
    return new_network(parse(Architecture, said, where=lambda path: "--model"), shape, classes)


def _floats(option: str, text: str | None, channels: int, otherwise: float) -> list[float]:
    if text is None:
        return [otherwise] * channels
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise RecipeError(f"{option}: expected numbers such as 0.49,0.48,0.45; got {text!r}") from None
    if len(values) != channels or not all(map(math.isfinite, values)) or (option == "--std" and min(values) <= 0):
        sign = "positive " if option == "--std" else ""
        raise RecipeError(f"{option}: expected {channels} {sign}numbers, one per channel; got {text!r}")
    return values
