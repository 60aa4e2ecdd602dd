"""`holdfast analyse thickness`: boundary thickness."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.analyse.asking import asking, examples
from holdfast.cli.networks import Ready
from holdfast.cli.output import echo
from holdfast.cli.screen import Bar, percent, table
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from holdfast.analysis.store import Answer


def ask(
    ready: Ready,
    quiet: bool,
    alpha: Annotated[float, typer.Option("--alpha", help="Lower end of the band of probability differences.")] = 0.0,
    beta: Annotated[float, typer.Option("--beta", help="Its upper end.")] = 0.75,
    eps: Annotated[float, typer.Option("--eps", help="How far the l2 attack may go.")] = 1.0,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Of the attack.")] = 20,
    step_size: Annotated[float, typer.Option("--step-size", help="Length of a step of the attack.")] = 0.2,
    points: Annotated[int, typer.Option("--points", min=2, help="On each segment.")] = 128,
) -> "Answer":
    """How far a network's mind takes to change, along segments to points of other classes that an attack finds."""
    from holdfast.analysis.store import write_answer
    from holdfast.analysis.thickness import check_band, thickness_by_batch
    from holdfast.attacks import PGD
    from holdfast.rng import Streams
    from holdfast.threat import L2

    try:
        check_band(alpha, beta)
        attack = PGD(threat=L2(eps), steps=steps, step_size=step_size, random_start=False, until_lost=False)
    except ValueError as error:
        raise RecipeError(f"analyse thickness: {error}") from error
    settings = {"alpha": alpha, "beta": beta, "eps": eps, "steps": steps, "step_size": step_size, "points": points}
    seen = examples(ready, "thickness", settings, {name: [] for name in ("value", "length", "source", "reached")})
    answer, rng = seen.question, Streams(ready.seed, "thickness", seen.index)
    with Bar(quiet=quiet).stage(f"thickness {ready.subjects[0].run}", "images") as show:
        for part in thickness_by_batch(
            seen.model, seen.x, batch_size=ready.how.batch_size, rng=rng, start=len(answer.result["value"]),
            alpha=alpha, beta=beta, points=points, attack=attack,
        ):  # fmt: skip
            known = {name: [*values, *getattr(part, name).tolist()] for name, values in answer.result.items()}
            answer = replace(answer, result=known)
            write_answer(ready.run.path, answer)
            show(len(known["value"]), len(seen.x), "")
    return answer


def show(answer: "Answer") -> None:
    """Mean and spread, of all images and of each predicted class."""
    from holdfast.analysis.spread import by_class, give_or_take, spread

    result, settings = answer.result, answer.settings
    groups = {"all": result["value"], **{f"class {name}": values for name, values in by_class(result).items()}}
    rows, four = [], "{:z.4f}".format
    for name, values in groups.items():
        found = spread(values)
        deviation = "" if found.deviation is None else four(found.deviation)
        rows.append([name, str(len(values)), f"{four(found.mean)} {give_or_take(found.half, four)}", deviation])
    band = f"thickness of ({settings['alpha']:g}, {settings['beta']:g})"
    table(["images", "number", "mean, 95 %", "deviation"], rows, title=band)
    reached = sum(result["reached"]) / len(result["reached"])
    echo(f"{percent(reached)} of the segments end in the class they aim at")


command = asking(ask, show)
