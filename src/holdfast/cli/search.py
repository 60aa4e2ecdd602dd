"""`holdfast search`: the best values for the ranges of a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import files
from holdfast.cli.code_permission import allowed_code
from holdfast.cli.device import trained_on
from holdfast.cli.findings import record, show
from holdfast.cli.groups import RecipeOptions, grouped
from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.screen import resumable, say
from holdfast.cli.workers import Errand, alone, together
from holdfast.errors import TrainingError

if TYPE_CHECKING:
    from holdfast.search.findings import Findings, TrialRecord
    from holdfast.search.plan import Plan


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
    from holdfast.runs.code import unresolved
    from holdfast.search.findings import read_findings
    from holdfast.search.plan import load_plan
    from holdfast.search.sampler import trials
    from holdfast.search.study import forget_study, open_study

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
    run = alone if workers == 1 else together
    run(errand, plan, study, trials(plan), workers, quiet=as_json)
    findings = read_findings(study, plan, trials(plan))
    if not findings.complete:
        raise TrainingError(f"{plan.name}: no trial of {len(findings.trials)} was completed; {_first_error(findings)}")
    files = _write(findings, plan, directory)
    if as_json:
        echo_json(record(findings, directory, files))
    else:
        show(findings, directory, files)
        say(f"device: {trained_on(next(plan.ends()).train.fabric.accelerator, options.device)}")


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
