"""What `run`, `train` and `evaluate` have in common: the library's iterators with a bar around them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import files
from holdfast.cli.device import to_device
from holdfast.cli.locks import hold
from holdfast.cli.output import echo
from holdfast.cli.screen import Bar, between_steps, mention, percent, say
from holdfast.cli.tensorboard import Board
from holdfast.cli.verdicts import EXAMPLES, judge
from holdfast.errors import CheckpointError, LedgerError, ModelError, RecipeError
from holdfast.traits import Kind, traits_of

if TYPE_CHECKING:
    import torch

    from holdfast.checks import Check
    from holdfast.cli.networks import Ready
    from holdfast.evaluation import Subject
    from holdfast.halving import BatchSize
    from holdfast.recipe import Recipe
    from holdfast.runs import Loaded, Run, Splits, Trust


@dataclass(frozen=True)
class Job:
    """A recipe with its directory, and which factories may be called."""

    recipe: Recipe
    run: Run
    trust: Trust = False

    def load(self, label: str) -> Loaded:
        """The recipe's network with weights of the run; those of another network are refused."""
        from holdfast.runs import load_model

        return load_model(self.run.weights(label), trust=self.trust, of=self.recipe.model)


def jobs(recipes: Sequence[Recipe], out: Path, *, fresh: bool = False, trust: Trust = False) -> list[Job]:
    """Claim the directories of all runs before any work starts."""
    from holdfast.runs import Run

    claimed = [Job(recipe, Run(out / recipe.name), trust) for recipe in recipes]
    if not is_first():
        return claimed
    for job in claimed:
        hold(job.run)
    for job in claimed:
        if fresh:
            job.run.clear()
    for job in claimed:
        job.run.claim(job.recipe)
    return claimed


def is_first() -> bool:
    """Whether this is the process that writes and speaks; with several devices the others only help to train."""
    return int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))) == 0


def images(job: Job, root: Path | None) -> Splits:
    """The images of a run; where it has results of test images that earlier versions drew, with these."""
    from holdfast.runs import prepare

    splits = prepare(job.recipe.data, job.recipe.seed, root).as_recorded(job.run)
    if is_first():
        mention_kept_images(job.run, splits)
    return splits


def mention_kept_images(run: Run, splits: Splits) -> None:
    """Say that a run keeps test images of its own, which other seeds do not share, and what to do about it."""
    if splits.kept:
        line = (
            f"{run.path}: keeps the test images of its results, which an earlier version drew with the run's seed; "
            f"`holdfast evaluate {run.path} --fresh` measures it on those that all seeds share"
        )
        echo(line, err=True)


def foresee(job: Job, splits: Splits) -> None:
    """Refuse before training what would fail after it: files that are not there, networks without a bound."""
    from holdfast.attacks import Transfer
    from holdfast.certify import Margin, SmoothedMargin
    from holdfast.corruptions.stored import Stored
    from holdfast.lipschitz import margin_growth
    from holdfast.runs import new_model

    for check in job.recipe.checks:
        if isinstance(check, Stored):
            check.check()
        if isinstance(check, Transfer):
            _foresee_source(job, check.source)
    need = [check for check in job.recipe.checks if isinstance(check, (Margin, SmoothedMargin)) and not check.constant]
    if not need or job.run.labels():
        return
    try:
        fresh = new_model(job.recipe, splits, trust=job.trust).eval()
        margin_growth(fresh, splits.test.batch(slice(0, 1))[0], need[0].norm)
    except ModelError as error:
        raise RecipeError(f"{job.recipe.name}: checks: {type(need[0]).__name__}: {error}") from error


def _foresee_source(job: Job, source: str) -> None:
    from holdfast.runs import path_of, read_card

    try:
        read_card(path_of(source, job.recipe.seed))
    except CheckpointError as error:
        raise RecipeError(f"{job.recipe.name}: checks: transfer: source {error}") from error


