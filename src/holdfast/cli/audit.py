"""`holdfast audit`: can the numbers of a network be trusted?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.drawing import draw
from holdfast.cli.groups import Eps, ImageOptions, NetworkOptions, Norm, Run, WorkOptions, grouped
from holdfast.cli.options import Json
from holdfast.cli.output import echo_json
from holdfast.cli.request import NamedNetwork
from holdfast.cli.screen import interrupt_on_kill
from holdfast.errors import ModelError, RecipeError
from holdfast.show.progress import Bar

if TYPE_CHECKING:
    from polars import DataFrame
    from torch import Tensor

    from holdfast.attacks.apgd import APGD
    from holdfast.conduct.ready import Ready
    from holdfast.hierarchy import Border, Hierarchy
    from holdfast.trust.verdict import Verdict
    from holdfast.types import Ascent, Classifier

STUDENT_IMAGES = 2000
"""How many training images a student of the model learns from, at most."""


@grouped
def command(
    network: NetworkOptions, images: ImageOptions, work: WorkOptions, run: Run = None, norm: Norm = None,
    eps: Eps = None,
    examples: Annotated[int, typer.Option("--examples", min=2, help="How many test images to attack.")] = 64,
    surrogate: Annotated[
        list[Path] | None,
        typer.Option(
            "--surrogate", help="Run or weights to transfer attacks from, repeatable (default: a student network)."
        ),
    ] = None,
    level: Annotated[
        str | None,
        typer.Option(help="Level of the hierarchy whose groups are audited in the place of the classes."),
    ] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Test whether an attack's result can be trusted; exit code 1 if a condition fails."""
    from holdfast.attacks.usual import own_or_usual
    from holdfast.cli import verdicts
    from holdfast.cli.screen import say
    from holdfast.cli.sections import show
    from holdfast.report import write_own_report
    from holdfast.report.trust import trust_table
    from holdfast.trust.store import flat, stored, write_verdicts
    from holdfast.trust.verdict import displayed, failed

    interrupt_on_kill()
    seed = network.seed or 0
    own = network if run is None else replace(network, seed=None)
    named = NamedNetwork(verb="audit", run=run, network=own, images=images, work=work)
    wanted = _attack("audit", norm, eps)
    ready = named.ready()
    attack = own_or_usual(ready.checks) if run is not None and wanted is None else wanted
    others = {str(path): _surrogate(path, ready, trust=work.trust) for path in surrogate or ()}
    subject = ready.subjects[0]
    border = None if level is None else _border(level, subject.hierarchy)
    results = _audit(ready, attack, examples, others, seed, border, quiet=as_json)
    kept = stored(subject.run, subject.weights, subject.hash, seed, results, level or "")
    write_verdicts(ready.run.path, kept)
    report = write_own_report(ready.run.path)
    shown = displayed(results)
    bad = failed(shown)
    if as_json:
        output = {"run": str(ready.run.path), "verdicts": [flat(one) for one in kept], "report": str(report)}
        echo_json({**output, "failed": [each.flag for each in bad]})
    else:
        show([trust_table(subject.run, subject.weights, shown, level or "")])
        say(f"device: {ready.device}")
        say(verdicts.outcome(shown))
        say(f"report: {report}")
    raise typer.Exit(1 if bad else 0)


def _attack(verb: str, norm: str | None, eps: str | None) -> APGD | None:
    """The attack that the options ask for."""
    from holdfast.attacks.usual import usual
    from holdfast.recipe.strict import parse
    from holdfast.types import Threat

    if eps is None:
        if norm is not None:
            raise RecipeError(f"{verb}: expected --eps beside --norm {norm}")
        return None
    threat = parse(Threat, {norm or "linf": eps}, where=lambda path: "--norm and --eps")
    try:
        return usual(threat)
    except ValueError as error:
        raise RecipeError(f"--norm: {error}") from None


def _border(level: str, hierarchy: Hierarchy | None) -> Border:
    """The border of the level that the option names."""
    if hierarchy is None:
        raise RecipeError(f"--level {level}: expected data with a hierarchy, such as data.hierarchy: cifar10; got none")
    return hierarchy.border(level)


def _surrogate(path: Path, ready: Ready, *, trust: bool) -> Classifier:
    from holdfast.conduct.ready import to_device
    from holdfast.evaluation.subject import try_out
    from holdfast.runs.weights import load_model

    loaded = load_model(path, trust=trust)
    try:
        try_out(loaded.model, ready.splits.test, len(ready.splits.classes))
    except ModelError as error:
        raise ModelError(f"--surrogate {path}: {error}") from error
    to_device(loaded.model, ready.device)
    return loaded.model


def _audit(
    ready: Ready,
    attack: Ascent | None,
    examples: int,
    others: dict[str, Classifier],
    seed: int,
    border: Border | None,
    *,
    quiet: bool,
) -> list[Verdict]:
    """All verdicts: the model's, those of attacks, and those of the ledger."""
    from holdfast.conduct.checking import check_network
    from holdfast.conduct.judging import first_images
    from holdfast.corruptions.noise import Clean
    from holdfast.ensembles.views import view_from
    from holdfast.models.logits import with_logits
    from holdfast.trust.audit import audit
    from holdfast.trust.verdict import FLAGS

    subject = ready.subjects[0]
    if not ready.run.ledger.parts():
        draw(check_network(replace(ready, checks=[Clean()])), quiet=quiet)
    rows = ready.run.ledger.read()
    from_ledger = _from_ledger(rows.filter(rows["weights"] == subject.weights), border)
    chance = next(verdict for verdict in from_ledger if verdict.flag == "chance")
    x, y = first_images(subject, ready.splits, examples, seed)
    model = subject.model
    if border is not None:
        others = {name: view_from(border, other, y)[0] for name, other in others.items()}
        model, y = view_from(border, with_logits(model, x[:1]), y)
    results: list[Verdict] = []
    with Bar(quiet=quiet).stage(f"audit {subject.run} ({subject.weights})", "conditions") as show:
        for verdict in audit(
            model, x, y, attack=attack, surrogate=others or None, images=_train(ready, x, seed), seed=seed,
            at_chance={"pass": False, "fail": True}.get(chance.level),
        ):  # fmt: skip
            results.append(verdict)
            show(len(results), len(FLAGS), verdict.condition)
    return [*results, *from_ledger]


def _from_ledger(rows: DataFrame, border: Border | None) -> list[Verdict]:
    """What the checks show; of groups only whether the network is at chance level.

    Attacks on classes stop at the nearest mistake, which may lie within the group, so that checks of groups and of
    classes say nothing about each other.
    """
    from polars import Float64, lit

    from holdfast.results.groups import across
    from holdfast.trust.chance import better_than_chance
    from holdfast.trust.consistency import from_rows

    if border is None:
        return from_rows(rows)
    return [better_than_chance(across(rows, border).with_columns(loss=lit(None, Float64)))]  # the loss is of classes


def _train(ready: Ready, x: Tensor, seed: int) -> Tensor | None:
    """Training images for a student of the model; None where there are none."""
    from holdfast.data.dataset import subset

    if ready.splits.train is None:
        return None
    return subset(ready.splits.train, min(STUDENT_IMAGES, len(ready.splits.train)), seed).batch(slice(None))[0].to(x)
