"""`holdfast analyse flatness`: the loss around a network's parameters."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.analyse.asking import asking, examples, numbers
from holdfast.cli.networks import Ready
from holdfast.cli.screen import Bar, percent, table

if TYPE_CHECKING:
    from holdfast.analysis.store import Answer


def ask(
    ready: Ready,
    quiet: bool,
    radii: Annotated[
        str | None,
        typer.Option("--radii", help="Distances from the parameters; else 0 to 25, or 0 to 0.5 with --by-filter."),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Random directions.")] = 50,
    by_filter: Annotated[bool, typer.Option("--by-filter", help="Move every filter in proportion to itself.")] = False,
) -> "Answer":
    """The mean loss at growing distances from a network's parameters, in random directions."""
    from holdfast.analysis.flatness import flatness
    from holdfast.analysis.store import write_answer

    sizes = numbers("--radii", radii or ("0,0.1,0.2,0.3,0.4,0.5" if by_filter else "0,5,10,15,20,25"))
    settings = {"radii": [*sizes], "draws": draws, "by_filter": by_filter}
    seen = examples(ready, "flatness", settings, {"levels": []})
    answer, known = seen.question, len(seen.question.result["levels"])
    with Bar(quiet=quiet).stage(f"flatness {ready.subjects[0].run}", "radii") as show:
        for level in flatness(
            seen.model, seen.x, seen.y, radii=sizes[known:], draws=draws, by_filter=by_filter,
            batch_size=ready.how.batch_size, seed=ready.seed,
        ):  # fmt: skip
            answer = replace(answer, result={"levels": [*answer.result["levels"], asdict(level)]})
            write_answer(ready.run.path, answer)
            show(len(answer.result["levels"]), len(sizes), f"radius {level.radius:g}")
    return answer


def show(answer: "Answer") -> None:
    """Loss and accuracy at each distance."""
    from holdfast.analysis.spread import give_or_take, spread

    rows = []
    for level in answer.result["levels"]:
        losses, errors = spread(level["losses"]), spread(level["errors"])
        rows.append(
            [
                f"{level['radius']:g}",
                f"{losses.mean:z.4f} {give_or_take(losses.half, '{:z.4f}'.format)}",
                percent(1 - errors.mean),
            ]
        )
    way = "of each filter's length" if answer.settings["by_filter"] else "in all parameters"
    title = f"{answer.settings['draws']} directions, {answer.settings['examples']} images"
    table([f"distance {way}", "mean loss, 95 %", "accuracy"], rows, title=title)


command = asking(ask, show)
