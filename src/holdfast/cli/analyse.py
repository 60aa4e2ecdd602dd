"""`holdfast analyse`: a question about one network, whose answer goes to its directory and its report."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.evaluate import (
    Asked,
    BatchSize,
    Data,
    Grey,
    Model,
    Name,
    Numbers,
    Ready,
    Seed,
    Size,
    Subset,
    Trust,
    Weights,
    prepared,
)
from holdfast.cli.options import OUT, Json, Out, Root
from holdfast.cli.screen import Bar, interrupt_on_kill, percent, resumable, table
from holdfast.errors import RecipeError, unknown

WHAT = ("sra",)


def command(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="The question: sra.")],
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN|CHECKPOINT]", help="Run directory or weights by holdfast.")
    ] = None,
    eps: Annotated[str, typer.Option("--eps", help="Sizes of the region.")] = "0,0.25,0.5,1",
    sigma: Annotated[str, typer.Option("--sigma", help="Deviations of the noise.")] = "0,0.1,0.25,0.5",
    norm: Annotated[str, typer.Option("--norm", help="Of the region: l2, linf or l1.")] = "l2",
    loss: Annotated[str, typer.Option("--loss", help="zero_one or margin.")] = "zero_one",
    steps: Annotated[int, typer.Option("--steps", min=0, help="Of the search in the region.")] = 20,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Noisy copies of each image.")] = 64,
    model: Model = None, weights: Weights = None, data: Data = None, mean: Numbers = None, std: Numbers = None,
    size: Size = None, grey: Grey = False, subset: Subset = None, name: Name = None, seed: Seed = None,
    batch_size: BatchSize = None, trust: Trust = False, out: Out = OUT, data_root: Root = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Ask a question about a network; repeat the command to resume. `sra`: the worst average loss under noise."""
    from holdfast.report import write_report

    if what not in WHAT:
        raise RecipeError(f"analyse: {unknown(what, WHAT)}")
    interrupt_on_kill()
    asked = Asked(
        run=run, model=model, weights=weights, data=data, checks=None, mean=mean, std=std, size=size, grey=grey,
        subset=subset, name=name, seed=seed, batch_size=batch_size, order=None, budget=None, trust=trust, out=out,
        root=data_root, quiet=as_json, verb="analyse",
    )  # fmt: skip
    sizes, sigmas = _numbers("--eps", eps), _numbers("--sigma", sigma)
    with resumable():
        ready = prepared(asked)
        answer = _sra(ready, sizes, sigmas, norm, loss, steps, draws, batch_size or 64, quiet=as_json)
        path = ready.run.path
        report = write_report([path], path / "report.html") if ready.run.ledger.parts() else None
    if as_json:
        typer.echo(json.dumps({**answer, "run": str(path), "report": report and str(report)}))
        return
    _show(answer)
    if report:
        typer.echo(f"report: {report}")


def _sra(
    ready: Ready, eps: tuple[float, ...], sigma: tuple[float, ...], norm: str, loss: str, steps: int, draws: int,
    batch_size: int, *, quiet: bool,
) -> dict[str, Any]:  # fmt: skip
    """Fill the map cell by cell; every cell is saved."""
    from holdfast.analysis.sra import CRITERIA, Cell, sra_map
    from holdfast.analysis.store import Answer, find_answer, write_answer
    from holdfast.cli.work import to_device
    from holdfast.evaluation.subject import place
    from holdfast.modes import evaluating
    from holdfast.recipe import parse
    from holdfast.rng import Streams
    from holdfast.types import Threat

    if loss not in CRITERIA:
        raise RecipeError(f"--loss: {unknown(loss, CRITERIA)}")
    if norm not in ("l1", "l2", "linf"):
        raise RecipeError(f"--norm: {unknown(norm, ('l1', 'l2', 'linf'))}")
    region: Any = parse(Threat, {norm: 1.0}, where=lambda where: "--norm")
    subject, test = ready.subjects[0], ready.splits.test
    to_device(subject.model)
    x, y = test.batch(slice(None))
    where = place(subject.model)
    settings = {
        "loss": loss, "norm": norm, "eps": list(eps), "sigma": list(sigma), "steps": steps, "draws": draws,
        "seed": ready.seed, "examples": len(x), "fingerprint": ready.splits.fingerprint,
    }  # fmt: skip
    question = Answer("sra", subject.weights, subject.hash[:12], settings, {"cells": []})
    found = find_answer(ready.run.path, question) or question
    cells: list[Cell] = []
    with Bar(quiet=quiet).stage(f"sra {subject.run} ({subject.weights})") as show, evaluating(subject.model):
        for cell in sra_map(
            subject.model, x.to(where), y.to(where.device), eps=eps, sigma=sigma, region=region,
            criterion=CRITERIA[loss], steps=steps, draws=draws, batch_size=batch_size,
            known=[Cell(**one) for one in found.result["cells"]], rng=Streams(ready.seed, "sra", test.index),
        ):  # fmt: skip
            cells.append(cell)
            if len(cells) > len(found.result["cells"]):
                write_answer(ready.run.path, replace(question, result={"cells": [asdict(one) for one in cells]}))
            show(len(cells), len(eps) * len(sigma), f"eps {cell.eps:g}, sigma {cell.sigma:g}")
    return asdict(replace(question, result={"cells": [asdict(cell) for cell in cells]}))


def _show(answer: dict[str, Any]) -> None:
    settings = answer["settings"]
    safe = {(cell["eps"], cell["sigma"]): cell["safe"] for cell in answer["result"]["cells"]}
    rows = [[f"{eps:g}", *(percent(safe[eps, sigma]) for sigma in settings["sigma"])] for eps in settings["eps"]]
    title = f"smoothed robust at the {settings['loss']} loss, {settings['examples']} images"
    table([f"eps ({settings['norm']})", *(f"sigma {sigma:g}" for sigma in settings["sigma"])], rows, title=title)


def _numbers(option: str, text: str) -> tuple[float, ...]:
    from holdfast.recipe import parse

    found: tuple[float, ...] = parse(tuple[float, ...], text.split(","), where=lambda path: option)
    if not found or not all(0 <= value < float("inf") for value in found):
        raise RecipeError(f"{option}: expected numbers from 0 on, such as 0,0.25,0.5; got {text!r}")
    return tuple(sorted(set(found)))
