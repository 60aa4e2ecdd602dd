"""`holdfast train`: only the training of a recipe."""

from __future__ import annotations

from holdfast.cli.code_permission import TrustCode, allowed_code
from holdfast.cli.device import Device, device_of, trained_on
from holdfast.cli.drawing import draw, mention_kept_images
from holdfast.cli.locks import hold
from holdfast.cli.options import OUT, Fresh, Json, Only, Out, RecipeFile, Root, Set, TensorBoard, names
from holdfast.cli.output import echo_json
from holdfast.cli.screen import resumable, say


@resumable()
def command(
    recipe: RecipeFile, set_: Set = None, only: Only = None, out: Out = OUT, data_root: Root = None,
    fresh: Fresh = False, device: Device = None, tensorboard: TensorBoard = False, trust: TrustCode = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Train the runs of a recipe; repeat the command to resume."""
    from holdfast.conduct import claim_jobs, is_first, prepared_images, train
    from holdfast.recipe import load_recipes

    recipes = load_recipes(recipe, set_ or (), only=names(only))
    code = allowed_code(recipes, recipe, trust=trust)
    jobs = claim_jobs(recipes, out, hold, fresh=fresh, trust=code)
    place = device_of(device)
    for job in jobs:
        splits = prepared_images(job, data_root)
        if is_first():
            mention_kept_images(job.run, splits)
        draw(train(job, splits, device=place if device else None), quiet=as_json, tensorboard=tensorboard)
        on = trained_on(job.recipe.train.fabric.accelerator, device)
        say(f"{job.recipe.name}: trained on {on}, weights in {job.run.path}", quiet=as_json or not is_first())
    if not is_first():
        return
    if as_json:
        echo_json({"runs": [{"name": job.name, "path": str(job.run.path), **job.run.info()} for job in jobs]})
