"""The command of every question: its fields are options, and it takes any number of runs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from holdfast.cli.groups import ImageOptions, NetworkOptions, WorkOptions, grouped
from holdfast.cli.networks import Ready, prepared
from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.request import Request
from holdfast.cli.screen import Bar, mention, resumable, say, stdout
from holdfast.errors import RecipeError
from holdfast.questions import QUESTIONS
from holdfast.questions.docs import defaults, fields, summary

if TYPE_CHECKING:
    from holdfast.data import Split
    from holdfast.questions import Question
    from holdfast.questions.answers import Answer
    from holdfast.questions.question import Context
    from holdfast.runs import Trust

BATCH = 64
"""Images of a forward pass: questions take gradients, and need more memory than checks."""

Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[RUN|CHECKPOINT|DIRECTORY]...", help="Runs, weights written by holdfast, or directories of runs."
    ),
]


def register(app: typer.Typer) -> None:
    """Add a command for every question."""
    for name, kind in QUESTIONS.items():
        app.command(dashed(name), help=summary(kind))(_command_of(name, kind))


def _command_of(name: str, kind: Any) -> Any:
    """The command of a question: runs, its fields, then the options of all commands about networks."""

    @resumable()
    def command(  # groups have names that no field of a question has
        of_network: NetworkOptions, of_images: ImageOptions, of_work: WorkOptions, runs: Runs = None,
        as_json: Json = False, **stated: Any,
    ) -> None:  # fmt: skip
        question = question_of(name, {field: value for field, value in stated.items() if value is not None})
        requests = list(_requests(runs or (), of_network, of_images, of_work))
        answers, reports = [], []
        for request in requests:
            ready = prepared(request)
            split = _chosen(ready, of_images) if request.run else ready.splits.test
            options: Any = {"batch_size": of_work.batch_size, "trust": of_work.trust}
            answers.append(answer(ready, question, split, **options, quiet=as_json))
            reports.append(_report(ready.run.path))
        show(question, answers, reports, as_json=as_json)

    return grouped(command, stated=list(_options(kind)))


def _requests(
    runs: Sequence[Path], network: NetworkOptions, images: ImageOptions, work: WorkOptions
) -> Iterator[Request]:
    """A request for each run, or one for a network from elsewhere."""
    if not runs:
        yield Request(verb="analyse", network=network, images=images, work=work)
        return
    own = dataclasses.replace(images, subset=None, first=None)  # questions choose among the images of the run
    if images.subset is not None and images.first is not None:
        raise RecipeError("analyse: expected --subset or --first; got both")
    for run in _runs(runs):
        yield Request(verb="analyse", run=run, network=network, images=own, work=work)


def _options(kind: Any) -> Iterator[inspect.Parameter]:
    """The fields of a question as options; values are read as in a recipe."""
    described, default = fields(kind), defaults(kind)
    for field in dataclasses.fields(kind):
        option, note = f"--{dashed(field.name)}", default[field.name]
        text = _sentence(described[field.name])
        switch = field.type == "bool"
        names = [f"{option}/--no-{dashed(field.name)}"] if switch else [option]
        declared = typer.Option(*names, help=text + (f" [default: {note}]" if note and not switch else ""))
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=None,
            annotation=Annotated[bool | None if switch else str | None, declared],
        )  # fmt: skip


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def question_of(name: str, stated: Mapping[str, Any]) -> Question:
    """A question with the fields that options state, read as a recipe has them."""
    import yaml

    from holdfast.questions import Question
    from holdfast.recipe import parse
    from holdfast.yaml_text import load_yaml

    values: dict[str, Any] = {}
    for field, text in stated.items():
        try:
            listed = isinstance(text, str) and "," in text and text[:1] not in "[{"
            values[field] = load_yaml(f"[{text}]" if listed else text) if isinstance(text, str) else text
        except yaml.YAMLError:
            raise RecipeError(f"--{dashed(field)}: expected a value as a recipe has it; got {text!r}") from None
    question = parse(Question, {name: values}, where=lambda path: _place(name, path))
    return cast("Question", question)


def answer(
    ready: Ready, question: Question, split: Split | None = None, *, batch_size: int | None = None,
    trust: Trust = False, quiet: bool = False,
) -> Answer:  # fmt: skip
    """Ask about the network that matters most of those that are ready; stored answers are not measured again."""
    from holdfast.data import subset
    from holdfast.evaluation.subject import place
    from holdfast.halving import BatchSize
    from holdfast.questions import Question
    from holdfast.questions.answers import AnswerKey, Store
    from holdfast.questions.asking import BLOCK, Inquiry, answer_of, ask, digest_of, prepare
    from holdfast.recipe import plain

    subject, split = ready.subjects[0], split or ready.splits.test
    prepared_question = prepare(question, _context(ready, split, trust=trust))
    if prepared_question.examples is not None and prepared_question.examples < len(split):
        split = subset(split, prepared_question.examples, ready.splits.test_seed)
    name, settings = named(plain(question, Question))
    key = AnswerKey(
        question=name, settings={**settings, **prepared_question.settings}, weights=subject.weights,
        weights_hash=subject.hash[:12], seed=ready.seed, examples=len(split), images=digest_of(split),
        block=min(ready.how.block, prepared_question.block or BLOCK),
    )  # fmt: skip
    inquiry = Inquiry(
        measurement=prepared_question.measurement, key=key, model=subject.model, run=subject.run, split=split,
        where=place(subject.model), batch_size=batch_size or BATCH,
    )  # fmt: skip
    store, at_once = Store(ready.run.path), BatchSize(inquiry.batch_size)
    with Bar(quiet=quiet).stage(f"{dashed(name)} {subject.run}", "done") as progress:
        for done, total in ask(inquiry, store, at_once):
            mention(at_once.news(), f"{dashed(name)} {subject.run}")
            progress(done, total, "")
    return answer_of(inquiry, store, tuple(ready.splits.classes))


def named(value: Any) -> tuple[str, dict[str, Any]]:
    """Name and fields of a question as a recipe has it."""
    ((name, fields),) = value.items() if isinstance(value, dict) else ((value, {}),)
    return name, dict(fields or {})


def _context(ready: Ready, split: Split, *, trust: Trust) -> Context:
    from holdfast.checks import Check
    from holdfast.cli.device import to_device
    from holdfast.evaluation import try_out
    from holdfast.questions.question import Companion, Context
    from holdfast.recipe.plain import describe
    from holdfast.runs import fits, load_model

    subject, splits = ready.subjects[0], ready.splits

    def load(path: Path) -> Companion:
        loaded = load_model(path, trust=trust)
        fits(loaded.card, splits)
        try_out(loaded.model, splits.test, len(splits.classes))
        to_device(loaded.model, ready.device)
        return Companion(loaded.model.eval(), loaded.card.recipe.name, loaded.card.hash[:12])

    return Context(
        model=subject.model, weights_hash=subject.hash[:12], recipe=_recipe(ready), checks=ready.checks, test=split,
        train=splits.train, classes=splits.classes, seed=ready.seed, load=load,
        describe=partial(describe, kind=Check),
    )  # fmt: skip


def show(question: Question, answers: Sequence[Answer], reports: Sequence[str | None], *, as_json: bool) -> None:
    """Print the answers of all runs together."""
    from holdfast.questions.answers import Answers
    from holdfast.show.names import labels
    from holdfast.show.plain import to_plain
    from holdfast.show.terminal import draw

    names = labels([one.run for one in answers])
    labelled = [
        dataclasses.replace(one, run=name, place=n) for n, (one, name) in enumerate(zip(answers, names, strict=True))
    ]
    items = list(question.present(Answers(tuple(labelled), tuple(names))))
    if as_json:
        echo_json({"answers": [_record(one) for one in answers], "shown": to_plain(items), "reports": list(reports)})
        return
    draw(items, stdout())
    for report in filter(None, reports):
        say(f"report: {report}")


def _record(one: Answer) -> dict[str, Any]:
    columns = one.rows.drop("run", "weights", "weights_hash", "seed").to_dict(as_series=False) if len(one.rows) else {}
    return {"run": one.run, **dataclasses.asdict(one.key), "records": list(one.records), "columns": columns}


def _place(name: str, path: tuple[str, ...]) -> str:
    inner = path[1:] if path[:1] == (name,) else path
    return f"--{'.'.join(inner).replace('_', '-')}" if inner else f"analyse {dashed(name)}"


def dashed(name: str) -> str:
    """A name as the command line writes it."""
    return name.replace("_", "-")


def _report(path: Path) -> str | None:
    """Write the report of a run that has results of checks, too."""
    from holdfast.report import write_report
    from holdfast.results import Ledger

    return str(write_report([path], path / "report.html")) if Ledger(path / "ledger").parts() else None


def _runs(paths: Sequence[Path]) -> Iterator[Path]:
    """The paths; in place of a directory of runs, the runs in it."""
    from holdfast.cli.find import find_runs

    for path in paths:
        is_run = path.is_file() or any((path / name).exists() for name in ("run.json", "recipe.yaml", "ledger"))
        yield from [path] if is_run or not path.is_dir() else find_runs([path])


def _chosen(ready: Ready, images: ImageOptions) -> Split:
    """The test images of a run, or the requested part of them."""
    from holdfast import data

    test = ready.splits.test
    if images.first is not None:
        return data.first(test, images.first)
    return test if images.subset is None else data.subset(test, images.subset, ready.splits.test_seed)


def _recipe(ready: Ready) -> dict[str, Any]:
    """The recipe that the network was trained with; empty for a network from elsewhere."""
    from holdfast import files
    from holdfast.yaml_text import load_yaml

    file = ready.run.path / "recipe.yaml"
    recipe: dict[str, Any] = load_yaml(files.read_checked(file)) if file.exists() else {}
    return recipe
