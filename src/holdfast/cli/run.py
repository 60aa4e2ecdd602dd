"""`holdfast run`: from a recipe to a report."""

from __future__ import annotations

from holdfast.cli.device import Device, device_of
from holdfast.cli.options import OUT, Fresh, Json, Only, Out, RecipeFile, Root, Set, TensorBoard, names
from holdfast.cli.output import echo_json
from holdfast.cli.screen import resumable, say
from holdfast.cli.summary import other_images, show_at_chance, show_left_out, show_summary, summary
from holdfast.cli.trust import Trust, allowed_code


@resumable()
def command(
    recipe: RecipeFile, set_: Set = None, only: Only = None, out: Out = OUT, data_root: Root = None,
    fresh: Fresh = False, device: Device = None, tensorboard: TensorBoard = False, trust: Trust = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train, check and report the runs of a recipe; repeat the command to resume."""
    from holdfast.cli import verdicts, work
    from holdfast.cli.analyse.question import answer
    from holdfast.cli.certify import refute
    from holdfast.cli.find import find_runs
    from holdfast.recipe import load_recipes
    from holdfast.report import write_report

    recipes = load_recipes(recipe, set_ or (), only=names(only))
    code = allowed_code(recipes, recipe, trust=trust)
    jobs = work.jobs(recipes, out, fresh=fresh, trust=code)
    place = device_of(device)
    for job in jobs:
        splits = work.images(job, data_root)
        work.foresee(job, splits)
        work.train(job, splits, quiet=as_json, device=place if device else None, tensorboard=tensorboard)
        if work.is_first():
            ready = work.evaluate_run(job, splits, job.recipe.checks, place, quiet=as_json)
            for question in job.recipe.analyses:
                answer(ready, question, trust=code, quiet=as_json)
    if not work.is_first():
        return
    runs = [job.run for job in jobs]
    everything = out / jobs[0].recipe.name.split("/")[0]
    shown = find_runs([everything]) if only else [run.path for run in runs]  # those of other variants, too
    report = write_report(shown, everything / "report.html")
    records = summary(runs)
    if as_json:
        paths = [str(run.path) for run in runs]
        output = {"runs": paths, "results": records, "verdicts": verdicts.records(runs), "report": str(report)}
        output["other_images"] = other_images(runs)
        echo_json(output)
    else:
        show_summary(records)
        if note := other_images(runs):
            say(f"not comparable: {note}")
        show_left_out(runs)
        show_at_chance(runs)
        for line in verdicts.failures(runs):
            say(line)
        say(f"device: {place}")
        say(f"report: {report}")
    refute(runs)
