"""What `run`, `train` and `evaluate` have in common: the library's iterators with a bar around them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from holdfast.cli.screen import Bar, between_steps, interval, percent, table

if TYPE_CHECKING:
    from holdfast.checks import Check
    from holdfast.evaluate import Subject
    from holdfast.recipe import Recipe
    from holdfast.runs import Run, Splits


@dataclass(frozen=True)
class Job:
    """A recipe with its directory."""

    recipe: Recipe
    run: Run


def jobs(recipes: Sequence[Recipe], out: Path, *, fresh: bool = False) -> list[Job]:
    """Claim the directories of all runs before any work starts."""
    from holdfast.runs import Run

    found = [Job(recipe, Run(out / recipe.name)) for recipe in recipes]
    for job in found:
        if fresh and job.run.path.exists():
            shutil.rmtree(job.run.path)
    for job in found:
        job.run.claim(job.recipe)
    return found


def train(job: Job, splits: Splits, *, quiet: bool) -> None:
    """Train one run to its end, or until stopped between two steps."""
    from holdfast.runs import versions
    from holdfast.training import Epoch, fit

    recipe, run = job.recipe, job.run
    variant = recipe.name.split("/")[1] if recipe.name.count("/") > 1 else None
    run.tell(
        name=recipe.name, recipe=recipe.name.split("/")[0], variant=variant, seed=recipe.seed,
        versions=versions(), data=splits.facts(),
    )  # fmt: skip
    started, spent = time.monotonic(), run.info().get("seconds", {}).get("train", 0.0)
    note, trained = "", False
    with Bar(quiet=quiet).stage(f"train {recipe.name}") as show, between_steps() as stop:
        records = fit(recipe, splits, run)
        for record in records:
            trained = True
            if isinstance(record, Epoch):
                note = _scores(record.validation)
            else:
                show(record.step, record.total, f"epoch {record.epoch}  loss {record.loss:.3f}  {note}")
            if stop.requested:
                records.close()  # type: ignore[attr-defined]
                raise KeyboardInterrupt
    if trained:
        seconds = {**run.info().get("seconds", {}), "train": spent + time.monotonic() - started}
        run.tell(seconds=seconds, weights=_weights(run), model=_model(run))


def evaluate(
    run: Run, subject: Subject, splits: Splits, checks: Sequence[Check], how: Any, seed: int, *, quiet: bool
) -> None:
    """Run the checks that the ledger lacks."""
    from holdfast.evaluate import evaluations

    started, fresh = time.monotonic(), 0
    with Bar(quiet=quiet).stage(f"check {subject.run} ({subject.weights})") as show:
        blocks = evaluations(subject, splits.test, checks, how=how, seed=seed, ledger=run.ledger, gallery=run.gallery)
        for done, block in enumerate(blocks, start=1):
            fresh += block.rows is not None
            show(done, block.total * len(checks), block.check)
    if fresh:
        spent = run.info().get("seconds", {})
        run.tell(seconds={**spent, "evaluate": spent.get("evaluate", 0.0) + time.monotonic() - started})


def evaluate_run(job: Job, splits: Splits, checks: Sequence[Check], *, quiet: bool) -> None:
    """Check all weights of a trained run."""
    from holdfast.evaluate import Subject
    from holdfast.runs import load_model

    for label in job.run.labels():
        loaded = load_model(job.run.weights(label))
        model = loaded.model.to(_device())
        subject = Subject(model, job.recipe.name, label, loaded.hash)
        evaluate(job.run, subject, splits, checks, job.recipe.evaluate, job.recipe.seed, quiet=quiet)


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Accuracies and worst case of runs as plain records."""
    import polars as pl

    from holdfast.results import accuracies, worst_case

    rows = pl.concat([run.ledger.read() for run in runs])
    columns = ["run", "weights", "check", "examples", "correct", "accuracy", "low", "high"]
    worst = worst_case(rows).with_columns(check=pl.lit("worst case")).select(columns)
    return pl.concat([accuracies(rows).select(columns), worst]).to_dicts()


def show_summary(records: Sequence[dict[str, Any]]) -> None:
    """Print accuracies: a row per check, a column per run with its best weights; the last weights get two rows."""
    cells = {(r["run"], r["weights"], r["check"]): r for r in records}
    labels = {run: min(r["weights"] for r in records if r["run"] == run) for run, _, _ in cells}
    checks = list(dict.fromkeys(check for _, _, check in cells if check != "worst case"))
    lines: list[tuple[str, str, str | None]] = [(check, check, None) for check in [*checks, "worst case"]]
    if any(weights == "last" != labels[run] for run, weights, _ in cells):
        lines += [(f"{check}, last weights", check, "last") for check in (checks[0], "worst case")]
    rows = []
    for title, check, weights in lines:
        found = [cells.get((run, weights or label, check)) for run, label in labels.items()]
        rows.append([title, *[_share(cell) if cell else "-" for cell in found]])
    table(["accuracy [95 % interval]", *short_names(list(labels))], rows)


def _share(cell: dict[str, Any]) -> str:
    return f"{percent(cell['accuracy'])} {interval(cell['low'], cell['high'])}"


def short_names(names: Sequence[str]) -> list[str]:
    """Names without the part that all share, cut at a slash."""
    shared = 0
    while len(names) > 1 and all("/" in name[shared:] for name in names):
        cut = names[0].index("/", shared) + 1
        if any(name[:cut] != names[0][:cut] for name in names):
            break
        shared = cut
    return [name[shared:] for name in names]


def say(text: str, *, quiet: bool = False) -> None:
    """A line for people."""
    if not quiet:
        typer.echo(text)


def _scores(scores: dict[str, float] | None) -> str:
    if not scores:
        return ""
    return "validation " + ", ".join(
        f"{name.replace('_', ' ')} {percent(value)}" for name, value in scores.items() if name != "loss"
    )


def _weights(run: Run) -> dict[str, Any]:
    """What `run.json` says about the weights there are."""
    from holdfast.models import read_metadata

    said = {}
    for label in ("best", "last"):
        if run.weights(label).exists():
            metadata = read_metadata(run.weights(label))
            said[label] = {"sha256": metadata["hash"], "epoch": int(metadata["epoch"])}
    return said


def _model(run: Run) -> dict[str, Any]:
    from holdfast.recipe import Recipe, plain
    from holdfast.runs import load_model

    loaded = load_model(run.path)
    (name,) = plain(loaded.recipe, Recipe)["model"]
    return {"name": name, "parameters": sum(p.numel() for p in loaded.model.parameters())}


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
