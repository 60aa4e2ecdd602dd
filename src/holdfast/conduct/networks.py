"""Networks by the place where they are: a run, a weights file, or one that holdfast did not train."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.checks import Check
from holdfast.conduct.jobs import Job, subjects_of
from holdfast.conduct.ready import Ready, to_device
from holdfast.conduct.request import Hold, Request
from holdfast.errors import CheckpointError, DataError, ModelError, RecipeError
from holdfast.evaluation.subject import Subject, try_out
from holdfast.recipe import plain
from holdfast.recipe.schema import DataRecipe, EvaluateRecipe
from holdfast.recipe.strict import parse
from holdfast.recipe.sweeps import read_checks
from holdfast.report.find import trained_runs
from holdfast.runs.card import Card, content_hash
from holdfast.runs.code import TrustedCode, resolved
from holdfast.runs.directory import Run, versions
from holdfast.runs.foreign import Foreign
from holdfast.runs.identity import refuse_others, same_outputs
from holdfast.runs.splits import Splits, prepare
from holdfast.runs.weights import Loaded, load_model


def make_ready(request: Request, hold: Hold) -> Ready:
    """The requested network on its device, with its images and the run that keeps its results.

    Raises:
        HoldfastError: if the network, its images or its run cannot be used, or do not fit each other.
    """
    network = request.network
    if isinstance(network, Foreign):
        ready = _foreign(request, network, hold)
    elif network.is_dir() and not _trained(network):
        ready = _remembered(request, network, hold)
    else:
        ready = _own(request, network, hold)
    for subject in ready.subjects:
        to_device(subject.model, request.device)
    return ready


def _trained(path: Path) -> bool:
    run = Run(path)
    run.check(reporting=True)
    return bool(run.labels())


def _remembered(request: Request, path: Path, hold: Hold) -> Ready:
    """The network of a run that trained none: its `run.json` says how to build it again."""
    run = Run(path)
    if not run.info() and (several := trained_runs(path)):
        names = ", ".join(map(str, several[:3])) + ", ..." * (len(several) > 3)
        raise CheckpointError(f"{path}: expected one run; got a directory of {len(several)}: {names}")
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
        return _own(request, Path(network["file"]), hold, run, data)
    recorded = Foreign.read(network, run.info_file, trust=request.trust)
    other = request.images.of(recorded.data.source)
    if other is None:
        return _foreign(request, recorded, hold, run)
    in_part = Run(request.out / f"{path.name}{request.images.part}")
    return _foreign(request, replace(recorded, data=other), hold, in_part)


def _own(request: Request, path: Path, hold: Hold, run: Run | None = None, data: DataRecipe | None = None) -> Ready:
    """Weights that holdfast wrote; a trained run keeps the results, a single file gets a run of its own.

    Args:
        request: what to make ready.
        path: directory of a trained run, or weights file.
        hold: keeps others out of the run.
        run: the run of its own that a single file has had before.
        data: the images of that run.
    """
    loaded = load_model(path, trust=request.trust)
    recipe = replace(loaded.card.recipe, evaluate=replace(loaded.card.recipe.evaluate, **request.evaluate))
    other = request.images.of((data or recipe.data).source)
    stated = other or data or recipe.data
    tested = replace(stated, augment=())  # which only training needs
    images = resolved(tested, f"{loaded.card.file}: data", trust=request.trust)
    recipe = replace(recipe, model=resolved(recipe.model, trust=request.trust))
    splits = _for_network(prepare(images, recipe.seed, request.data_root), loaded.card, path)
    chosen = recipe.checks if request.checks is None else tuple(request.checks)
    checks: Sequence[Check] = ResolvedWhenUsed(chosen, f"{loaded.card.file}: checks", request.trust)
    if request.runs_checks:
        checks = tuple(checks)  # refused before any work
    if run is None and path.is_dir() and other is None:
        job = Job(recipe, Run(path), request.trust)
        splits = _in_its_run(job, splits, hold, fresh=request.fresh)
        return Ready(job.run, subjects_of(job, splits), splits, checks, recipe.evaluate, recipe.seed, request.device)
    if run is None or other is not None:
        name = f"{path.stem}-{loaded.card.hash[:8]}-{splits.name}{request.images.part}"
        run = Run(request.out / "evaluations" / name)
    network = {"file": str(path), "data": plain(stated, DataRecipe)}
    splits = _in_own_run(run, loaded, splits, network, recipe.evaluate.block, hold, fresh=request.fresh)
    subject = Subject(loaded.model, run.info()["name"], "given", loaded.card.hash, request.trust, splits.hierarchy)
    return Ready(run, [subject], splits, checks, recipe.evaluate, recipe.seed, request.device)


@dataclass(frozen=True)
class ResolvedWhenUsed(Sequence[Check]):
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
    if splits.hierarchy is None and splits.classes == card.classes:  # other images of the same classes
        splits = replace(splits, hierarchy=card.hierarchy)
    if (splits.classes, splits.shape) != (card.classes, card.shape):
        hint = "; --grey reads a folder in one channel" if splits.shape == (3, *card.shape[1:]) else ""
        raise DataError(f"{splits.name}: expected {_kind(card)}, as {path} was trained on; got {_kind(splits)}{hint}")
    return splits


def _in_its_run(job: Job, splits: Splits, hold: Hold, *, fresh: bool) -> Splits:
    """Hold the run that trained a network, and give its images as it recorded them."""
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
    run: Run, loaded: Loaded, splits: Splits, network: Mapping[str, Any], block: int, hold: Hold, *, fresh: bool
) -> Splits:
    """Hold the run of a single weights file, record in it what the file is, and give the images as it recorded them."""
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


def _foreign(request: Request, network: Foreign, hold: Hold, run: Run | None = None) -> Ready:
    """A network that holdfast did not train.

    Args:
        request: what to make ready.
        network: the network and its images.
        hold: keeps others out of the run.
        run: the run that remembers it; None for the one of its name, which may be new.
    """
    chosen = read_checks("quick", "checks") if request.checks is None else tuple(request.checks)
    seed = network.seed
    splits = prepare(network.data, seed, request.data_root)
    _require_one_per_channel(network, splits.shape[0])
    facts = network.facts()
    name = name_of(facts["model"])
    model = network.build(splits.shape, len(splits.classes))
    try:
        try_out(model, splits.test, len(splits.classes))
    except ModelError as error:
        raise ModelError(f"{name} on {splits.name}: {error}") from error
    if run is None:
        stem = Path(network.weights).stem if network.weights else name.split(":")[-1]
        run = Run(request.out / (request.name or f"{stem}-{splits.name}{request.images.part}"))
    hold(run)
    if _trained(run.path):
        raise RecipeError(f"{run.path}: holds a network that was trained there; choose another --name or --out")
    label = run.info().get("name") or request.name or run.path.name
    if request.fresh:
        run.forget_results()
    splits = splits.as_recorded(run)
    digest, how = content_hash(model.state_dict()), replace(EvaluateRecipe(), **request.evaluate)
    how = replace(how, block=max(how.block, how.batch_size))
    refuse_others(run, splits, weights=digest, block=how.block, seed=seed, model=name, options=facts["model"])
    outputs = same_outputs(run, "given", digest, model, splits)
    run.record(
        name=label, seed=seed, block=how.block, versions=versions(), data=splits.facts(), network=facts,
        model={"name": name, "parameters": sum(p.numel() for p in model.parameters())},
        weights={"given": {"sha256": digest, "file": network.weights, "outputs": outputs}},
    )  # fmt: skip
    subject = Subject(model, label, "given", digest, request.trust, splits.hierarchy)
    return Ready(run, [subject], splits, chosen, how, seed, request.device)


def name_of(model: Any) -> str:
    """A network of a recipe in one word, such as `python:nets:make` or `lenet`."""
    ((kind, fields),) = model.items() if isinstance(model, dict) else ((model, {}),)
    inner = fields.get("factory") or fields.get("at") or fields.get("name") if isinstance(fields, dict) else None
    return f"{kind}:{inner}" if inner else str(kind)


def _require_one_per_channel(network: Foreign, channels: int) -> None:
    for option, values in (("--mean", network.mean), ("--std", network.std)):
        if values is None:
            continue
        positive = option == "--std"
        if len(values) != channels or not all(map(math.isfinite, values)) or (positive and min(values) <= 0):
            text, sign = ",".join(f"{value:g}" for value in values), "positive " if positive else ""
            raise RecipeError(f"{option}: expected {channels} {sign}numbers, one per channel; got {text!r}")
