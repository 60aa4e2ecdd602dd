"""Transfer from network to network, from ledger rows: error rates by denominator, and paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import polars as pl

from holdfast.errors import LedgerError
from holdfast.statistics import Interval, Paired, mcnemar, wilson

CLEAN = "clean"

Denominator = Literal["all", "right on both", "qualified"]
DENOMINATORS: Mapping[Denominator, str] = {
    "all": "all test images; what the target gets wrong without an attack counts as an error",
    "right on both": "images that source and target get right without an attack",
    "qualified": "images that source and target get right without an attack, and that the same attack on each of the "
    "two makes that network itself get wrong",
}
"""What error rates are shares of. Users of other tools ask for the second, papers report the first or the third."""


def check_name(attack: str, source: str) -> str:
    """What the rows of points that an attack made on a source are called."""
    return f"{attack} from {source}"


def qualified(right_on_source: bool, right_on_target: bool, source_broken: bool, target_broken: bool) -> bool:
    """Whether an example is in the qualified set: all four, and nothing less.

    Args:
        right_on_source: without an attack.
        right_on_target: the same.
        source_broken: the source is wrong at the point that the attack made on it.
        target_broken: the target is wrong at the point that the same attack made on the target.
    """
    return right_on_source and right_on_target and source_broken and target_broken


@dataclass(frozen=True)
class Rate:
    """How often a target is wrong at points of a source.

    Args:
        source: name of the network that was attacked.
        attack: label of the attack.
        target: name of the network that the points were tried on.
        denominator: what it is a share of.
        errors: how many are wrong.
        examples: of how many.
    """

    source: str
    attack: str
    target: str
    denominator: Denominator
    errors: int
    examples: int

    @property
    def share(self) -> float | None:
        """Errors over examples; None of no examples."""
        return self.errors / self.examples if self.examples else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's interval of 95 %."""
        return wilson(self.errors, self.examples) if self.examples else None


@dataclass(frozen=True)
class Change:
    """Points of two sources, tried on one target, over the same examples.

    Args:
        before: name of the first source.
        after: name of the second.
        attack: label of the attack.
        target: name of the network that the points were tried on.
        paired: accuracy of the target at the points of `before` minus that at the points of `after`, over the examples
            that all three networks get right without an attack: positive where `after` transfers better. None where
            there are no such examples.
    """

    before: str
    after: str
    attack: str
    target: str
    paired: Paired | None


@dataclass(frozen=True)
class Transfers:
    """All rows of a matrix.

    Args:
        rows: as a ledger has them; `run` is the network asked, `check` is `clean` or a name of `check_name`.
        sources: names of the networks that were attacked.
        attacks: labels.
        targets: names of the networks that the points were tried on.
    """

    rows: pl.DataFrame
    sources: Sequence[str]
    attacks: Sequence[str]
    targets: Sequence[str]

    @cached_property
    def _right(self) -> Mapping[tuple[str, str], Sequence[bool]]:
        """Which examples a network gets right in a check, in the order of their indices."""
        right, examples = {}, None
        for (run, check), group in self.rows.sort("example").group_by("run", "check", maintain_order=True):
            here = group["example"].to_list()
            examples = examples or here
            if here != examples:
                raise LedgerError(f"{run}: {check}: expected {len(examples)} examples, the same as everywhere")
            right[str(run), str(check)] = group["correct"].to_list()
        return right

    def _outcome(self, network: str, check: str) -> Sequence[bool]:
        if (network, check) not in self._right:
            raise LedgerError(f"{network}: {check}: expected rows of a finished matrix, got none; repeat the command")
        return self._right[network, check]

    def rate(self, source: str, attack: str, target: str, denominator: Denominator) -> Rate | None:
        """One entry of the matrix; None where the qualified set needs an attack on a target that is no source."""
        chosen = self._chosen(source, attack, target, denominator)
        if chosen is None:
            return None
        right = self._outcome(target, check_name(attack, source))
        errors = sum(one and not survives for one, survives in zip(chosen, right, strict=True))
        return Rate(source, attack, target, denominator, errors, sum(chosen))

    def _chosen(self, source: str, attack: str, target: str, denominator: Denominator) -> Sequence[bool] | None:
        clean = [self._outcome(network, CLEAN) for network in (source, target)]
        if denominator == "all":
            return [True] * len(clean[0])
        if denominator == "right on both":
            return [a and b for a, b in zip(*clean, strict=True)]
        if target not in self.sources:
            return None
        own = [self._outcome(network, check_name(attack, network)) for network in (source, target)]
        each = zip(*clean, *own, strict=True)
        return [qualified(a, b, not held, not held_there) for a, b, held, held_there in each]

    def change(self, before: str, after: str, attack: str, target: str) -> Change:
        """Whether points of one source transfer better than those of another, on the same examples."""
        clean = [self._outcome(network, CLEAN) for network in (before, after, target)]
        kept = [all(each) for each in zip(*clean, strict=True)]
        points = [self._outcome(target, check_name(attack, source)) for source in (before, after)]
        pair = [[one for one, wanted in zip(right, kept, strict=True) if wanted] for right in points]
        return Change(before, after, attack, target, mcnemar(*pair) if pair[0] else None)