def train(
    job: Job, splits: Splits, *, quiet: bool, device: torch.device | None = None, tensorboard: bool = False
) -> None:
    """Train one run to its end, or until stopped between two steps; on the recipe's device unless one is given."""
    from holdfast.runs import refuse_others, versions
    from holdfast.training import Epoch, Step, fit

    recipe, run = job.recipe, job.run
    if not is_first():
        for _ in fit(recipe, splits, run, device=device, trust=job.trust):
            pass
        return
    refuse_others(run, splits)
    variant = recipe.name.split("/")[1] if recipe.name.count("/") > 1 else None
    run.tell(
        name=recipe.name, recipe=recipe.name.split("/")[0], variant=variant, seed=recipe.seed,
        versions=versions(), data=splits.facts(),
    )  # fmt: skip
    started, spent = time.monotonic(), run.info().get("seconds", {}).get("train", 0.0)
    note, trained, alarms = "", False, {}
    board = Board(run.path / "tensorboard") if tensorboard else None
    with Bar(quiet=quiet).stage(f"train {recipe.name}", "steps") as show, between_steps() as stop:
        records = fit(recipe, splits, run, device=device, trust=job.trust)
        for record in records:
            trained = True
            if isinstance(record, Epoch):
                note = _scores(record.validation)
                mention(record.halved, recipe.name)
                if record.alarm is not None:
                    alarms[record.epoch] = record.alarm
                if board:
                    board.add(record)
            elif isinstance(record, Step):
                show(record.step, record.total, f"epoch {record.epoch}  loss {record.loss:.3f}  {note}")
            else:
                doing = f"epoch {record.epoch}  preparing  {note}" if record.epoch else "fitting the transformation"
                mention(record.halved, recipe.name)
                show(record.done, record.total, doing)
            if stop.requested:
                records.close()  # type: ignore[attr-defined]
                raise KeyboardInterrupt
    if alarms:
        epoch, alarm = min(alarms.items())
        say(f"{recipe.name}: after epoch {epoch}, the first of {len(alarms)}: {alarm}", quiet=quiet)
    if trained and (fitted := run.info().get("fitted")):
        say(f"{recipe.name}: {fit_in_words(fitted)}", quiet=quiet)
    if trained or "weights" not in run.info():  # a network with nothing to train leaves no records
        seconds = {**run.info().get("seconds", {}), "train": spent + time.monotonic() - started}
        run.tell(seconds=seconds, weights=_weights(job, splits), model=_model(job))


def fit_in_words(fitted: Mapping[str, Any]) -> str:
    """What the fit of a composite's transformation chose, and what it achieves on the validation images."""
    chosen = "scale {scale:.3g}, power {power:.3g}, shift {shift:.3g}, strength {strength:.4g}".format(**fitted)
    kept, overruling = (percent(fitted[name]) for name in ("kept", "overruling"))
    return (
        f"fitted {chosen} (share of the robust network {fitted['share']:.4f}); on validation images the standard "
        f"network cannot overrule {kept} of {fitted['right_under_attack']} right answers under {fitted['attack']}, and "
        f"{overruling} of {fitted['wrong_on_clean']} wrong ones on clean images"
    )


def evaluate(
    run: Run, subject: Subject, splits: Splits, checks: Sequence[Check], how: Any, seed: int, *, quiet: bool,
    points: Path | None = None, batch_size: BatchSize | None = None,
) -> None:  # fmt: skip
    """Run the checks that the ledger lacks, where the network is.

    With `points`, perturbed images go to that directory. What the run's ledger holds has left none, so that the checks
    have a ledger of their own there, whose rows are taken over. `batch_size` is shared with other networks, and smaller
    afterwards if memory ran out.
    """
    from holdfast.cli.points import take_over
    from holdfast.evaluation import evaluations
    from holdfast.halving import BatchSize
    from holdfast.results import Ledger

    started, fresh = time.monotonic(), False
    not_run: Counter[str] = Counter()
    ledger = run.ledger if points is None else Ledger(points)
    batch_size = batch_size or BatchSize(how.batch_size)
    try:
        with Bar(quiet=quiet).stage(f"check {subject.run} ({subject.weights})", "images x checks") as show:
            for block in evaluations(
                subject, splits.test, checks, how=how, seed=seed, ledger=ledger, gallery=run.gallery, points=points,
                batch_size=batch_size,
            ):  # fmt: skip
                fresh |= block.rows is not None
                not_run.update(block.not_run)
                mention(block.halved, f"{subject.run} ({subject.weights})")
                show(block.done, block.total, block.check)
    finally:
        if points is not None:
            take_over(ledger, run.ledger, subject)
    _tell_not_run(run, subject.weights, checks, not_run)
    if not run.ledger.parts():
        raise LedgerError(f"{run.path}: nothing was run within the budget; allow more time")
    if fresh:
        spent = run.info().get("seconds", {})
        run.tell(seconds={**spent, "evaluate": spent.get("evaluate", 0.0) + time.monotonic() - started})
    judge(run, subject, splits, checks, seed, batch_size.at_most(EXAMPLES))


