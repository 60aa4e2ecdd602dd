"""`holdfast train`: only the training of a recipe."""

from __future__ import annotations

from holdfast.cli.device import Device, device_of, trained_on
from holdfast.cli.options import OUT, Fresh, Json, Only, Out, RecipeFile, Root, Set, TensorBoard, names
from holdfast.cli.output import echo_json
from holdfast.cli.screen import resumable, say
from holdfast.cli.trust import Trust, allowed_code


@resumable()
def command(
    recipe: RecipeFile, set_: Set = None, only: Only = None, out: Out = OUT, data_root: Root = None,
    fresh: Fresh = False, device: Device = None, tensorboard: TensorBoard = False, trust: Trust = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train the runs of a recipe; repeat the command to resume."""
    from holdfast.cli import work
    from holdfast.recipe import load_recipes

    recipes = load_recipes(recipe, set_ or (), only=names(only))
    code = allowed_code(recipes, recipe, trust=trust)
    jobs = work.jobs(recipes, out, fresh=fresh, trust=code)
    place = device_of(device)
    for job in jobs:
        splits = work.images(job, data_root)
        work.train(job, splits, quiet=as_json, device=place if device else None, tensorboard=tensorboard)
        on = trained_on(job.recipe.train.fabric.accelerator, device)
        say(f"{job.recipe.name}: trained on {on}, weights in {job.run.path}", quiet=as_json or not work.is_first())
    if not work.is_first():
        return
    if as_json:
        said = [{"name": job.recipe.name, "path": str(job.run.path), **job.run.info()} for job in jobs]
        echo_json({"runs": said})
