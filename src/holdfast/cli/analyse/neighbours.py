"""`holdfast analyse neighbours`: nearest training images as the robust classifier, alone and mixed with a network."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import about, asking, block, measured, numbers
from holdfast.cli.analyse.mixing import (
    BLOCK,
    Examples,
    Strengths,
    fewer,
    rate_in_words,
    strength_in_words,
    strengths_in,
)
from holdfast.cli.analyse.pairs import norm_of
from holdfast.cli.audit import chosen_attack
from holdfast.cli.groups import Eps, Norm
from holdfast.cli.networks import Ready
from holdfast.cli.output import echo
from holdfast.cli.screen import table
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.measuring import Measure
    from holdfast.analysis.mixing_plan import Plan
    from holdfast.analysis.store import Answer
    from holdfast.types import Attack

STRENGTHS = (0.001, 0.01, 0.1, 1.0)

CLIMBED = 10
"""Soft neighbours that attacks climb, at least."""


def ask(
    ready: Ready,
    quiet: bool,
    k: Annotated[str, typer.Option("--k", help="How many neighbours are asked.")] = "1,10,100",
    weights_of: Annotated[str, typer.Option("--weights-of", help="Of neighbours: uniform or distance.")] = "uniform",
    images: Annotated[int, typer.Option("--images", min=1, help="How many training images, at most.")] = 5000,
    strengths: Strengths = None,
    norm: Norm = None,
    eps: Eps = None,
    examples: Examples = 500,
) -> "Answer":
    """The labels of the nearest training images, alone and mixed with the network (eq. 2), under attack."""
    from holdfast.analysis.mixing_plan import Plan, grid_with, plain
    from holdfast.analysis.mixing_summary import summarise_mixing
    from holdfast.analysis.store import write_answer
    from holdfast.checks import Check
    from holdfast.recipe.plain import describe

    ready, drawn = fewer(ready, examples)
    if ready.splits.train is None:
        raise RecipeError(f"analyse neighbours: {ready.splits.name} has no training images to look up")
    if weights_of not in ("uniform", "distance"):
        raise RecipeError(f"--weights-of: expected uniform or distance, got {weights_of}")
    images = min(images, len(ready.splits.train))
    counts = _counts(k, images)
    attack = chosen_attack("analyse neighbours", ready, norm, eps)
    grid = grid_with(STRENGTHS if strengths is None else strengths_in("--strengths", strengths))
    plan = Plan(strengths=grid, eps=attack.threat.eps)
    settings = {
        **plan.settings(), "weights_of": weights_of, "images": images,
        "attack": describe(replace(attack, until_lost=True), Check)[1], "params": describe(attack, Check)[2],
        "block": min(block(ready), BLOCK), **drawn,
    }  # fmt: skip
    found = {}
    for count in counts:  # a question each, so that another number of neighbours can be asked later
        asked = about(ready, "neighbours", {**settings, "k": count}, {})
        rows = measured(ready, quiet, asked, _measure(ready, asked.model, plan, attack, asked.question.settings))
        answer = replace(asked.question, result=plain(asdict(summarise_mixing(rows, plan))))
        write_answer(ready.run.path, answer)
        found[str(count)] = answer.result
    return replace(answer, settings={**settings, "k": counts}, result=found)


def _counts(text: str, images: int) -> list[int]:
    found = numbers("--k", text)
    if not all(value == int(value) and 1 <= value <= images for value in found):
        raise RecipeError(f"--k: expected whole numbers from 1 to the {images} training images, got {text!r}")
    return [int(value) for value in found]


def _measure(ready: Ready, model: Any, plan: "Plan", attack: "Attack", settings: Any) -> "Measure":
    """What is asked of a batch; attacks climb the soft neighbours, which have a gradient."""
    from holdfast.analysis.mixing import attempts, mixtures, tried
    from holdfast.data import subset
    from holdfast.ensembles import LocalBias, NearestNeighbours
    from holdfast.ensembles.composite import frozen
    from holdfast.evaluation.subject import place

    assert ready.splits.train is not None
    x, y = subset(ready.splits.train, settings["images"], ready.seed).batch(slice(None))
    x, y = x.to(where := place(model)), y.to(where.device)
    classes, bias = len(ready.splits.classes), LocalBias(norm=norm_of(attack))
    oracle = NearestNeighbours(x, y, classes, k=settings["k"], weights=settings["weights_of"])
    # a single neighbour has all the weight, and so no gradient
    climbed = NearestNeighbours(x, y, classes, k=min(max(settings["k"], CLIMBED), len(x)), weights="soft")
    judged, aims = (mixtures(frozen(model), one, bias, plan.strengths) for one in (oracle, climbed))

    def ask_batch(x: "Tensor", y: "Tensor", rng: Any) -> Any:
        return {"right": tried(judged, attempts(plan, aims, attack), x, y, rng=rng)}

    return ask_batch


def show(answer: "Answer") -> None:
    """A row for each number of neighbours and strength."""
    settings, kinds = answer.settings, ("clean", "on_standard", "itself", "worst")
    rows = [
        [f"{count}, {strength_in_words(one['mixture'])}", *(rate_in_words(one[kind]) for kind in kinds)]
        for count, result in answer.result.items()
        for one in result["strengths"]
    ]
    columns = ["k, strength", "clean", "attack on the network", "attack on itself", "worst of all"]
    title = f"{settings['weights_of']} neighbours among {settings['images']} images, {settings['attack']}"
    table(columns, rows, title=title)
    echo("a strength of 0 is the network alone, inf the neighbours alone")


command = asking(ask, show)