def _tell_not_run(run: Run, weights: str, checks: Sequence[Check], not_run: Mapping[str, int]) -> None:
    """Note what was left out; of checks that were not asked for this time, what was noted before stays."""
    from holdfast.checks import Check
    from holdfast.recipe import describe

    recorded = run.info().get("not_run", {})
    requested = {describe(check, Check)[1]: traits_of(check) for check in checks}
    others = {
        what: count
        for what, count in recorded.get(weights, {}).items()
        if not any(what == label or what.startswith(f"{label}: ") for label in requested)
    }
    threats = {
        label: {"norm": traits.axis, "eps": traits.size, "minimises": traits.minimises}
        for label, traits in requested.items()
        if traits.kind == Kind.ATTACK and any(what == label or what.startswith(f"{label}: ") for what in not_run)
    }
    if threats:
        run.tell(threats={**run.info().get("threats", {}), **threats})
    run.tell(not_run={**recorded, weights: {**others, **not_run}})


def evaluate_run(job: Job, splits: Splits, checks: Sequence[Check], device: torch.device, *, quiet: bool) -> Ready:
    """Check all weights of a trained run."""
    from holdfast.cli.networks import Ready

    networks, recipe = subjects(job, splits), job.recipe
    for subject in networks:
        to_device(subject.model, device)
    evaluate_all(job.run, networks, splits, checks, recipe.evaluate, recipe.seed, quiet=quiet)
    return Ready(job.run, networks, splits, checks, recipe.evaluate, recipe.seed, device)


def evaluate_all(
    run: Run, networks: Sequence[Subject], splits: Splits, checks: Sequence[Check], how: Any, seed: int, *, quiet: bool
) -> None:
    """Check several networks of one run, all in the time that there is."""
    from holdfast.halving import BatchSize
    from holdfast.recipe import Seconds

    started, batch_size = time.monotonic(), BatchSize(how.batch_size)
    for subject in networks:
        spent = time.monotonic() - started
        left = how if how.budget is None else replace(how, budget=Seconds(max(how.budget - spent, 0.0)))
        evaluate(run, subject, splits, checks, left, seed, quiet=quiet, batch_size=batch_size)


def subjects(job: Job, splits: Splits) -> list[Subject]:
    """All weights of a trained run, the best first; results of weights that are no more are forgotten.

    Raises:
        CheckpointError: if weights are of another network than the recipe's.
        RecipeError: if the code of a network has changed, and it no longer computes what it did.
    """
    from holdfast.evaluation import Subject
    from holdfast.runs import same_outputs
    from holdfast.verdicts import forget_others

    found = {label: job.load(label) for label in job.run.labels()}
    there = {(label, loaded.card.hash[:12]) for label, loaded in found.items()}
    _forget_replaced(job.run, there)
    forget_others(job.run.path, there)
    for label, loaded in found.items():
        outputs = same_outputs(job.run, label, loaded.card.hash, loaded.model, splits)
        now = {"sha256": loaded.card.hash, "epoch": loaded.card.epoch, "outputs": outputs}
        recorded = job.run.info().get("weights", {})
        if recorded.get(label) != now:
            job.run.tell(weights={**recorded, label: now})
    return [
        Subject(loaded.model, job.recipe.name, label, loaded.card.hash, job.trust) for label, loaded in found.items()
    ]


def _forget_replaced(run: Run, there: set[tuple[str, str]]) -> None:
    """Delete results of weights that training has replaced since they were checked."""
    for part in run.ledger.parts():
        try:
            rows = run.ledger.part(part.stem).head(1).select("weights", "weights_hash").rows()
        except LedgerError:
            continue  # reading the whole ledger says what is wrong with it
        if rows and rows[0] not in there:
            files.remove(part)
            files.remove(run.gallery / f"{part.stem.rpartition('-')[0]}.npz")


def _scores(scores: dict[str, float] | None) -> str:
    if not scores:
        return ""
    return "validation " + ", ".join(
        f"{name.replace('_', ' ')} {percent(value)}" for name, value in scores.items() if name != "loss"
    )


def _weights(job: Job, splits: Splits) -> dict[str, Any]:
    """What `run.json` says about the weights there are."""
    from holdfast.runs import outputs_of

    facts = {}
    for label in ("best", "last"):
        if job.run.weights(label).exists():
            loaded = job.load(label)
            outputs = outputs_of(loaded.model, splits.test).facts()
            facts[label] = {"sha256": loaded.card.hash, "epoch": loaded.card.epoch, "outputs": outputs}
    return facts


def _model(job: Job) -> dict[str, Any]:
    from holdfast.recipe import Recipe, plain

    loaded = job.load(job.run.labels()[0])
    (name,) = plain(loaded.card.recipe, Recipe)["model"]
    return {"name": name, "parameters": sum(p.numel() for p in loaded.model.parameters())}
