"""Confidence on clean images, at random points and after one step of PGD: does the gradient lead anywhere?"""

from __future__ import annotations

import torch

from holdfast.attacks.search import require_box
from holdfast.losses import cross_entropy
from holdfast.questions.sureness import Confidences, Sureness, confidences
from holdfast.rng import Streams
from holdfast.trust.attacks import Case
from holdfast.trust.rules import TOLERATED, level
from holdfast.trust.verdict import Verdict, judged

MUCH = 0.1
"""Probability of the true class that random noise must take more than the step along the gradient does."""

CERTAIN = 1e-6
"""A likeliest class is certain if no more than this is left for the others: the loss has lost its digits."""

SATURATED = 0.5
"""Share of examples that may be certain at all three points: well trained networks are sure, which is no masking."""

MISLED = "random noise does more harm than the gradient: look for a masked gradient or for a step that is too long"
FLAT = (
    "the loss is flat wherever an attack may start: climb margin or dlr, or divide the logits by a constant, and judge "
    "by black-box attacks too"
)


def confidence(case: Case) -> Verdict:
    """Does one step along the gradient take confidence, as it should, where random noise does?

    Low confidence is honest after adversarial training and high confidence after any other, so that the numbers alone
    decide nothing, and a single step is weak on any network, so that the worst verdict is a warning.

    Reference:
        Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, table 3.1 and appendix 3.F.
    """
    rng = Streams(case.seed, "audit confidence", len(case.x))
    attack = case.attack
    results = confidences(case.model, require_box(case.x), case.y, threat=attack.threat, loss=attack.loss, rng=rng)
    worse = int((results.random.true < results.pgd1.true - MUCH).sum())
    certain = int((1 - _least(results) < CERTAIN).sum())
    misled = level(worse, len(case.x)) != "pass"
    flat = attack.loss is cross_entropy and level(certain, len(case.x), SATURATED) != "pass"  # others do not saturate
    return judged(
        "confidence",
        "warn" if misled or flat else "pass",
        f"{_averages(results)}; noise takes more than the step from {worse} of {len(case.x)} examples, "
        f"{certain} are certain at all three",
        remedy=MISLED if misled else FLAT,
        evidence="attacks",
        value=worse / len(case.x),
        limit=TOLERATED,
    )


def _least(results: Confidences) -> torch.Tensor:
    """The smallest probability of the likeliest class over the three points, (N,)."""
    return torch.stack([one.likeliest for one in (results.clean, results.random, results.pgd1)]).amin(0)


def _averages(results: Confidences) -> str:
    """Table 3.1 in a line."""
    points = {"clean": results.clean, "random": results.random, "one step of PGD": results.pgd1}
    return "likeliest (true) class on average: " + ", ".join(f"{name} {_means(one)}" for name, one in points.items())


def _means(one: Sureness) -> str:
    return f"{100 * float(one.likeliest.mean()):.1f} % ({100 * float(one.true.mean()):.1f} %)"
