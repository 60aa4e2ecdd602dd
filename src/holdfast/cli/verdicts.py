"""Verdicts on the numbers of a run: made after its checks, shown where they matter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli.screen import table

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.attacks import APGD, PGD
    from holdfast.checks import Check
    from holdfast.evaluation import Subject
    from holdfast.runs import Run, Splits
    from holdfast.verdicts import Verdict

EXAMPLES = 64
"""How many images the conditions without attacks are tested on."""


def judge(
    run: Run, subject: Subject, splits: Splits, checks: Sequence[Check], seed: int, images: int = EXAMPLES
) -> None:
    """Store what can be said without further attacks: the model's conditions, once, and those of the ledger's rows.

    The conditions are tested on so many images.
    """
    from holdfast.audit import after, before
    from holdfast.checks import is_attack
    from holdfast.errors import ModelError
    from holdfast.losses import cross_entropy
    from holdfast.verdicts import Verdict, read_verdicts, stored, write_verdicts

    if not any(is_attack(check) for check in checks):
        return
    names = (subject.run, subject.weights, subject.hash, seed)
    recorded = {(one.weights, one.weights_hash, one.seed, one.verdict.evidence) for one in read_verdicts(run.path)}
    if (subject.weights, subject.hash[:12], seed, "model") not in recorded:
        x, y = first_images(subject, splits, images, seed)
        climbed = in_question(checks)
        try:
            loss = climbed.loss if climbed else cross_entropy
            results = list(
                before(subject.model, x, y, loss=loss, seed=seed, at_chance=False)
            )  # the ledger knows better
        except ModelError as error:  # the checks got through, so that their results count
            results = [Verdict(flag="gradients", level="not tested", finding=str(error), evidence="model")]
        write_verdicts(run.path, stored(*names, results))
    rows = run.ledger.read()
    write_verdicts(run.path, stored(*names, after(rows.filter(rows["weights"] == subject.weights))))


def in_question(checks: Sequence[Check]) -> PGD | APGD | None:
    """The first check that is an iterated gradient attack: the one whose number an audit is about."""
    from holdfast.attacks import APGD, PGD

    return next((check for check in checks if isinstance(check, PGD | APGD)), None)


def first_images(subject: Subject, splits: Splits, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Some test images, balanced over the classes, as the model takes them."""
    from holdfast.data import subset
    from holdfast.evaluation.subject import place

    where = place(subject.model)
    x, y = subset(splits.test, min(count, len(splits.test)), seed).batch(slice(None))
    return x.to(where), y.to(where.device)


def records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The verdicts of runs as plain records."""
    from holdfast.verdicts import read_verdicts
    from holdfast.verdicts.store import flat

    return [flat(one) for run in runs for one in read_verdicts(run.path)]


def failures(runs: Sequence[Run]) -> list[str]:
    """One line for each condition that failed, each once; networks at chance level have lines of their own."""
    from holdfast.verdicts import failed, read_verdicts, spoken

    groups: dict[tuple[str, str], list[Verdict]] = {}
    for one in (one for run in runs for one in read_verdicts(run.path)):
        groups.setdefault((one.run, one.weights), []).append(one.verdict)
    return [
        f"not to be trusted: {run} ({weights}): {verdict.flag}: {verdict.finding}; {verdict.remedy}"
        for (run, weights), verdicts in groups.items()
        for verdict in failed(spoken(verdicts))
        if verdict.flag != "chance"
    ]


def outcome(verdicts: Sequence[Verdict]) -> str:
    """What verdicts come to, in one line that claims no more than was tested."""
    from holdfast.verdicts import failed

    if bad := failed(verdicts):
        return f"not to be trusted: {', '.join(dict.fromkeys(each.flag for each in bad))}"
    tested = {each.flag for each in verdicts if each.level != "not tested"}
    untested = [flag for flag in dict.fromkeys(each.flag for each in verdicts) if flag not in tested]
    rest = f"; not tested: {', '.join(untested)}" if untested else ""
    return f"No problems found in {len(tested)} conditions{rest}"


def show(verdicts: Iterable[Verdict], title: str) -> None:
    """Print verdicts as a table."""
    rows = [[each.condition, each.level, each.finding, each.remedy] for each in verdicts]
    table(["condition", "verdict", "finding", "remedy"], rows, title=title, numbers=False)
