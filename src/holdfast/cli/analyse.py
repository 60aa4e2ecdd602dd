"""`holdfast analyse`: a command for every question; its fields are options, and it takes any number of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.cli.drawing import drawn
from holdfast.cli.groups import ImageOptions, NetworkOptions, WorkOptions, grouped
from holdfast.cli.locks import hold
from holdfast.cli.options import OUT, Json, Out
from holdfast.cli.output import echo, echo_json
from holdfast.cli.question_options import dashed, options_of, question_of, section_of
from holdfast.cli.request import NamedNetwork, chosen_images, refuse_both
from holdfast.cli.screen import resumable, say, stdout
from holdfast.errors import HoldfastError, RecipeError
from holdfast.families import QUESTIONS
from holdfast.questions.docs import summary
from holdfast.questions.question import Needs

if TYPE_CHECKING:
    from holdfast.conduct.ready import Ready
    from holdfast.data.dataset import Split
    from holdfast.questions.answers import Answer
    from holdfast.questions.question import Question

Runs = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[RUN|CHECKPOINT|DIRECTORY]...", help="Runs, weights written by holdfast, or directories of runs."
    ),
]


STORED = typer.Argument(metavar="RUN...", help="Run directories, or directories of runs.")


def _command_of(name: str, kind: Any) -> Any:
    """The command of a question: what it is asked about, its fields, then options that several commands share."""
    needs = kind.needs
    command = _about_nothing if needs is Needs.NOTHING else _about_networks if needs.network else _about_data
    return grouped(command, stated=list(options_of(kind)), fixed={"question_name": name})


@resumable()
def _about_networks(  # groups have names that no field of a question has
    question_name: str, of_network: NetworkOptions, of_images: ImageOptions, of_work: WorkOptions, runs: Runs = None,
    as_json: Json = False, **stated: Any,
) -> None:  # fmt: skip
    question = question_of(question_name, stated)
    _ask_each(question, _networks(runs or (), of_network, of_images, of_work), runs or (), as_json=as_json)


@resumable()
def _about_data(
    question_name: str, of_images: ImageOptions, of_work: WorkOptions, runs: Runs = None, as_json: Json = False,
    **stated: Any,
) -> None:  # fmt: skip
    question = question_of(question_name, stated)
    if not runs:
        topics = {"data": lambda: _data_alone(of_images, of_work)}
    else:
        topics = _networks(runs, NetworkOptions(), of_images, of_work)
    _ask_each(question, topics, runs or (), as_json=as_json)


@resumable()
def _about_nothing(question_name: str, out: Out = OUT, as_json: Json = False, **stated: Any) -> None:
    from holdfast.conduct.alone import theory_alone

    question = question_of(question_name, stated)
    _ask_each(
        question, {"theory": lambda: Topic(theory_alone(hold, out=out), None, WorkOptions())}, (), as_json=as_json
    )


@dataclass(frozen=True)
class Topic:
    """What a question is asked about.

    Args:
        ready: the run with its network and images.
        split: which of the images; None for all test images.
        work: where and how.
    """

    ready: Ready
    split: Split | None
    work: WorkOptions


def _ask_each(
    question: Question, topics: Mapping[str, Callable[[], Topic]], runs: Sequence[Path], *, as_json: bool
) -> None:
    """Ask about everything, show the answers together, and name what has none."""
    answers, reports, failed = [], [], dict[str, HoldfastError]()
    for name, make_topic in topics.items():
        try:
            answer, report = _answer(make_topic(), question, quiet=as_json)
        except HoldfastError as error:
            failed[name] = error
            continue
        answers.append(answer)
        reports.append(report)
    if not answers and failed:
        raise next(iter(failed.values()))
    reports += _reports_on_directories(runs)
    show(question, answers, reports, {name: str(error) for name, error in failed.items()}, as_json=as_json)
    if failed:
        raise typer.Exit(1)


def _answer(topic: Topic, question: Question, *, quiet: bool) -> tuple[Answer, str]:
    """The answer of one run, and the page with it."""
    from holdfast.conduct.asking import ask_about
    from holdfast.report import write_own_report

    work = topic.work
    records = ask_about(topic.ready, question, topic.split, batch_size=work.batch_size, trust=work.trust)
    return drawn(records, quiet=quiet), str(write_own_report(topic.ready.run.path))


def _data_alone(images: ImageOptions, work: WorkOptions) -> Topic:
    from holdfast.conduct.alone import images_alone

    refuse_both("analyse", images)
    chosen = chosen_images(images)
    if chosen.source is None:
        raise RecipeError("analyse: expected a RUN, or --data NAME_OR_PATH; see --help")
    return Topic(images_alone(chosen.source, chosen, hold, out=work.out, data_root=images.data_root), None, work)


def _networks(
    runs: Sequence[Path], network: NetworkOptions, images: ImageOptions, work: WorkOptions
) -> dict[str, Callable[[], Topic]]:
    """The network of each run with the requested part of its test images, or the network from elsewhere."""
    refuse_both("analyse", images)
    if not runs:
        elsewhere = NamedNetwork(verb="analyse", network=network, images=images, work=work, runs_checks=False)
        return {"--model": lambda: Topic(elsewhere.ready(), None, work)}
    own = dataclasses.replace(images, subset=None, first=None)  # questions choose among the images of the run
    named = [
        NamedNetwork(verb="analyse", run=run, network=network, images=own, work=work, runs_checks=False)
        for run in _runs(runs)
    ]
    return {str(one.run): partial(_of_run, one, images) for one in named}


def _of_run(named: NamedNetwork, images: ImageOptions) -> Topic:
    ready = named.ready()
    return Topic(ready, _chosen(ready, images), named.work)


def show(
    question: Question,
    answers: Sequence[Answer],
    reports: Sequence[str],
    failed: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    """Print the answers of all runs together, and why others have none."""
    from holdfast.questions.answers import Answers
    from holdfast.questions.presenting import presented
    from holdfast.show.names import labels
    from holdfast.show.plain import to_plain
    from holdfast.show.terminal import draw

    names = labels([one.run for one in answers])
    labelled = [
        dataclasses.replace(one, run=name, place=n) for n, (one, name) in enumerate(zip(answers, names, strict=True))
    ]
    items = presented(question, Answers(tuple(labelled), tuple(names)))
    if as_json:
        shown = {"answers": [_record(one) for one in answers], "shown": to_plain(items), "reports": list(reports)}
        echo_json({**shown, "failed": dict(failed)})
        return
    draw(items, stdout())
    for name, reason in failed.items():
        echo(f"holdfast: {name} has no answer: {reason.removeprefix(f'{name}: ')}", err=True)
    for report in reports:
        say(f"report: {report}")


def _record(one: Answer) -> dict[str, Any]:
    columns = one.rows.drop("run", "weights", "weights_hash", "seed").to_dict(as_series=False) if len(one.rows) else {}
    return {"run": one.run, **dataclasses.asdict(one.key), "records": list(one.records), "columns": columns}


def _reports_on_directories(paths: Sequence[Path]) -> Iterator[str]:
    """Write the report on all runs of each directory of runs."""
    from holdfast.report import write_report
    from holdfast.report.find import failed_runs
    from holdfast.results.ledger import Ledger

    for path in filter(_holds_runs, paths):
        if checked := [run for run in _runs([path]) if Ledger(run / "ledger").parts()]:
            yield str(write_report(checked, path / "report.html", failed=failed_runs([path])))


def _runs(paths: Sequence[Path]) -> Iterator[Path]:
    """The paths; in place of a directory of runs, those in it that have weights or results."""
    from holdfast.report.find import find_runs, trained_runs

    for path in paths:
        if _holds_runs(path):
            trained = trained_runs(path)
            checked = find_runs([path]) if not trained or any(path.rglob("ledger")) else []
            yield from sorted({*trained, *checked})
        else:
            yield path


def _holds_runs(path: Path) -> bool:
    """Whether it is a directory of runs, not one run or one file of weights."""
    return path.is_dir() and not any((path / name).exists() for name in ("run.json", "recipe.yaml", "ledger"))


def _chosen(ready: Ready, images: ImageOptions) -> Split:
    """The test images of a run, or the requested part of them."""
    from holdfast import data

    test = ready.splits.test
    if images.first is not None:
        return data.first(test, images.first)
    return test if images.subset is None else data.subset(test, images.subset, ready.splits.test_seed)


class Commands(TyperGroup):
    """A command for each question; those of installed packages are imported when one is used or described."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return [*super().list_commands(ctx), *map(dashed, filter(QUESTIONS.package, QUESTIONS))]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, as recipes or the command line write it; of a broken package, one that says so."""
        cmd_name = dashed(cmd_name)
        name = next((one for one in filter(QUESTIONS.package, QUESTIONS) if dashed(one) == cmd_name), None)
        if name is None:
            return super().get_command(ctx, cmd_name) or section_command(cmd_name)
        own = typer.Typer(add_completion=False, rich_markup_mode=None)
        try:
            kind = QUESTIONS[name]
            own.command(cmd_name, help=summary(kind))(_command_of(name, kind))
        except RecipeError as error:
            taking_anything = {"ignore_unknown_options": True, "allow_extra_args": True}
            own.command(cmd_name, context_settings=taking_anything, help=f"Cannot be used: {error}.")(_refusal(name))
        return typer.main.get_command(own)


