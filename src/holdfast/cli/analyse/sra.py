"""`holdfast analyse sra`: smoothed robustness over region and noise."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import asking, examples, numbers
from holdfast.cli.networks import Ready
from holdfast.cli.screen import Bar, percent, table
from holdfast.errors import RecipeError, unknown

if TYPE_CHECKING:
    from holdfast.analysis.store import Answer


def ask(
    ready: Ready,
    quiet: bool,
    eps: Annotated[str, typer.Option("--eps", help="Sizes of the region.")] = "0,0.25,0.5,1",
    sigma: Annotated[str, typer.Option("--sigma", help="Deviations of the noise.")] = "0,0.1,0.25,0.5",
    norm: Annotated[str, typer.Option("--norm", help="Of the region: l2, linf or l1.")] = "l2",
    loss: Annotated[str, typer.Option("--loss", help="zero_one or margin.")] = "zero_one",
    steps: Annotated[int, typer.Option("--steps", min=0, help="Of the search in the region.")] = 20,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Noisy copies of each image.")] = 64,
) -> "Answer":
    """The worst average loss over a region under noise: a map between the average and the worst case."""
    from holdfast.analysis.sra import CRITERIA, Cell, sra_map
    from holdfast.analysis.store import write_answer
    from holdfast.recipe import parse
    from holdfast.rng import Streams
    from holdfast.types import Threat

    sizes, sigmas = numbers("--eps", eps), numbers("--sigma", sigma)
    if loss not in CRITERIA:
        raise RecipeError(f"--loss: {unknown(loss, CRITERIA)}")
    if norm not in ("l1", "l2", "linf"):
        raise RecipeError(f"--norm: {unknown(norm, ('l1', 'l2', 'linf'))}")
    region: Any = parse(Threat, {norm: 1.0}, where=lambda where: "--norm")
    settings = {"loss": loss, "norm": norm, "eps": [*sizes], "sigma": [*sigmas], "steps": steps, "draws": draws}
    seen = examples(ready, "sra", settings, {"cells": []})
    answer, cells = seen.question, [Cell(**one) for one in seen.question.result["cells"]]
    found: list[Cell] = []
    with Bar(quiet=quiet).stage(f"sra {ready.subjects[0].run}", "cells") as show:
        for cell in sra_map(
            seen.model, seen.x, seen.y, eps=sizes, sigma=sigmas, region=region, criterion=CRITERIA[loss], steps=steps,
            draws=draws, batch_size=ready.how.batch_size, known=cells, rng=Streams(ready.seed, "sra", seen.index),
        ):  # fmt: skip
            found.append(cell)
            if len(found) > len(cells):
                answer = replace(answer, result={"cells": [asdict(one) for one in found]})
                write_answer(ready.run.path, answer)
            show(len(found), len(sizes) * len(sigmas), f"eps {cell.eps:g}, sigma {cell.sigma:g}")
    return answer


def show(answer: "Answer") -> None:
    """The map as a table."""
    settings = answer.settings
    safe = {(cell["eps"], cell["sigma"]): cell["safe"] for cell in answer.result["cells"]}
    rows = [[f"{eps:g}", *(percent(safe[eps, sigma]) for sigma in settings["sigma"])] for eps in settings["eps"]]
    title = f"smoothed robust at the {settings['loss']} loss, {settings['examples']} images"
    table([f"eps ({settings['norm']})", *(f"sigma {sigma:g}" for sigma in settings["sigma"])], rows, title=title)


command = asking(ask, show)
