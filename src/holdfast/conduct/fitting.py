"""Training a network that is an object, in one call."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from holdfast.conduct.fit_inputs import Data, Images, described, splits_of, train_recipe
from holdfast.conduct.progress_text import scores_in_words, step_in_words
from holdfast.conduct.ready import device_named
from holdfast.data.dataset import Split
from holdfast.errors import ModelError, RecipeError
from holdfast.evaluation.subject import place, try_out
from holdfast.models.logits import bare, with_logits
from holdfast.models.weights import load_weights, read_metadata
from holdfast.objectives.standard import Standard
from holdfast.recipe.plain import printed
from holdfast.recipe.schema import Recipe, TrainRecipe
from holdfast.runs.directory import Run, versions
from holdfast.runs.splits import Splits
from holdfast.show.progress import Bar
from holdfast.training.loop import fit as train_loop
from holdfast.training.records import Epoch, Preparation, Step, read
from holdfast.types import Objective

Progress = Callable[[Step | Epoch | Preparation], object]
"""What is called with every record of the training."""


@dataclass(frozen=True)
class Fitted:
    """What `fit` has trained.

    Args:
        model: the network that was given, with its new weights, in evaluation mode.
        weights: which these are: `best` by the validation images, else `last`.
        metrics: of each epoch, as `metrics.jsonl` has them: loss, terms, validation scores, seconds.
        path: directory of the run; None where none was asked for.
    """

    model: nn.Module
    weights: str
    metrics: tuple[Mapping[str, Any], ...]
    path: Path | None


def fit(
    model: nn.Module,
    data: Data,
    objective: str | Mapping[str, Any] | Objective | None = None,
    *,
    validation: float | Images = 0.0,
    train: TrainRecipe | Mapping[str, Any] | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    out: Path | str | None = None,
    fresh: bool = False,
    progress: bool | Progress = False,
) -> Fitted:
    """Train a network of your own: `holdfast.fit(model, (x, y), {"trades": {"threat": {"linf": "8/255"}}})`.

    The same training as a recipe's, to the bit, if the recipe's network has the same weights at the start. With `out`
    it can be interrupted at any time; the same call goes on from there, whatever weights the network has then.

    Args:
        model: images in [0, 1] to logits, or to a record that has them in its attribute `logits`. It is trained in
            place.
        data: images in [0, 1] with labels: a pair of tensors, a data set, a `DataLoader`, or what a recipe says of
            data, such as `cifar10` or `{"source": (x, y), "augment": ["horizontal_flip"]}`.
        objective: what to minimise: an object that satisfies `holdfast.types.Objective`, or what a recipe says of
            one, such as `{"trades": {"threat": {"linf": "8/255"}}}`; None for that of `train`.
        validation: share of the images that is held out to select weights by, or images of their own for that.
        train: epochs, batch size, optimizer and all else that a recipe says of training. The precision `64-true`
            turns the network into float64.
        seed: random seed.
        device: where to train; None for what `train.fabric` says, by default the first GPU or, without one, the CPU.
        out: directory of the run, which keeps weights, metrics and what resuming needs.
        fresh: delete what that directory holds first.
        progress: draw a bar on stderr, or call a function with every record.

    Raises:
        HoldfastError: in one line, for what cannot be trained or does not fit, and when the loss is not finite.
    """
    settings = train_recipe(train, objective)
    data_recipe, splits = splits_of(data, validation, seed)
    network = _checked(model, splits, settings)
    recipe = _recipe(out, seed, data_recipe, network, settings)
    with _directory(out) as path, _restored(network), torch.inference_mode(mode=False), torch.enable_grad():
        run = Run(path)
        with run.lock():
            _claim(run, recipe, splits, fresh=fresh)
            work = train_loop(
                recipe, splits, run, device=None if device is None else device_named(device), network=network
            )
            _train(work, recipe.name, progress)
            label = run.require_labels()[0]
            load_weights(network, run.weights(label))
            _record(run, network)
            return Fitted(model, label, tuple(read(run.metrics)), None if out is None else path)


def _checked(model: nn.Module, splits: Splits, settings: TrainRecipe) -> nn.Module:
    """The network, answering with logits.

    Raises:
        ModelError: if it is none, cannot be called on the images, or has nothing to train.
        RecipeError: if the settings do not fit it.
    """
    if not isinstance(model, nn.Module):
        raise ModelError(f"model: expected a torch module; got {type(model).__name__}")
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ModelError("model: expected parameters to train; got none that requires a gradient")
    if any(is_lazy(weight) for weight in model.parameters()):
        raise ModelError("model: expected weights; got lazy ones, which a first call on images makes")
    odd = [weight.dtype for weight in model.parameters() if weight.dtype not in (torch.float32, torch.float64)]
    if odd:
        raise ModelError(f"model: expected weights in float32 or float64; got {str(odd[0]).removeprefix('torch.')}")
    if settings.fabric.devices > 1:
        raise RecipeError(
            "train.fabric.devices: expected 1; train on several devices with a recipe and `holdfast train`"
        )
    if place(model).dtype == torch.float64 and settings.fabric.precision != "64-true":
        raise RecipeError(
            f"train.fabric.precision: expected 64-true for a network in float64; got {settings.fabric.precision}"
        )
    assert splits.train is not None, "refused before"
    network: nn.Module = with_logits(model, splits.train.batch(slice(0, 1))[0].to(place(model)))
    try_out(network, splits.train)
    return network


def _recipe(out: Path | str | None, seed: int, data: Any, network: nn.Module, settings: TrainRecipe) -> Recipe:
    """What the training loop follows; the name is for messages."""
    name = re.sub(r"[^\w.=+ -]", "-", Path(out).name) if out is not None else "fit"
    try:
        return Recipe(name=name or "fit", seed=seed, data=data, model=lambda shape, classes: network, train=settings)
    except ValueError as error:
        raise RecipeError(str(error)) from None


@contextmanager
def _directory(out: Path | str | None) -> Iterator[Path]:
    """The directory of the run; one for the time of the training where none is asked for."""
    if out is not None:
        yield _writable(out)
        return
    with TemporaryDirectory(prefix="holdfast-") as path:
        yield Path(path)


def _writable(out: Path | str) -> Path:
    """A directory that is there or can be made.

    Raises:
        RecipeError: if it cannot.
    """
    path = Path(out)
    if not str(out):
        raise RecipeError("out: expected a directory; got an empty name")
    if file := next((each for each in (path, *path.parents) if each.is_file()), None):
        raise RecipeError(f"out: expected a directory; {file} is a file")
    return path


@contextmanager
def _restored(network: nn.Module) -> Iterator[None]:
    """Afterwards, put a network on the device it was on, in evaluation mode and without gradients."""
    device = place(network).device
    try:
        yield
    finally:
        network.to(device).eval().zero_grad(set_to_none=True)


def _claim(run: Run, recipe: Recipe, splits: Splits, *, fresh: bool) -> None:
    """Take a directory for a training, or go on in it; the work of others is not overwritten.

    Raises:
        RecipeError: if it holds another run, or one with other settings.
    """
    recorded = run.info()
    if recorded and "fit" not in recorded:
        raise RecipeError(f"{run.path}: holds a run that holdfast.fit did not train; choose another directory")
    if fresh and recorded:
        run.clear()
        recorded = {}
    run.check(training=True)
    now = json.loads(json.dumps(_identity(recipe, splits)))
    before = recorded.get("fit", now)
    changed = [name for name in {**now, **before} if now.get(name) != before.get(name)]
    if changed and run.begun():
        raise RecipeError(
            f"{run.path}: holds a network that was trained with other {', '.join(changed[:3])}; choose "
            "another directory, or start over with fresh=True"
        )
    run.record(name=recipe.name, seed=recipe.seed, versions=versions(), data=splits.facts(), fit=now)


def _identity(recipe: Recipe, splits: Splits) -> dict[str, Any]:
    """What trained weights depend on; of the network its layers, since its weights are in the training state."""
    train = described(replace(recipe.train, objective=Standard()))["holdfast.recipe.schema:TrainRecipe"]
    network: Any = recipe.model
    return {
        **train,
        "objective": described(recipe.train.objective),
        "augment": described(recipe.data.augment),
        "layers": _layers(network(splits.shape, len(splits.classes))),
        "seed": recipe.seed,
        "images": [None if split is None else _digest(split) for split in (splits.train, splits.validation)],
    }


def _layers(network: nn.Module) -> str:
    """A hash of what a network prints and of the shapes of its state."""
    shapes = {name: list(tensor.shape) for name, tensor in network.state_dict().items()}
    return hashlib.sha256(f"{printed(network)}{json.dumps(shapes)}".encode()).hexdigest()


def _digest(split: Split) -> str:
    """A hash of images, labels and indices."""
    digest = hashlib.sha256()
    for values in (split.x, split.y, split.index):
        digest.update(f"{values.dtype}{tuple(values.shape)}".encode())
        digest.update(values.contiguous().numpy().data)
    return digest.hexdigest()


def _train(work: Iterator[Any], name: str, progress: bool | Progress) -> None:
    """Train to the end; what stops it on the way leaves the state."""
    try:
        if callable(progress):
            for record in work:
                progress(record)
            return
        with Bar(quiet=not progress).stage(f"train {name}", "steps") as show:
            note = ""
            for record in work:
                if isinstance(record, Epoch):
                    note = scores_in_words(record.validation)
                elif isinstance(record, Step):
                    show(record.step, record.total, step_in_words(record, note))
    finally:
        work.close()  # type: ignore[attr-defined]


def _record(run: Run, network: nn.Module) -> None:
    """The facts of a trained network that reports show."""
    parameters = sum(weight.numel() for weight in network.parameters())
    cards = {label: read_metadata(run.weights(label)) for label in run.labels()}
    run.record(
        model={"name": type(bare(network)).__name__, "parameters": parameters},
        weights={label: {"sha256": card["hash"], "epoch": int(card["epoch"])} for label, card in cards.items()},
    )