def section_command(name: str) -> Any:
    """The command of a section of the report, which needs only stored results; None where there is none."""
    from holdfast.report.page import UNITS

    if (kind := UNITS.get(name)) is None:
        return None

    def command(runs: Annotated[list[Path], STORED], as_json: Json = False, **stated: Any) -> None:
        from holdfast.cli.sections import print_section
        from holdfast.report.find import find_runs
        from holdfast.report.runs import read_runs

        print_section(name, section_of(name, kind, stated), read_runs(find_runs(runs)), as_json=as_json)

    own = typer.Typer(add_completion=False, rich_markup_mode=None)
    own.command(name, help=summary(kind))(grouped(command, stated=list(options_of(kind))))
    return typer.main.get_command(own)


def _refusal(name: str) -> Callable[[], None]:
    """A command that says why a question of a package cannot be used."""

    def command() -> None:
        _ = QUESTIONS[name]

    return command


app = typer.Typer(
    cls=Commands, help="Measure properties of networks; repeat the command to resume.", no_args_is_help=True,
    epilog="Sections of the report, such as optimisers, are also commands; they need only stored results.",
)  # fmt: skip
for _name in QUESTIONS:
    if not QUESTIONS.package(_name):
        app.command(dashed(_name), help=summary(QUESTIONS[_name]))(_command_of(_name, QUESTIONS[_name]))
