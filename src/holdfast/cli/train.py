"""`holdfast train`: only the training of a recipe."""

from __future__ import annotations

import typer

from holdfast.cli.device import trained_on
from holdfast.cli.drawing import draw
from holdfast.cli.groups import RecipeOptions, grouped
from holdfast.cli.options import Json, Only, TensorBoard
from holdfast.cli.output import echo_json
from holdfast.cli.screen import resumable, say


@grouped
@resumable()
def command(work: RecipeOptions, only: Only = None, tensorboard: TensorBoard = False, as_json: Json = False) -> None:
    """Train the runs of a recipe; repeat the command to resume."""
    from holdfast.conduct.ranks import is_first
    from holdfast.conduct.runs import train_jobs

    place = work.place()
    jobs = work.jobs(only)
    records = train_jobs(jobs, data_root=work.data_root, device=place)
    failed = {one.job.name: one.reason for one in draw(records, quiet=as_json, tensorboard=tensorboard)}
    if not is_first():
        return
    trained = [job for job in jobs if job.name not in failed]
    if as_json:
        runs = [{"name": job.name, "path": str(job.run.path), **job.run.info()} for job in trained]
        echo_json({"runs": runs, "failed": failed})
    for job in trained:
        on = trained_on(job.recipe.train.fabric.accelerator, work.device)
        say(f"{job.name}: trained on {on}, weights in {job.run.path}", quiet=as_json)
    if failed:
        raise typer.Exit(1)
