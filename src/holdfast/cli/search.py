"""`holdfast search`: the best values for the ranges of a recipe."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import files
from holdfast.cli.code_permission import allowed_code
from holdfast.cli.device import device_of, trained_on
from holdfast.cli.groups import RecipeOptions, grouped
from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.screen import Stop, between_steps, resumable, say, stdout
from holdfast.cli.system_errors import in_words
from holdfast.errors import HoldfastError, TrainingError
from holdfast.show.progress import Bar

if TYPE_CHECKING:
    from holdfast.search import Findings, Plan, TrialRecord

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
SAFE_PATH = "PYTHONSAFEPATH"


@grouped
@resumable()
def command(
    options: RecipeOptions,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes on this machine, one thread each.")] = 1,
    storage: Annotated[
        str | None,
        typer.Option(
            "--storage",
            metavar="ADDRESS",
            envvar="HOLDFAST_STORAGE",
            help="Database that Optuna knows, for many machines.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Search for the best values of a recipe's ranges; repeat the command to resume."""
    from holdfast.runs import unresolved
    from holdfast.search import forget_study, load_plan, open_study, read_findings
    from holdfast.search.sampler import trials

    recipe, overrides = options.recipe, tuple(options.set_ or ())
    plan = load_plan(recipe, overrides)
    goals = [plan.settings] if any(unresolved(plan.settings)) else []
    code = allowed_code([*plan.ends(), *goals], recipe, trust=options.trust)
    plan = plan.resolved(code)
    directory = options.out / plan.name
    options.place()  # refused before anything is deleted
    if options.fresh:
        forget_study(plan, directory, storage)
    errand = Errand(recipe, overrides, options.out, storage, options.data_root, options.device, code)
    study = open_study(plan, directory, storage)
    run = _alone if workers == 1 else _together
    run(errand, plan, study, trials(plan), workers, quiet=as_json)
    findings = read_findings(study, plan, trials(plan))
    if not findings.complete:
        raise TrainingError(f"{plan.name}: no trial of {len(findings.trials)} was completed; {_first_error(findings)}")
    files = _write(findings, plan, directory)
    if as_json:
        echo_json(_record(findings, directory, files))
    else:
        _show(findings, directory, files)
        say(f"device: {trained_on(next(plan.ends()).train.fabric.accelerator, options.device)}")


@dataclass(frozen=True)
class Errand:
    """What a worker needs to know, in a form that another process can read."""

    recipe: Path
    overrides: tuple[str, ...]
    out: Path
    storage: str | None
    root: Path | None
    device: str | None = None
    trust: frozenset[str] = frozenset()

    def records(self) -> Iterator[Any]:
        """The worker's records."""
        from holdfast.search import load_plan, work

        device = None if self.device is None else device_of(self.device)
        plan = load_plan(self.recipe, self.overrides)
        return work(plan, self.out, storage=self.storage, root=self.root, device=device, trust=self.trust)


def _alone(errand: Errand, plan: Plan, study: Any, total: int, workers: int, *, quiet: bool) -> None:
    """Work in this process."""
    from holdfast.search import Ended, ended

    done, records = ended(study), errand.records()
    with Bar(quiet=quiet).stage(f"search {plan.name}", "trials") as show, between_steps() as stop:
        try:
            for record in records:
                done += isinstance(record, Ended)
                show(done, total, "" if isinstance(record, Ended) else f"trial {record.trial}  {record.note}")
                if stop.requested:
                    raise KeyboardInterrupt
        finally:
            records.close()  # type: ignore[attr-defined]


def _together(errand: Errand, plan: Plan, study: Any, total: int, workers: int, *, quiet: bool) -> None:
    """Let other processes work, and end with them."""
    import multiprocessing

    from holdfast.search import ended

    context = multiprocessing.get_context("spawn")  # a fork would share threads and devices that cannot be shared
    with _one_thread():
        problems = context.SimpleQueue()
        work = {"target": _worker, "args": (errand, os.getpid(), problems), "daemon": True}
        crew = [context.Process(**work) for _ in range(workers)]  # type: ignore[arg-type]
        for member in crew:
            member.start()
    try:
        with Bar(quiet=quiet).stage(f"search {plan.name}", "trials") as show:
            while any(member.is_alive() for member in crew):
                if not problems.empty():
                    raise HoldfastError(problems.get())
                show(ended(study), total, f"{workers} workers")
                time.sleep(0.1)
    finally:
        for member in crew:
            member.terminate()  # does nothing to those that have ended
        for member in crew:
            member.join()
    if not problems.empty():
        raise HoldfastError(problems.get())
    if ended(study) < total and any(member.exitcode for member in crew):
        codes = ", ".join(str(member.exitcode) for member in crew)
        raise TrainingError(
            f"{plan.name}: all workers ended (exit codes {codes}) with {ended(study)} of {total} trials done; "
            "repeat the same command to resume"
        )


