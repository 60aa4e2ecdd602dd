"""What is tried on mixtures of two classifiers: strengths, aims and radii; without torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

POLICY = "policy"
"""In place of a strength: the mixture whose strength a policy chooses."""

AROUND = "around policy"
"""An aim of attacks: the same mixture, with gradients that go around the policy."""

Aim = float | str
"""A strength, `POLICY` or `AROUND`."""

POINTS: Mapping[str, float | None] = {"clean": None, "on_standard": 0.0, "on_robust": math.inf}
"""Where gradients are measured: at the images, and at points of attacks that aim at this strength."""


@dataclass(frozen=True)
class Try:
    """Points that all mixtures are asked about.

    Args:
        eps: radius of the attack; 0 for the images themselves.
        aim: the mixture that the attack climbs, None for the images.
    """

    eps: float
    aim: Aim | None


CLEAN = Try(0.0, None)


@dataclass(frozen=True)
class Plan:
    """All mixtures and all tries.

    Args:
        strengths: of the mixtures, rising, 0 and infinity among them.
        eps: radius of the attacks that aim at each of them.
        radii: other radii, at which only 0, `at`, infinity and the policy, through and around it, are aimed at.
        at: the strength that stands for mixtures where only one is shown; one of the strengths.
        adaptive: whether a mixture with a policy is there too, after the others.
    """

    strengths: tuple[float, ...]
    eps: float
    radii: tuple[float, ...] = ()
    at: float = math.inf
    adaptive: bool = False

    def __post_init__(self) -> None:
        if not all(0 < radius < math.inf for radius in (self.eps, *self.radii)):
            raise ValueError(f"expected radii that are positive and finite, got {[self.eps, *self.radii]}")
        if not {0.0, math.inf, self.at} <= {*self.strengths} or sorted({*self.strengths}) != [*self.strengths]:
            raise ValueError(f"expected rising strengths with 0, {self.at:g} and infinity, got {[*self.strengths]}")

    @property
    def mixtures(self) -> tuple[Aim, ...]:
        """The strengths, and the policy if there is one."""
        return (*self.strengths, POLICY) if self.adaptive else self.strengths

    @property
    def aims(self) -> tuple[Aim, ...]:
        """What attacks climb at the main radius: every mixture, and that of a policy in two ways."""
        return (*self.mixtures, AROUND) if self.adaptive else self.mixtures

    @property
    def few(self) -> tuple[Aim, ...]:
        """What they climb with every radius."""
        some = dict.fromkeys((0.0, self.at, math.inf))
        return (*some, POLICY, AROUND) if self.adaptive else (*some,)

    @property
    def tries(self) -> tuple[Try, ...]:
        """The images, then every aim at the main radius, then few of them at the others."""
        others = [Try(eps, aim) for eps in self.radii if eps != self.eps for aim in self.few]
        return (CLEAN, *(Try(self.eps, aim) for aim in self.aims), *others)

    def place(self, mixture: Aim | None) -> int:
        """Where a mixture stands among the mixtures."""
        places: dict[Aim | None, int] = {each: number for number, each in enumerate(self.mixtures)}
        return places[mixture]

    def settings(self) -> dict[str, Any]:
        """The plan in plain values that JSON has: infinity is a word."""
        return {
            "strengths": [plain(strength) for strength in self.strengths], "eps": self.eps, "radii": [*self.radii],
            "at": plain(self.at), "adaptive": self.adaptive, **({"around": True} if self.adaptive else {}),
        }  # fmt: skip


def planned(settings: Mapping[str, Any]) -> Plan:
    """The plan that `Plan.settings` wrote down."""
    return Plan(
        strengths=tuple(float(strength) for strength in settings["strengths"]),
        eps=settings["eps"],
        radii=tuple(settings["radii"]),
        at=float(settings["at"]),
        adaptive=settings["adaptive"],
    )


def plain(value: Any) -> Any:
    """The value with the word `inf` for infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def grid_with(strengths: Sequence[float], *others: float) -> tuple[float, ...]:
    """The strengths with 0, infinity and others, rising, each once."""
    return tuple(sorted({0.0, math.inf, *strengths, *others}))
