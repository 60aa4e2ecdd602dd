"""Networks that the user names: a run, a weights file, or one that holdfast did not train, each with its images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.device import device_of
from holdfast.cli.drawing import mention_kept_images
from holdfast.cli.locks import hold
from holdfast.cli.request import Request
from holdfast.errors import CheckpointError, DataError, ModelError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from holdfast.checks import Check
    from holdfast.conduct.jobs import Job
    from holdfast.conduct.ready import Ready
    from holdfast.recipe.schema import DataRecipe
    from holdfast.runs.card import Card
    from holdfast.runs.code import TrustedCode
    from holdfast.runs.directory import Run
    from holdfast.runs.foreign import Foreign
    from holdfast.runs.splits import Splits
    from holdfast.runs.weights import Loaded


def prepared(request: Request) -> Ready:
    """The requested network on its device, ready to be checked."""
    from holdfast.conduct.ready import to_device

    device = device_of(request.work.device)
    if request.run is None:
        ready = foreign(request, request.foreign(), device)
    elif request.run.is_dir() and not _trained(request.run):
        ready = _remembered(request, request.run, device)
    else:
        ready = own(request, request.run, device)
    for subject in ready.subjects:
        to_device(subject.model, device)
    mention_kept_images(ready.run, ready.splits)
    return ready


def _trained(path: Path) -> bool:
    from holdfast.runs.directory import Run

    run = Run(path)
    run.check(reporting=True)
    return bool(run.labels())


def _remembered(request: Request, path: Path, device: torch.device) -> Ready:
    """The network of a run that trained none: its `run.json` says how to build it again."""
    from holdfast.recipe.schema import DataRecipe
    from holdfast.recipe.strict import parse
    from holdfast.runs.directory import Run
    from holdfast.runs.foreign import Foreign

    run = Run(path)
    hold(run)
    network = run.info().get("network")
    if not isinstance(network, dict):
        raise CheckpointError(
            f"{path}: expected a run with best.safetensors or last.safetensors, or one that `holdfast evaluate` wrote; "
            "got neither"
        )
    if "file" in network:
        if not Path(network["file"]).is_file():
            raise CheckpointError(f"{run.info_file}: network.file: expected a weights file; got {network['file']!r}")
        where = f"{run.info_file}: network.data"
        data: DataRecipe = parse(DataRecipe, network.get("data"), where=lambda at: ".".join((where, *at)))
        return own(request, Path(network["file"]), device, run, data)
    recorded = Foreign.read(network, run.info_file, trust=request.work.trust)
    other = request.data(recorded.data.source)
    if other is None:
        return foreign(request, recorded, device, run)
    return foreign(request, replace(recorded, data=other), device, Run(request.work.out / f"{path.name}{request.part}"))


def own(
    request: Request, path: Path, device: torch.device, run: Run | None = None, data: DataRecipe | None = None
) -> Ready:
    """Weights that holdfast wrote; a trained run keeps the results, a single file gets a run of its own.

    Args:
        request: the options of the command.
        path: directory of a trained run, or weights file.
        device: where the network goes.
        run: the run of its own that a single file has had before.
        data: the images of that run.
    """
    from holdfast.conduct.jobs import Job, subjects_of
    from holdfast.conduct.ready import Ready
    from holdfast.evaluation.subject import Subject
    from holdfast.recipe import plain
    from holdfast.recipe.schema import DataRecipe
    from holdfast.recipe.sweeps import read_checks
    from holdfast.runs.code import resolved
    from holdfast.runs.directory import Run
    from holdfast.runs.splits import prepare
    from holdfast.runs.weights import load_model

    loaded = load_model(path, trust=request.work.trust)
    recipe = replace(loaded.card.recipe, evaluate=request.how(loaded.card.recipe.evaluate))
    other = request.data((data or recipe.data).source)
    stated = other or data or recipe.data
    tested = replace(stated, augment=())  # which only training needs
    images = resolved(tested, f"{loaded.card.file}: data", trust=request.work.trust)
    recipe = replace(recipe, model=resolved(recipe.model, trust=request.work.trust))
    splits = _for_network(prepare(images, recipe.seed, request.images.data_root), loaded.card, path)
    chosen = recipe.checks if request.checks is None else tuple(read_checks(request.checks, "--checks"))
    checks: Sequence[Check] = ResolvedWhenUsed(chosen, f"{loaded.card.file}: checks", request.work.trust)
    if request.runs_checks:
        checks = tuple(checks)  # refused before any work
    if run is None and path.is_dir() and other is None:
        job = Job(recipe, Run(path), request.work.trust)
        splits = _in_its_run(job, splits, fresh=request.fresh)
        return Ready(job.run, subjects_of(job, splits), splits, checks, recipe.evaluate, recipe.seed, device)
    if run is None or other is not None:
        run = Run(request.work.out / "evaluations" / f"{path.stem}-{loaded.card.hash[:8]}-{splits.name}{request.part}")
    network = {"file": str(path), "data": plain(stated, DataRecipe)}
    splits = _in_own_run(run, loaded, splits, network, recipe.evaluate.block, fresh=request.fresh)
    subject = Subject(loaded.model, run.info()["name"], "given", loaded.card.hash, request.work.trust)
    return Ready(run, [subject], splits, checks, recipe.evaluate, recipe.seed, device)


@dataclass(frozen=True)
class ResolvedWhenUsed(Sequence["Check"]):
    """Checks whose third-party code is asked about when the first of them is looked at.

    Args:
        stated: as they were read.
        place: where that is, for messages.
        trust: which code may run.
    """

    stated: tuple[Check, ...]
    place: str
    trust: TrustedCode

    @cached_property
    def _checks(self) -> tuple[Check, ...]:
        from holdfast.runs.code import resolved

        checks: tuple[Check, ...] = resolved(self.stated, self.place, trust=self.trust)
        return checks

    def __len__(self) -> int:
        return len(self.stated)

    def __getitem__(self, position: Any) -> Any:
        return self._checks[position]


def _for_network(splits: Splits, card: Card, path: Path) -> Splits:
    """Images that a network may have been trained on, under the names of its classes.

    Raises:
        DataError: if their classes or their shape are others.
    """
    if splits.classes == tuple(map(str, range(len(card.classes)))):  # nameless labels of as many classes
        splits = replace(splits, classes=card.classes)
    if (splits.classes, splits.shape) != (card.classes, card.shape):
        hint = "; --grey reads a folder in one channel" if splits.shape == (3, *card.shape[1:]) else ""
        raise DataError(f"{splits.name}: expected {_kind(card)}, as {path} was trained on; got {_kind(splits)}{hint}")
    return splits


def _in_its_run(job: Job, splits: Splits, *, fresh: bool) -> Splits:
    """Hold the run that trained a network, and give its images as it recorded them."""
    from holdfast.runs.identity import refuse_others

    hold(job.run)
    if fresh:
        job.run.forget_results()
    splits = splits.as_recorded(job.run)
    refuse_others(job.run, splits)
    if "name" not in job.run.info():  # trained without the command line
        job.run.record(name=job.recipe.name, seed=job.recipe.seed)
    if job.run.info().get("data", {}).get("examples") != splits.examples:  # trained there, or by an earlier version
        job.run.record(data=splits.facts())
    return splits


def _in_own_run(
    run: Run, loaded: Loaded, splits: Splits, network: Mapping[str, Any], block: int, *, fresh: bool
) -> Splits:
    """Hold the run of a single weights file, record in it what the file is, and give the images as it recorded them."""
    from holdfast.runs.identity import refuse_others, same_outputs

    digest = loaded.card.hash
    run.check()
    hold(run)
    if fresh:
        run.forget_results()
    splits = splits.as_recorded(run)
    refuse_others(run, splits, weights=digest, block=block)
    outputs = same_outputs(run, "given", digest, loaded.model, splits)
    weights = {"given": {"sha256": digest, "file": network["file"], "outputs": outputs}}
    file = Path(network["file"])
    name = f"{file.resolve().parent.name}-{run.path.name}" if file.is_dir() else run.path.name  # of which variant
    run.record(name=name, data=splits.facts(), weights=weights, block=block, network=network)
    return splits


def _kind(data: Any) -> str:
    """Classes and shape in few words."""
    names = ", ".join(data.classes[:3]) + (", ..." if len(data.classes) > 3 else "")
    return f"images of shape {tuple(data.shape)} in {len(data.classes)} classes ({names})"


def foreign(request: Request, network: Foreign, device: torch.device, run: Run | None = None) -> Ready:
    """A network that holdfast did not train.

    Args:
        request: the options of the command.
        network: the network and its images.
        device: where it goes.
        run: the run that remembers it; None for the one of its name, which may be new.
    """
    from holdfast.conduct.ready import Ready
    from holdfast.evaluation.subject import Subject, try_out
    from holdfast.recipe.schema import EvaluateRecipe
    from holdfast.recipe.sweeps import read_checks
    from holdfast.runs.card import content_hash
    from holdfast.runs.directory import Run, versions
    from holdfast.runs.identity import refuse_others, same_outputs
    from holdfast.runs.splits import prepare

    chosen, seed = read_checks(request.checks or "quick", "--checks"), network.seed
    splits = prepare(network.data, seed, request.images.data_root)
    _one_per_channel(network, splits.shape[0])
    facts = network.facts()
    name = _name(facts["model"])
    if network.weights is None and ":" not in name:
        raise RecipeError(
            f"{request.verb}: expected --weights beside --model {name}; without them it is a random network"
        )
    model = network.build(splits.shape, len(splits.classes))
    try:
        try_out(model, splits.test, len(splits.classes))
    except ModelError as error:
        raise ModelError(f"{name} on {splits.name}: {error}") from error
    if run is None:
        stem = Path(network.weights).stem if network.weights else name.split(":")[-1]
        run = Run(request.work.out / (request.network.name or f"{stem}-{splits.name}{request.part}"))
    hold(run)
    if _trained(run.path):
        raise RecipeError(f"{run.path}: holds a network that was trained there; choose another --name or --out")
    label = run.info().get("name") or request.network.name or run.path.name
    if request.fresh:
        run.forget_results()
    splits = splits.as_recorded(run)
    digest, how = content_hash(model.state_dict()), request.how(EvaluateRecipe())
    how = replace(how, block=max(how.block, how.batch_size))
    refuse_others(run, splits, weights=digest, block=how.block, seed=seed, model=name, options=facts["model"])
    outputs = same_outputs(run, "given", digest, model, splits)
    run.record(
        name=label, seed=seed, block=how.block, versions=versions(), data=splits.facts(), network=facts,
        model={"name": name, "parameters": sum(p.numel() for p in model.parameters())},
        weights={"given": {"sha256": digest, "file": network.weights, "outputs": outputs}},
    )  # fmt: skip
    return Ready(run, [Subject(model, label, "given", digest, request.work.trust)], splits, chosen, how, seed, device)


def _name(model: Any) -> str:
    """A network of a recipe in one word, such as `python:nets:make` or `lenet`."""
    ((kind, fields),) = model.items() if isinstance(model, dict) else ((model, {}),)
    inner = fields.get("factory") or fields.get("at") or fields.get("name") if isinstance(fields, dict) else None
    return f"{kind}:{inner}" if inner else str(kind)


def _one_per_channel(network: Foreign, channels: int) -> None:
    for option, values in (("--mean", network.mean), ("--std", network.std)):
        if values is None:
            continue
        positive = option == "--std"
        if len(values) != channels or not all(map(math.isfinite, values)) or (positive and min(values) <= 0):
            text, sign = ",".join(f"{value:g}" for value in values), "positive " if positive else ""
            raise RecipeError(f"{option}: expected {channels} {sign}numbers, one per channel; got {text!r}")
