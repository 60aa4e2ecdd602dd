"""The question of mixing an accurate network and a robust one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.attack import attack_settings, check_budget, chosen_attack
from holdfast.questions.mixing.summary import (
    AtStrength,
    Compared,
    MixingSummary,
    Plan,
    check_strengths,
    planned,
    summarise_mixing,
    written,
)
from holdfast.questions.presenting import Rate, rate_curve
from holdfast.questions.question import Context, Needs, Prepared
from holdfast.show.chart import Chart, Mark
from holdfast.show.figures import Figure, figure
from holdfast.show.items import Heading, Item
from holdfast.show.names import norm_sign
from holdfast.show.numbers import percent, several, short
from holdfast.show.table import Table

if TYPE_CHECKING:
    from holdfast.types import Mixing

BLOCK = 32
"""Images of a block, at most: dozens of attacks on each are what an interruption loses."""

ATTACKS = {
    "clean": "clean images", "on_standard": "attack on the standard network",
    "on_robust": "attack on the robust network", "itself": "attack on the mixture", "worst": "worst of all attacks",
}  # fmt: skip
"""Accuracies of a mixture, by the fields of `AtStrength`."""

EXPLANATION = (
    "An accurate network g and a robust one h, mixed with a strength α. Attacks aim at g alone, at h alone and at "
    "every mixture; the points of each attack are tried on every mixture. The worst case counts images that are "
    "classified correctly when clean and after every attack: it is the only number to rely on."
)


@dataclass(frozen=True, kw_only=True)
class Mixtures:
    """Mixtures of an accurate network and a robust one, under attacks that aim at any of them.

    Args:
        robust: robust run or weights; `{seed}` in it stands for the seed of the run. A composite has its own.
        mixing: way to mix, such as probability (default: gradient ratios in the norm of the attack).
        gradients: gradients in the default way to mix: of all classes (eq. 5), or of the largest
            logits (eq. 10), which costs much less.
        strengths: strengths of the mixtures, such as 0.1,1,10; 0 and inf are added (default: those of the paper).
        at: strength to show where only one is (default: that of a composite, or the middle one).
        norm: norm of the budget: linf, l2 or l1; goes with eps (default: linf).
        eps: budget, such as 8/255 (default: that of the run's attack).
        radii: other budgets to attack with, such as 0.02,0.05, or [] for none (default: 0.5, 1.5 and 2 times eps).
        examples: number of test images at most, balanced over the classes.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        sections 4.1, 5.1 and 6, figures 2 to 10. Differs: the paper shows the attack on the mixture itself as its
        robustness; here that is one of many.
    """

    title: ClassVar = "Mixtures of two networks"
    needs: ClassVar = Needs.NETWORKS

    robust: str | None = None
    mixing: Mixing | None = None
    gradients: Literal["classes", "largest"] = "classes"
    strengths: tuple[float, ...] | None = None
    at: float | None = None
    norm: Literal["linf", "l2", "l1"] | None = None
    eps: float | None = None
    radii: tuple[float, ...] | None = None
    examples: int = 1000

    def __post_init__(self) -> None:
        check_budget(self.norm, self.eps)
        check_strengths(self.strengths or ())
        if self.mixing is not None and self.gradients != "classes":
            raise ValueError(f"gradients: expected no other way to mix beside {self.gradients}; got mixing, too")
        if self.at is not None and not self.at >= 0:
            raise ValueError(f"at: expected a strength from 0 to inf, got {self.at:g}")
        if self.radii is not None and not all(0 < radius < math.inf for radius in self.radii):
            raise ValueError(f"radii: expected positive numbers, such as 0.02,0.05, or []; got {[*self.radii]}")
        if self.examples < 1:
            raise ValueError(f"examples must be at least 1, got {self.examples}")

    @property
    def sources(self) -> tuple[str, ...]:
        """The robust run."""
        return () if self.robust is None else (self.robust,)

    def prepared(self, context: Context) -> Prepared:
        """The measurement of two networks, or of the two in a composite, whose strength and policy are tried, too."""
        from holdfast.questions.mixing.measurement import MixingMeasurement, pair_of, plan_of

        attack = chosen_attack(context, self.norm, self.eps)
        pair = pair_of(self, context, attack)
        plan = plan_of(self, pair, attack.threat)
        settings = {**pair.settings, **plan.settings(), **attack_settings(context, attack)}
        settings["examples"] = examples = min(self.examples, len(context.test))
        return Prepared(MixingMeasurement(pair, plan, attack), settings, BLOCK, examples)

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Accuracy against strength, aim and radius of each pair of networks; then their gradients."""
        from holdfast.questions.mixing.gradients import gradient_items

        mixtures = mixtures_of(answers)
        if mixtures:
            yield EXPLANATION
        for one in mixtures:
            yield Heading(one.title)
            yield f"{strength_words(one)} {aim_words(one)} {radius_words(one)}"
            yield from (strength_chart(one), aim_chart(one), radius_chart(one))
            yield from tables(one)
        pairs = {one.points: one for one in reversed(mixtures)}  # whose gradients no way to mix changes
        yield from gradient_items([(", ".join(names[:3]), one.answer) for names, one in reversed(pairs.items())])


@dataclass(frozen=True)
class Mixture:
    """The mixtures of two networks.

    Args:
        answer: what was measured.
        standard: name of the accurate network.
        robust: of the robust one.
        plan: what was tried.
        summary: the rows in few numbers.
    """

    answer: Answer
    standard: str
    robust: str
    plan: Plan
    summary: MixingSummary

    @property
    def settings(self) -> Any:
        """The fields of the question."""
        return self.answer.settings

    @property
    def who(self) -> str:
        """Both networks and how they are mixed."""
        return f"{self.standard} and {self.robust}, {self.settings['mixing']}"

    @property
    def title(self) -> str:
        """The same with the attack."""
        return f"{self.who}, {self.settings['attack']}"

    @property
    def points(self) -> tuple[str, ...]:
        """Where the gradients of the two are measured, in words; then what else distinguishes the points."""
        attack, images = self.settings["attack"], several(self.summary.examples, "image")
        networks = f"{self.standard} and {self.robust}"
        return networks, attack, images, self.answer.key.images, self.settings["params"]

    @property
    def names(self) -> dict[str, str]:
        """What each of the compared classifiers is called, by the fields of `Compared`."""
        names = {who: f"{who} network" for who in ("standard", "robust")}
        names["mixture"] = f"mixture of strength {written(self.plan.at)}"
        return {**names, "adaptive": "mixture with policy"} if self.plan.adaptive else names


def mixtures_of(answers: Answers) -> list[Mixture]:
    """The answers that hold any rows; a composite has both networks inside."""
    mixtures = []
    for answer in answers:
        if len(answer.rows):
            name, settings = f"{answer.run} ({answer.key.weights})", answer.settings
            plan = planned(settings)
            other = answers.networks.get(settings["robust_hash"], settings["robust"])
            standard, robust = (name, other) if settings["robust"] else (f"g of {name}", "its h")
            mixtures.append(Mixture(answer, standard, robust, plan, summarise_mixing(answer.rows["right"], plan)))
    return mixtures


def strength_words(one: Mixture) -> str:
    """Which strength has the best worst case, and what it costs."""
    summary = one.summary
    words = (
        f"On {several(summary.examples, 'image')}, worst-case and clean accuracy are {_two(summary.best)} at strength "
        f"{written(summary.best.mixture)}, where the worst case is best; the robust network alone has "
        f"{_two(summary.fixed[-1])}, the standard one {_two(summary.fixed[0])}"
    )
    return f"{words}, the policy {_two(summary.strengths[-1])}." if one.plan.adaptive else f"{words}."


def _two(at: AtStrength) -> str:
    return f"{percent(at.worst.value)} and {percent(at.clean.value)}"


def aim_words(one: Mixture) -> str:
    """Which network answers better where, and which attack hurts the mixture most."""
    crossing, who = one.summary.crossing, "adaptive" if one.plan.adaptive else "mixture"
    if math.isinf(crossing):
        words = "The robust network answers at least as well over all aims together."
    elif crossing == 0:
        words = "The standard network answers better over all aims together."
    else:
        words = f"Up to an aim of {short(crossing)} the robust network answers better, beyond it the standard one."
    least = min(one.summary.aims, key=lambda at: getattr(at, who).value)
    rest = percent(getattr(least, who).value)
    hardest = f"is least accurate under the attack with aim {written(least.at)}: {rest} correct."
    return f"{words} The {one.names[who]} {hardest}"


def radius_words(one: Mixture) -> str:
    """All at the main radius, in the worst of the same attacks."""
    here = next(at for at in one.summary.radii if at.at == one.plan.eps)
    parts = [f"{percent(getattr(here, who).value)} for the {name}" for who, name in one.names.items()]
    return f"At ε = {short(one.plan.eps)}, with the same attacks tried on all: {', '.join(parts)}."


def strength_chart(one: Mixture) -> Figure:
    """Figure 6: accuracy of the mixtures against their strength, clean and under every kind of attack."""
    strengths = one.summary.strengths
    curves = [rate_curve(name, [getattr(at, kind) for at in strengths]) for kind, name in ATTACKS.items()]
    ticks = tuple(written(at.mixture) for at in strengths)
    chart = Chart("Accuracy by strength", "strength α (0: standard, ∞: robust)", tuple(curves), True, ticks=ticks)
    return _policy_apart(figure(chart, [one.who], ""), one)


def aim_chart(one: Mixture) -> Figure:
    """Figures 4 and 7: accuracy of both networks and of mixtures against the strength that the attack aims at."""
    curves = tuple(rate_curve(name, rates) for name, rates in _compared(one, one.summary.aims))
    ticks = tuple(written(at.at).removesuffix(" policy") for at in one.summary.aims)
    title, axis = "Accuracy by aim of the attack", "strength αₜ that the attack aims at"
    return _policy_apart(figure(Chart(title, axis, curves, True, mark=_mark(one), ticks=ticks), [one.who], ""), one)


def radius_chart(one: Mixture) -> Figure:
    """Figure 8: accuracy in the worst of the same attacks against their radius."""
    x = [float(at.at) for at in one.summary.radii]
    curves = tuple(rate_curve(name, rates, x) for name, rates in _compared(one, one.summary.radii))
    norm = one.settings["norm"]
    axis = f"largest change ε in {norm_sign(norm)}"
    return figure(Chart("Worst case of the same attacks", axis, curves, True), [one.who], "")


def tables(one: Mixture) -> Iterator[Table]:
    """The numbers of the charts."""
    summary, names = one.summary, [name.capitalize() for name in one.names.values()]
    rows = [(written(at.mixture), [getattr(at, kind).cell for kind in ATTACKS]) for at in summary.strengths]
    yield Table("Accuracy by strength", "Strength", [name.capitalize() for name in ATTACKS.values()], rows)
    for caption, corner, points in (
        ("Accuracy by aim of the attack", "Aim", [(written(at.at), at) for at in summary.aims]),
        ("Worst case of the same attacks, by radius", "ε", [(short(at.at), at) for at in summary.radii]),
    ):
        yield Table(caption, corner, names, [(at, [getattr(c, who).cell for who in one.names]) for at, c in points])


def _compared(one: Mixture, points: Sequence[Compared]) -> Iterator[tuple[str, list[Rate]]]:
    for who, name in one.names.items():
        yield name, [getattr(at, who) for at in points]


def _mark(one: Mixture) -> Mark | None:
    """Where the two networks change places on the axis of aims; None where they do not."""
    crossing, strengths = one.summary.crossing, one.plan.strengths
    if not 0 < crossing < math.inf:
        return None
    position = place_of(crossing, strengths)
    low = min(int(position), len(strengths) - 2)
    start, end = (at.robust.value for at in one.summary.aims[low : low + 2])
    return Mark(f"α₀ = {short(crossing)}", position, start + (position - low) * (end - start))


def place_of(value: float, strengths: Sequence[float]) -> float:
    """Where a strength stands between those that are marked, in the scale that `crossing` interpolates in."""
    number = max(place for place, strength in enumerate(strengths[:-1]) if strength <= value)
    low, high = strengths[number], strengths[number + 1]
    if low > 0:
        return number + (1 - low / value if math.isinf(high) else math.log(value / low) / math.log(high / low))
    return number + (value / (1 + value) if math.isinf(high) else value / high)


def _policy_apart(made: Figure, one: Mixture) -> Figure:
    """The chart with a gap after the strengths, if there is a policy, which is no strength of the line."""
    if not one.plan.adaptive:
        return made
    after = len(one.plan.strengths)

    def with_gap(values: Sequence[Any]) -> list[Any]:
        return [*values[:after], None, *values[after:]]

    traces = [{**trace, **{name: with_gap(trace[name]) for name in ("x", "y", "text")}} for trace in made.spec["data"]]
    for trace in traces:
        ends = {name: with_gap(trace["error_y"][name]) for name in ("array", "arrayminus")}
        trace["error_y"] = {**trace["error_y"], **ends}
    return replace(made, spec={**made.spec, "data": traces})