@contextmanager
def _one_thread() -> Iterator[None]:
    """For processes started meanwhile: one thread each, and Ctrl-C is for the one that started them."""
    before = {name: os.environ.get(name) for name in (*THREADS, SAFE_PATH)}
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    os.environ[SAFE_PATH] = "1"  # nor does Python put the working directory first in their path
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _worker(errand: Errand, parent: int, problems: Any) -> None:
    """Work in a process of its own until all is done, a stop is requested, or the parent has ended."""
    import torch

    torch.set_num_threads(1)
    stop = Stop()
    signal.signal(signal.SIGTERM, stop)
    records = errand.records()
    try:
        for _ in records:
            if stop.requested or os.getppid() != parent:
                break
    except HoldfastError as error:
        problems.put(str(error))
    except OSError as error:
        problems.put(in_words(error))
    finally:
        records.close()  # type: ignore[attr-defined]


def _first_error(findings: Findings) -> str:
    errors = [trial.error for trial in findings.trials if trial.error]
    return f"the first failed with: {errors[0]}" if errors else "none has ended"


def _write(findings: Findings, plan: Plan, directory: Path) -> dict[str, Any]:
    """Recipes of the best trials and the page."""
    import shutil

    from holdfast.search.findings import best_recipe
    from holdfast.search.page import write_search

    def write(path: Path, trial: TrialRecord, name: str) -> Path:
        text = best_recipe(plan, trial, name)
        with files.replacing(path) as file:
            file.write(text.encode())
        return path

    if len(findings.goals) == 1:
        recipes = [write(directory / "best.yaml", findings.best[0], f"{plan.name}-best")]
    else:
        shutil.rmtree(directory / "pareto", ignore_errors=True)
        recipes = [
            write(directory / "pareto" / f"{one.number:04d}.yaml", one, f"{plan.name}-{one.number:04d}")
            for one in findings.best
        ]
    texts = [recipe.read_text(encoding="utf-8") for recipe in recipes]
    page = write_search(findings, directory / "search.html", recipes=texts)
    return {"recipes": [str(recipe) for recipe in recipes], "report": str(page)}


def _record(findings: Findings, directory: Path, files: dict[str, Any]) -> dict[str, Any]:
    """For machines."""
    from holdfast.search.plots import savings

    saved = savings(findings)
    return {
        "name": findings.name,
        "path": str(directory),
        "objective": [
            {"label": goal.label, "direction": "maximize" if goal.maximize else "minimize"} for goal in findings.goals
        ],
        "best": [trial.number for trial in findings.best],
        "trials": [
            {
                "number": trial.number,
                "state": trial.state,
                "parameters": {path: findings.value(trial, path) for path in trial.drawn},
                "values": list(trial.values) or None,
                "epochs": trial.epochs,
                "seconds": trial.seconds,
                "scores": dict(trial.scores or {}),
                "error": trial.error,
            }
            for trial in findings.trials
        ],
        "importance": [dict(one) for one in findings.importance],
        "savings": {
            "pruned_seconds": saved.pruned,
            "full_seconds": saved.full,
            "gain": saved.gain,
            "equivalent_trials": saved.equivalent,
            "best_trial": saved.best,
        },
        **files,
    }


def _show(findings: Findings, directory: Path, files: dict[str, Any]) -> None:
    """For people."""
    from holdfast.search.page import overview
    from holdfast.show.terminal import draw

    draw(overview(findings), stdout())
    for trial in findings.trials:
        if trial.state == "failed":
            say(f"trial {trial.number} failed: {trial.error}")
    if findings.count("running"):
        say(f"{findings.count('running')} trials are under way elsewhere; repeat the command when they have ended")
    for recipe in files["recipes"]:
        say(f"recipe: {recipe}")
    say(f"report: {files['report']}")
