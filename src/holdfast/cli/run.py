"""`holdfast run`: from a recipe to a report."""

from __future__ import annotations

import typer

from holdfast.cli.code_permission import TrustCode, allowed_code
from holdfast.cli.device import Device, device_of
from holdfast.cli.drawing import draw
from holdfast.cli.locks import hold
from holdfast.cli.options import OUT, Fresh, Json, Only, Out, RecipeFile, Root, Set, TensorBoard, names
from holdfast.cli.output import echo_json
from holdfast.cli.screen import resumable, say
from holdfast.cli.sections import show_overview
from holdfast.cli.summary import other_images, summary


@resumable()
def command(
    recipe: RecipeFile, set_: Set = None, only: Only = None, out: Out = OUT, data_root: Root = None,
    fresh: Fresh = False, device: Device = None, tensorboard: TensorBoard = False, trust: TrustCode = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train, check and report the runs of a recipe; repeat the command to resume."""
    from holdfast.cli import verdicts
    from holdfast.cli.certify import refute
    from holdfast.conduct import claim_jobs, is_first, run_jobs
    from holdfast.recipe import load_recipes
    from holdfast.report import read_runs

    recipes = load_recipes(recipe, set_ or (), only=names(only))
    code = allowed_code(recipes, recipe, trust=trust)
    jobs = claim_jobs(recipes, out, hold, fresh=fresh, trust=code)
    place = device_of(device)
    work = run_jobs(jobs, out, data_root=data_root, device=place if device else None, several=bool(only))
    failed = draw(work, quiet=as_json, tensorboard=tensorboard)
    if not is_first():
        return
    runs = [job.run for job in jobs if job.run.ledger.parts()]
    report = out / jobs[0].name.split("/")[0] / "report.html"
    if as_json:
        paths = [str(run.path) for run in runs]
        output = {"runs": paths, "results": summary(runs), "verdicts": verdicts.records(runs), "report": str(report)}
        output |= {"other_images": other_images(runs), "failed": {one.job.name: one.reason for one in failed}}
        echo_json(output)
    else:
        show_overview(read_runs([run.path for run in runs]))
        for line in verdicts.failures(runs):
            say(line)
        say(f"device: {place}")
        say(f"report: {report}")
    refute(runs)
    if failed:
        raise typer.Exit(1)
