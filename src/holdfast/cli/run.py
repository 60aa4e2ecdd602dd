"""`holdfast run`: from a recipe to a report."""

from __future__ import annotations

import typer

from holdfast.cli.device import device_of
from holdfast.cli.drawing import draw
from holdfast.cli.groups import RecipeOptions, grouped
from holdfast.cli.options import Json, Only, TensorBoard
from holdfast.cli.output import echo_json
from holdfast.cli.screen import resumable, say
from holdfast.cli.sections import show_overview
from holdfast.cli.summary import other_images, summary


@grouped
@resumable()
def command(work: RecipeOptions, only: Only = None, tensorboard: TensorBoard = False, as_json: Json = False) -> None:
    """Train, check and report the runs of a recipe; repeat the command to resume."""
    from holdfast.cli import verdicts
    from holdfast.cli.certify import refute
    from holdfast.conduct.ranks import is_first
    from holdfast.conduct.runs import run_jobs
    from holdfast.report.runs import read_runs

    place = work.place()
    jobs = work.jobs(only)
    doing = run_jobs(jobs, work.out, data_root=work.data_root, device=place, several=bool(only))
    failed = draw(doing, quiet=as_json, tensorboard=tensorboard)
    if not is_first():
        return
    runs = [job.run for job in jobs if job.run.ledger.parts()]
    report = work.out / jobs[0].name.split("/")[0] / "report.html"
    if as_json:
        paths = [str(run.path) for run in runs]
        output = {"runs": paths, "results": summary(runs), "verdicts": verdicts.records(runs), "report": str(report)}
        output |= {"other_images": other_images(runs), "failed": {one.job.name: one.reason for one in failed}}
        echo_json(output)
    else:
        show_overview(read_runs([run.path for run in runs]))
        for line in verdicts.failures(runs):
            say(line)
        say(f"device: {device_of(work.device)}")
        say(f"report: {report}")
    refute(runs)
    if failed:
        raise typer.Exit(1)
