"""`holdfast analyse segment`: the loss on the way to an attack's point, and what Taylor expansions make of it."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import About, about, asking, block, measured
from holdfast.cli.audit import chosen_attack
from holdfast.cli.groups import Eps, Norm
from holdfast.cli.output import echo
from holdfast.cli.screen import percent, table
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.measuring import Measure
    from holdfast.analysis.store import Answer
    from holdfast.conduct import Ready
    from holdfast.types import Attack


def ask(
    ready: "Ready",
    quiet: bool,
    norm: Norm = None,
    eps: Eps = None,
    points: Annotated[int, typer.Option("--points", min=2, max=1001, help="Of each segment, ends included.")] = 21,
    around: Annotated[
        float, typer.Option("--around", help="Where expansions are made: 0 at the image, 1 at the attack's point.")
    ] = 0.0,
    tolerance: Annotated[float, typer.Option("--tolerance", help="Error of an expansion that is still right.")] = 0.1,
) -> "Answer":
    """The loss on the way from each image to what an attack finds, with expansions of first and second order."""
    from holdfast.analysis.segment_summary import summarise_segments
    from holdfast.analysis.store import write_answer
    from holdfast.checks import Check
    from holdfast.recipe.plain import describe

    if not 0 <= around <= 1:
        raise RecipeError(f"--around: expected a number from 0 to 1, got {around:g}")
    if not 0 < tolerance < float("inf"):
        raise RecipeError(f"--tolerance: expected a positive number, got {tolerance:g}")
    attack = chosen_attack("analyse segment", ready, norm, eps)
    _, _, params = describe(attack, Check)
    settings = {
        "attack": describe(replace(attack, until_lost=True), Check)[1], "params": params, "points": points,
        "around": around, "tolerance": tolerance, "block": block(ready),
    }  # fmt: skip
    asked = about(ready, "segment", settings, {})
    rows = measured(ready, quiet, asked, _measure(asked, attack))
    answer = replace(asked.question, result=asdict(summarise_segments(rows, around=around)))
    write_answer(ready.run.path, answer)
    return answer


def _measure(asked: About, attack: "Attack") -> "Measure":
    """What is asked of a batch: the loss along the segments, the expansions and how wrong they are."""
    from holdfast.analysis.confidence import sureness
    from holdfast.analysis.segment import loss_along_segment, taylor_errors

    settings, model = asked.question.settings, asked.model

    def ask_batch(x: "Tensor", y: "Tensor", rng: Any) -> "dict[str, Tensor]":
        z = attack(model, x, y, rng=rng.split("attack"))
        way = loss_along_segment(
            model, x, z, y, points=settings["points"], around=settings["around"], batch=len(x)
        )  # a place at a time: no more images in memory than the batch has
        errors = taylor_errors(way, tolerance=settings["tolerance"])
        return {
            "loss": way.loss, "start": way.first[:, 0], "slope": way.slope, "bend": way.bend,
            "first_end": errors.first_end, "second_end": errors.second_end,
            "first_reach": errors.first_reach, "second_reach": errors.second_reach,
            "right": sureness(model, x, y).right, "held": sureness(model, z, y).right,
        }  # fmt: skip

    return ask_batch


def show(answer: "Answer") -> None:
    """A row for each place, how far each order reaches, and how much of the rise it foresees."""
    result, settings = answer.result, answer.settings
    rows = []
    for at in result["curve"]:
        cells = [_mean(at["loss"]), _mean(at["first"]), _mean(at["second"])]
        cells += [f"{at['first_error']['mean']:z.4g}", f"{at['second_error']['mean']:z.4g}"]
        rows.append([f"{at['place']:z.3g}", *cells, percent(at["first_within"]), percent(at["second_within"])])
    near = f"within {settings['tolerance']:g}"
    columns = ["place", "loss, 95 %", "order 1", "order 2", "error of 1", "error of 2", f"1 {near}", f"2 {near}"]
    origin = "at the image" if settings["around"] == 0 else f"at {settings['around']:g}"
    title = f"{result['examples']} segments to {settings['attack']}, expanded {origin}"
    table(columns, rows, title=title)
    echo(f"right answers: {percent(result['right'])} at the images, {percent(result['held'])} at the other ends")
    for name, order in (("first", result["first"]), ("second", result["second"])):
        lower, median, upper, whole = (percent(order[key]) for key in ("lower", "median", "upper", "to_the_end"))
        echo(
            f"{name} order: {near} of the loss up to {median} of the way for half of the images (quarters: {lower} and "
            f"{upper}), to the end for {whole}; error at the end {_mean(order['end'])}"
        )
    table(
        ["images", "number", "rise of the loss, 95 %", "order 1 has of it", "order 2 has of it"],
        [_group(group) for group in result["groups"]],
    )


def _group(group: Any) -> list[str]:
    rise = "" if group["rise"] is None else _mean(group["rise"])
    shares = ["" if group[name] is None else percent(group[name]) for name in ("first", "second")]
    return [group["name"], str(group["examples"]), rise, *shares]


def _mean(found: Any) -> str:
    from holdfast.analysis.spread import give_or_take

    return f"{found['mean']:z.4g} {give_or_take(found['half'], '{:z.2g}'.format)}"


command = asking(ask, show)
