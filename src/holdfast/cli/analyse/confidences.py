"""`holdfast analyse confidences`: how sure a network is at images and near them."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from holdfast.cli.analyse.asking import About, about, asking, block, measured
from holdfast.cli.audit import chosen_attack
from holdfast.cli.groups import Eps, Norm
from holdfast.cli.networks import Ready
from holdfast.cli.output import echo
from holdfast.cli.screen import interval, percent, table

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.measuring import Measure
    from holdfast.analysis.store import Answer
    from holdfast.types import Threat

SHARES = (0.5, 1.0)
"""Radii in units of eps: regularisers that start from one step of PGD spend half of the budget on it."""


def ask(ready: Ready, quiet: bool, norm: Norm = None, eps: Eps = None) -> "Answer":
    """How sure a network is on clean images, at random points and after one step of PGD, within eps/2 and eps."""
    from holdfast.analysis.confidence_summary import summarise_confidences
    from holdfast.analysis.store import write_answer
    from holdfast.recipe.plain import plain
    from holdfast.types import Threat

    threat = chosen_attack("analyse confidences", ready, norm, eps).threat
    ((kind, _),) = plain(threat, Threat).items()
    radii = [share * threat.eps for share in SHARES]
    asked = about(ready, "confidences", {"norm": kind, "radii": radii, "block": block(ready)}, {})
    rows = measured(ready, quiet, asked, _measure(asked, threat))
    found = {"points": [asdict(one) for one in summarise_confidences(rows, radii=radii)]}
    answer = replace(asked.question, result=found)
    write_answer(ready.run.path, answer)
    return answer


def _measure(asked: About, threat: "Threat") -> "Measure":
    """What is asked of a batch: a column for each kind of points and number, over the radii."""
    import torch

    from holdfast.analysis.confidence import confidences
    from holdfast.threat import with_radius

    radii, model = asked.question.settings["radii"], asked.model

    def ask_batch(x: "Tensor", y: "Tensor", rng: Any) -> "dict[str, Tensor]":
        found = [confidences(model, x, y, threat=with_radius(threat, radius), rng=rng) for radius in radii]
        columns = {f"clean_{name}": values for name, values in vars(found[0].clean).items()}
        for kind in ("random", "pgd1"):
            for name in vars(found[0].clean):
                columns[f"{kind}_{name}"] = torch.stack([getattr(getattr(one, kind), name) for one in found], dim=1)
        return columns

    return ask_batch


def show(answer: "Answer") -> None:
    """Table 3.1: a row for each kind of points."""
    from holdfast.analysis.confidence_summary import KINDS
    from holdfast.analysis.spread import give_or_take

    rows = []
    for one in answer.result["points"]:
        name = KINDS[one["points"]] + (f", {answer.settings['norm']} {one['eps']:.4g}" if one["eps"] else "")
        means = [
            f"{percent(found['mean'])} {give_or_take(found['half'], _points)}"
            for found in (one["likeliest"], one["true"])
        ]
        right = f"{percent(one['accuracy'])} {interval(one['interval']['low'], one['interval']['high'])}"
        rows.append([name, *means, right])
    columns = ["points", "likeliest class, 95 %", "true class, 95 %", "right, 95 %"]
    table(columns, rows, title=f"mean probability, {answer.settings['examples']} images")
    echo("sure everywhere may mean masked gradients; `holdfast audit` tests that")


def _points(half: float) -> str:
    return f"{100 * half:.1f}"


command = asking(ask, show)
