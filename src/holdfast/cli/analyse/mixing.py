"""`holdfast analyse mixing`: an accurate and a robust network, mixed, under attacks that aim at any mixture of them."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import about, asking, block, measured, numbers
from holdfast.cli.analyse.pairs import PairOfNetworks, norm_of, pair_of
from holdfast.cli.audit import chosen_attack
from holdfast.cli.groups import Eps, Norm
from holdfast.cli.networks import Ready
from holdfast.cli.output import echo
from holdfast.cli.screen import interval, percent, table
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.measuring import Measure
    from holdfast.analysis.mixing_plan import Plan
    from holdfast.analysis.store import Answer
    from holdfast.types import Attack, Classifier, Threat

RADII = (0.5, 1.5, 2.0)
"""Other radii, in units of eps, where none are asked for."""

BLOCK = 32
"""Images in a block, at most: dozens of attacks on each are what an interruption loses."""

Strengths = Annotated[
    str | None, typer.Option("--strengths", help="Such as 0.1,1,10; 0 and inf are added. Else those of the paper.")
]
Examples = Annotated[int, typer.Option("--examples", min=1, help="How many test images, at most.")]


def ask(
    ready: Ready,
    quiet: bool,
    robust: Annotated[
        Path | None, typer.Argument(metavar="[ROBUST]", help="Robust run or weights; a composite has its own.")
    ] = None,
    mixing: Annotated[
        str | None, typer.Option("--mixing", help="classes, largest, probability, transformed, or as a recipe has it.")
    ] = None,
    strengths: Strengths = None,
    at: Annotated[
        float | None, typer.Option("--at", help="The strength to show where only one is; else the middle one.")
    ] = None,
    norm: Norm = None,
    eps: Eps = None,
    radii: Annotated[
        str | None, typer.Option("--radii", help="Other eps to attack with, or none; else 0.5, 1.5 and 2 times eps.")
    ] = None,
    examples: Examples = 1000,
) -> "Answer":
    """Mix two networks in many strengths and try attacks that aim at each of them on all; kept with the first."""
    from holdfast.analysis.mixing import crossing_of
    from holdfast.analysis.mixing_plan import plain
    from holdfast.analysis.mixing_summary import summarise_mixing
    from holdfast.analysis.store import write_answer
    from holdfast.checks import Check
    from holdfast.modes import evaluating
    from holdfast.recipe.plain import describe

    ready, drawn = fewer(ready, examples)
    attack = chosen_attack("analyse mixing", ready, norm, eps)
    pair = pair_of(ready, robust, mixing, attack)
    plan = plan_of(pair, attack.threat, strengths, at, radii)
    settings = {
        **plan.settings(), **pair.facts, "norm": norm_of(attack), "params": describe(attack, Check)[2],
        "attack": describe(replace(attack, until_lost=True), Check)[1], "block": min(block(ready), BLOCK), **drawn,
    }  # fmt: skip
    asked = about(ready, "mixing", settings, {})
    with evaluating(pair.robust):  # the other is the one asked about, or both are inside it
        rows = measured(ready, quiet, asked, _measure(pair, plan, attack))
    found = summarise_mixing(rows, plan)
    answer = replace(asked.question, result=plain({**asdict(found), "crossing": crossing_of(found, plan)}))
    write_answer(ready.run.path, answer)
    return answer


def plan_of(
    pair: PairOfNetworks, threat: "Threat", strengths: str | None, at: float | None, radii: str | None
) -> "Plan":
    """What is tried: the composite's own strength is among the strengths, and its policy too."""
    from holdfast.analysis.mixing_plan import Plan, grid_with
    from holdfast.objectives.policy import STRENGTHS

    own = getattr(pair.whole, "strength", None)
    grid = STRENGTHS if strengths is None else strengths_in("--strengths", strengths)
    at = next((one for one in (at, own) if one is not None), grid_with(grid)[len(grid_with(grid)) // 2])
    if not at >= 0:
        raise RecipeError(f"--at: expected a strength from 0 to inf, got {at:g}")
    others, adaptive = _radii(radii, threat), hasattr(pair.whole, "policy")
    return Plan(strengths=grid_with(grid, at), eps=threat.eps, radii=others, at=at, adaptive=adaptive)


def _radii(text: str | None, threat: "Threat") -> tuple[float, ...]:
    from holdfast.threat import Linf

    if text is None:
        radii = [share * threat.eps for share in RADII]
        return tuple(radius for radius in radii if radius <= 1 or not isinstance(threat, Linf))
    found = () if text == "none" else numbers("--radii", text)
    if 0 in found:
        raise RecipeError(f"--radii: expected positive numbers, such as 0.02,0.05, or none; got {text!r}")
    return found


def strengths_in(option: str, text: str) -> tuple[float, ...]:
    """Strengths from 0 to infinity."""
    words = [word.strip() for word in text.split(",") if word.strip() not in ("inf", ".inf")]
    return (*(numbers(option, ",".join(words)) if words else ()), math.inf)


def fewer(ready: Ready, count: int) -> tuple[Ready, dict[str, str]]:
    """The same with so many test images at most, balanced over the classes and alike for all seeds.

    Returns:
        What to ask about, and what tells its answer from one about other images; nothing where these are all there are.
    """
    from holdfast.data import subset

    test = ready.splits.test
    if len(test) <= count:
        return ready, {}
    splits = replace(ready.splits, test=subset(test, count, ready.splits.test_seed))
    return replace(ready, splits=splits), {"drawn": splits.examples}


def _measure(pair: PairOfNetworks, plan: "Plan", attack: "Attack") -> "Measure":
    """What is asked of a batch: right answers of every mixture after every attack, and sizes of gradients."""
    from holdfast.analysis.mixing import mixing_measures, mixtures

    classifiers: list[Classifier] = mixtures(pair.standard, pair.robust, pair.mixing, plan.strengths)
    classifiers += [pair.whole] if plan.adaptive else []

    def ask_batch(x: "Tensor", y: "Tensor", rng: Any) -> Any:
        return mixing_measures(plan, (pair.standard, pair.robust), classifiers, attack, x, y, rng=rng)

    return ask_batch


def show(answer: "Answer") -> None:
    """Accuracy against strength, against aim and against radius."""
    result, settings = answer.result, answer.settings
    kinds = ("clean", "on_standard", "on_robust", "itself", "worst")
    rows = [
        [strength_in_words(one["mixture"]), *(rate_in_words(one[kind]) for kind in kinds)]
        for one in result["strengths"]
    ]
    columns = ["strength", "clean", "attack on standard", "attack on robust", "attack on itself", "worst of all"]
    title = f"mixtures by {settings['mixing']}, {settings['attack']}, {result['examples']} images"
    table(columns, rows, title=title)
    who = ("standard", "robust", "mixture", *(["adaptive"] if settings["adaptive"] else []))
    names = ["standard", "robust", f"mixture {strength_in_words(settings['at'])}", "policy"][: len(who)]
    rows = [[strength_in_words(one["aim"]), *(rate_in_words(one[each]) for each in who)] for one in result["aims"]]
    table(["attack aims at", *names], rows)
    rows = [[f"{one['eps']:.4g}", *(rate_in_words(one[each]) for each in who)] for one in result["radii"]]
    table(["worst within eps", *names], rows)
    echo(crossing_in_words(float(result["crossing"])))


def crossing_in_words(strength: float) -> str:
    """What the crossing of the two curves says."""
    if math.isinf(strength):
        return "the robust network is at least as good at the points of all these attacks together"
    if strength == 0:
        return "the standard network is better at the points of all these attacks together"
    return f"up to an aim of {strength:.4g} the robust network is better, beyond it the standard one"


def strength_in_words(value: Any) -> str:
    """A strength for people."""
    return value if isinstance(value, str) else f"{value:.4g}"


def rate_in_words(found: Any) -> str:
    """An accuracy with its interval."""
    return f"{percent(found['value'])} {interval(found['low'], found['high'])}"


command = asking(ask, show)
