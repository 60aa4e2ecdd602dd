"""Conditions that need attacks: does the white-box attack find what it should?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from holdfast.attacks.simba import SimBA
from holdfast.attacks.square import Square
from holdfast.rng import Streams
from holdfast.threat.linf import Linf
from holdfast.trust.rules import Pair, Rung, beaten, growing, level
from holdfast.trust.verdict import Verdict, judged
from holdfast.types import Ascent, Attack, Classifier, Threat

GROWTH = (0.5, 1.0, 2.0, 4.0)
"""The budgets tried, in units of the budget in question; the whole box comes last."""

UNBOUNDED = Linf(1.0)
"""The whole box: every image is in it, those of other classes too."""

LEFT = 0.05
"""Share of examples that may survive in the whole box. Right is zero; some ascents end in a bad place."""

MORE_STEPS, MORE_RESTARTS = 10, 5
"""How many times as many an attack gets, first the one and then the other, to show that it has converged."""

QUERIES = 1000
"""Of each black-box attack, per example."""

STEPS = QUERIES // 2
"""Of SimBA, whose steps have one or two queries."""


@dataclass(frozen=True)
class Case:
    """A white-box attack whose number is in question.

    Args:
        model: the classifier, in eval mode.
        x: images.
        y: labels.
        attack: the attack.
        seed: of everything random.
    """

    model: Classifier
    x: Tensor
    y: Tensor
    attack: Ascent
    seed: int = 0

    def held(self, attack: Attack, among: Tensor | None = None) -> Tensor:
        """Which examples are still right where the attack ends, (N,) bool; only some are tried if `among` is given."""
        tried = torch.ones_like(self.y, dtype=torch.bool) if among is None else among
        result = torch.zeros_like(tried)
        if tried.any():
            rng = Streams(self.seed, "audit", torch.arange(len(self.x)))[tried.cpu()]
            result[tried] = self.right(attack(self.model, self.x[tried], self.y[tried], rng=rng), tried)
        return result

    @torch.no_grad()
    def right(self, z: Tensor, among: Tensor) -> Tensor:
        """Whether the model gives the labels of these examples at `z`."""
        return self.model(z).argmax(1) == self.y[among]

    @cached_property
    def standing(self) -> Tensor:
        """Examples that the attack leaves standing."""
        return self.held(self.attack)

    def within(self, threat: Threat) -> Ascent:
        """The same attack in another set; a step size grows with the set."""
        changes: dict[str, Any] = {"threat": threat}
        if (step_size := getattr(self.attack, "step_size", None)) is not None:
            same = type(threat) is type(self.attack.threat)
            changes["step_size"] = step_size * threat.eps / self.attack.threat.eps if same else None
        return replace(self.attack, **changes)

    @cached_property
    def rungs(self) -> list[Rung]:
        """The attack at growing budgets, the whole box last."""
        threat, rungs = self.attack.threat, []
        for eps in (threat.eps * factor for factor in GROWTH):
            if not (isinstance(threat, Linf) and eps >= 1):
                held = self.standing if eps == threat.eps else self.held(self.within(replace(threat, eps=eps)))  # type: ignore[type-var]
                rungs.append(Rung(f"eps {eps:.3g}", eps, held.tolist()))
        held = self.held(self.within(UNBOUNDED))
        return [*rungs, Rung("the whole box", math.inf, held.tolist())]


def larger_eps(case: Case) -> Verdict:
    """Does a larger budget break at least as much?"""
    return growing(case.rungs, "attacks")


def unbounded(case: Case) -> Verdict:
    """Does the attack break everything when any image is allowed?

    The box holds images of every class, so no classifier that knows two classes has any accuracy left in it.
    """
    held, trials = sum(case.rungs[-1].held), len(case.x)
    return judged(
        "unbounded",
        level(held, trials, LEFT),
        f"{held} of {trials} examples survive although any image is allowed (linf eps 1)",
        remedy="no classifier survives this, so the attack does not work: look for a masked gradient, a wrong step "
        "size or a loss that saturates",
        evidence="attacks",
        value=held / trials,
        limit=LEFT,
    )


def convergence(case: Case) -> Verdict:
    """Do more steps, or more restarts, still break more?"""
    attack = case.attack
    left = case.held(replace(attack, steps=MORE_STEPS * attack.steps), case.standing)
    harder = f"{MORE_STEPS} times the steps"
    if getattr(attack, "random_start", True):
        left = case.held(replace(attack, restarts=MORE_RESTARTS * attack.restarts), left)
        harder += f" or {MORE_RESTARTS} times the restarts"
    return beaten("convergence", pair(case, left), f"the attack with {harder}", "the attack", "attacks")


def black_box(case: Case) -> Verdict:
    """Does random search, which needs no gradient, break what gradients do not?"""
    threat = case.attack.threat
    searches: dict[str, Attack] = {
        f"Square with {QUERIES} queries": Square(threat=threat, queries=QUERIES),
        f"SimBA with {STEPS} steps": SimBA(threat=threat, steps=STEPS, basis=basis(case.x)),
    }
    left = {name: case.held(search, case.standing) for name, search in searches.items()}
    return beaten_by_any("black-box", case, left)


def basis(x: Tensor) -> Literal["pixel", "dct"]:
    """Of SimBA: single values where every one of them has its turn, else waves, each of which changes all of them."""
    return "pixel" if x[0].numel() <= STEPS or x.dim() != 4 else "dct"


def beaten_by_any(flag: str, case: Case, left: Mapping[str, Tensor], remedy: str = "") -> Verdict:
    """Do other attacks break examples that the white-box attack leaves standing?

    They count together: an adversary picks what works for each image.

    Args:
        flag: black-box, transfer, losses or parts.
        case: the attack in question.
        left: by the name of each other attack, which of the standing examples it leaves standing.
        remedy: what to do if they do; empty for the usual remedy of the flag.
    """
    broken = {name: int((case.standing & ~held).sum()) for name, held in left.items()}
    together = pair(case, torch.stack([*left.values()]).all(0))
    verdict = beaten(flag, together, "any of them", "the white-box attack", "attacks")
    finding = (
        f"{_broken_by(broken, together.more)} of {together.trials} examples that the white-box attack leaves unbroken"
    )
    return replace(verdict, finding=finding, remedy=(remedy or verdict.remedy) if verdict.remedy else "")


def _broken_by(broken: Mapping[str, int], together: int) -> str:
    """Who breaks how many: A breaks 4, B 3 (together 5)."""
    (first, count), *others = broken.items()
    rest = "".join(f", {name} {number}" for name, number in others)
    return f"{first} breaks {count}{rest}" + (f" (together {together})" if others else "")


def pair(case: Case, left: Tensor) -> Pair:
    """The attack against one that left `left` of its survivors standing."""
    return Pair(int((case.standing & ~left).sum()), 0, len(case.x))
