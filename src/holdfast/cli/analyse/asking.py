"""What all questions have in common: a network to ask about, and an answer that is kept, printed and reported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.cli.groups import ImageOptions, NetworkOptions, Run, WorkOptions, grouped
from holdfast.cli.networks import prepared
from holdfast.cli.options import Json
from holdfast.cli.output import echo, echo_json
from holdfast.cli.request import Request
from holdfast.cli.screen import Bar, mention, resumable, say
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor, nn

    from holdfast.analysis.measuring import Measure
    from holdfast.analysis.store import Answer
    from holdfast.conduct import Ready

Ask = Callable[..., "Answer"]
"""A question: what is ready, whether to be quiet, and options of its own, to the answer."""


def asking(ask: Ask, show: Callable[[Answer], None]) -> Callable[..., None]:
    """The command of a question, with its own options first; its module must not delay annotations."""
    own = [*inspect.signature(ask).parameters.values()][2:]

    def command(
        of_network: NetworkOptions, of_images: ImageOptions, of_work: WorkOptions, as_json: Json = False, **stated: Any
    ) -> None:
        run = stated.pop("run")
        request = Request(verb="analyse", run=run, network=of_network, images=of_images, work=of_work)
        _about_a_network(request, lambda ready, quiet: ask(ready, quiet, **stated), show, as_json=as_json)

    command.__doc__ = ask.__doc__
    run = inspect.Parameter("run", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Run)
    return grouped(command, stated=[run, *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own)])


@resumable()
def _about_a_network(request: Request, ask: Ask, show: Callable[[Answer], None], *, as_json: bool) -> None:
    from holdfast.report import write_report

    ready = prepared(request)
    if request.work.batch_size is None:
        ready = replace(ready, how=replace(ready.how, batch_size=64))
    answer = ask(ready, as_json)
    path = ready.run.path
    report = write_report([path], path / "report.html") if ready.run.ledger.parts() else None
    if as_json:
        echo_json({**asdict(answer), "run": str(path), "report": report and str(report)})
        return
    show(answer)
    say(f"device: {ready.device}")
    if report:
        echo(f"report: {report}")


@dataclass(frozen=True)
class Examples:
    """The network and its test images, on the same device.

    Args:
        model: the network.
        x: images.
        y: labels.
        index: of the examples.
        question: what was asked, with what is known of the answer.
    """

    model: nn.Module
    x: Tensor
    y: Tensor
    index: Tensor
    question: Answer


def examples(ready: Ready, kind: str, settings: Mapping[str, Any], nothing: Mapping[str, Any]) -> Examples:
    """What a question is asked about; the answer so far is that of an earlier call, or `nothing`."""
    asked, test = about(ready, kind, settings, nothing), ready.splits.test
    x, y = test.batch(slice(None))
    return Examples(asked.model, x.to(asked.where), y.to(asked.where.device), test.index, asked.question)


@dataclass(frozen=True)
class About:
    """A network, without its images, and a question about it.

    Args:
        model: the network.
        where: a tensor with its device and dtype.
        question: what was asked, with what is known of the answer.
    """

    model: nn.Module
    where: Tensor
    question: Answer


def about(ready: Ready, kind: str, settings: Mapping[str, Any], nothing: Mapping[str, Any]) -> About:
    """The network on its device, with the answer of an earlier call or `nothing`."""
    from typing import cast

    from torch import nn

    from holdfast.analysis.store import Answer, find_answer
    from holdfast.evaluation.subject import place

    subject, splits = ready.subjects[0], ready.splits
    facts = {"seed": ready.seed, "examples": len(splits.test), "fingerprint": splits.fingerprint}
    question = Answer(kind, subject.weights, subject.hash[:12], {**settings, **facts}, nothing)
    found = find_answer(ready.run.path, question) or question
    return About(cast(nn.Module, subject.model), place(subject.model), found)


def measured(ready: Ready, quiet: bool, asked: About, ask: Measure) -> pl.DataFrame:
    """Ask about every example in evaluation mode, block by block; what was asked before is read."""
    from holdfast.analysis.measures import Measures
    from holdfast.analysis.measuring import measure
    from holdfast.analysis.store import write_answer
    from holdfast.halving import BatchSize
    from holdfast.modes import evaluating

    batch_size = BatchSize(ready.how.batch_size)
    into, run = Measures(ready.run.path, asked.question), ready.subjects[0].run
    write_answer(ready.run.path, asked.question)  # so that a report can tell what an interrupted call measured
    with Bar(quiet=quiet).stage(f"{asked.question.kind} {run}", "images") as show, evaluating(asked.model):
        for done in measure(
            into, ready.splits.test, ask, run=run, where=asked.where, block=asked.question.settings["block"],
            batch_size=batch_size,
        ):  # fmt: skip
            mention(batch_size.news(), f"{asked.question.kind} {run}")
            show(done, len(ready.splits.test), "")
    return into.read()


def block(ready: Ready) -> int:
    """Examples in a block of measures."""
    from holdfast.analysis.measuring import BLOCK

    return min(ready.how.block, BLOCK)


def numbers(option: str, text: str) -> tuple[float, ...]:
    """Numbers from 0 on, in order, each once."""
    from holdfast.recipe import parse

    found: tuple[float, ...] = parse(tuple[float, ...], text.split(","), where=lambda path: option)
    if not found or not all(0 <= value < float("inf") for value in found):
        raise RecipeError(f"{option}: expected numbers from 0 on, such as 0,0.25,0.5; got {text!r}")
    return tuple(sorted(set(found)))
