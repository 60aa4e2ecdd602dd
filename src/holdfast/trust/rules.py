r"""How a count of examples becomes a verdict.

Every rule asks the same: of :math:`n` examples, :math:`k` should not be as they are; is the true share of such examples
above the share :math:`q` that is tolerated? The exact binomial test answers: `fail` where its p-value is below 1 %,
`warn` below 10 %. One or two examples never alarm, whatever :math:`n`, and neither does a small share of very many.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from holdfast.statistics import exceeds
from holdfast.trust.verdict import Evidence, Level, Verdict

SURE, LIKELY = 0.01, 0.1
"""p-values below which a verdict is fail, and warn."""

TOLERATED = 0.02
"""Share of examples, two points of accuracy, by which a number may be wrong before a verdict says so."""

ENOUGH = 3
"""Fewer examples than this never alarm."""

REMEDIES = {
    "eps": "raise the steps or restarts of this attack, and quote the worst case over all eps up to the one you claim",
    "flat": "go on to a larger eps until the accuracy falls, and try a black-box attack; `holdfast audit` does both",
    "convergence": "raise steps and restarts until the accuracy stops falling, and quote that number",
    "losses": "the loss misleads the attack: quote the worst case with the attacks that break more",
    "parts": "the whole hides the gradient of its parts: quote the worst case with attacks on them",
    "black-box": "gradients mislead the white-box attack: climb another loss (margin, dlr), use wrappers.BPDA around "
    "the step without a gradient, or quote the worst case over both attacks",
    "transfer": "gradients mislead the white-box attack: climb another loss (margin, dlr), use wrappers.BPDA around "
    "the step without a gradient, or quote the worst case with the transferred attack",
}


def level(count: int, trials: int, tolerated: float = TOLERATED) -> Level:
    """What `count` of `trials` examples mean."""
    p = exceeds(count, trials, tolerated) if count >= ENOUGH else 1.0
    return "fail" if p < SURE else "warn" if p < LIKELY else "pass"


@dataclass(frozen=True)
class Pair:
    """Two attacks on the same examples: how many the second breaks that the first left unbroken, and the reverse.

    Args:
        more: held under the first, broken by the second.
        fewer: broken by the first, held under the second.
        trials: examples that both saw.
    """

    more: int
    fewer: int
    trials: int

    @classmethod
    def of(cls, first: list[bool], second: list[bool]) -> Pair:
        """From what is still right under each attack."""
        pairs = list(zip(first, second, strict=True))
        return cls(sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs), len(pairs))


def beaten(flag: str, pair: Pair, stronger: str, weaker: str, evidence: Evidence) -> Verdict:
    """Does `stronger`, which should not be, break examples that `weaker` leaves unbroken?

    For the flags convergence, losses, parts, black-box and transfer.
    """
    outcome = level(pair.more, pair.trials)
    return Verdict(
        flag=flag,
        level=outcome,
        finding=f"{stronger} breaks {pair.more} of {pair.trials} examples that {weaker} leaves unbroken",
        remedy=REMEDIES[flag] if outcome != "pass" else "",
        evidence=evidence,
        value=pair.more / pair.trials,
        limit=TOLERATED,
    )


@dataclass(frozen=True)
class Rung:
    """One attack at one eps: what is still right of the same examples.

    Args:
        name: as the finding calls it.
        eps: its budget.
        held: whether each example is still right.
    """

    name: str
    eps: float
    held: list[bool]


FLAT = 4.0
"""Growth of eps over which not one more broken example is worth a warning."""


def growing(rungs: list[Rung], evidence: Evidence) -> Verdict:
    """Does a larger budget break at least what a smaller one breaks?

    The smaller set is inside the larger one, so an example that holds only in the larger is a failure of the attack.

    Args:
        rungs: in the order of eps, all on the same examples.
        evidence: where they come from.
    """
    steps = [(Pair.of(a.held, b.held), a, b) for a, b in itertools.pairwise(rungs)]
    worst, low, high = max(steps, key=lambda step: step[0].fewer)
    outcome, remedy = level(worst.fewer, worst.trials), REMEDIES["eps"]
    finding = f"{high.name} leaves {worst.fewer} of {worst.trials} examples unbroken that {low.name} breaks"
    first, last = rungs[0], rungs[-1]
    if outcome == "pass" and last.eps >= FLAT * first.eps and sum(last.held) >= sum(first.held) > 0:
        outcome, remedy = "warn", REMEDIES["flat"]
        finding = f"{last.name} breaks no more of {worst.trials} examples than {first.name} ({sum(first.held)} survive)"
    return Verdict(
        flag="eps",
        level=outcome,
        finding=finding,
        remedy=remedy if outcome != "pass" else "",
        evidence=evidence,
        value=worst.fewer / worst.trials,
        limit=TOLERATED,
    )
