r"""Whether a network answers better than by guessing: no number of a network at chance level is about robustness.

Two things decide, both on clean images. The accuracy :math:`a` is compared with that of guessing, :math:`g = \sum_k r_k
s_k`: what the same answers, given with frequencies :math:`s_k`, would get right if they did not depend on the image, of
labels with frequencies :math:`r_k`. For a constant answer it is the share of its class; with balanced classes it is
:math:`1 / K` whatever the answers. Right answers are then a sum of independent trials of mean :math:`g`, whose upper
tail is at most that of the binomial distribution (Hoeffding, On the Distribution of the Number of Successes in
Independent Trials, 1956), so that the exact binomial test errs on the safe side.

The loss is compared with that of the best constant answer, the entropy of the labels. Since it depends on the scale of
the logits, and a network of small ones may be right all the same, it counts only where the accuracy proves no more
information about the labels, :math:`\mathrm{KL}(a \,\|\, g)`, than the loss lacks to that of a constant answer.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from holdfast.statistics import bernoulli_divergence, entropy, exceeds
from holdfast.trust.rules import SURE
from holdfast.trust.verdict import Evidence, Level, Verdict, judged

CLOSE = 0.98
"""Share of the loss of a constant answer above which a network counts as no better."""

MOSTLY = 0.9
"""Share of the images with the same answer from which on the finding mentions it."""

FOREIGN = (
    "check the normalisation (--mean and --std; in Python mean= and std=), whether its trained weights were loaded "
    "(--weights), and the order of the classes"
)
TRAINED = (
    "train longer or try another learning rate; in adversarial training, let the threat grow over its first half "
    "(train.threat_warmup: 0.5)"
)
GIVEN = "given"
"""Weights of a network that was not trained in its run."""


@dataclass(frozen=True)
class CleanAnswers:
    """A network's answers to clean images.

    Args:
        labels: right answers.
        predictions: its answers.
        loss: mean cross entropy; None or NaN where it is not known.
    """

    labels: Sequence[int]
    predictions: Sequence[int]
    loss: float | None = None

    @cached_property
    def correct(self) -> int:
        """How many are right."""
        return sum(label == prediction for label, prediction in zip(self.labels, self.predictions, strict=True))

    @cached_property
    def guessing(self) -> float:
        """Expected accuracy of the same answers if they did not depend on the image."""
        labels, predictions = Counter(self.labels), Counter(self.predictions)
        return sum(labels[name] * count for name, count in predictions.items()) / len(self.labels) ** 2

    @cached_property
    def level(self) -> Level:
        """Pass above chance level, fail at it, not tested where there are too few images to tell."""
        if len(set(self.labels)) < 2:
            return "not tested"
        if self.constant_loss is not None:
            return "fail"
        count, correct, guessing = len(self.labels), self.correct, self.guessing
        if exceeds(correct, count, guessing) < SURE:
            return "pass"
        # A few images cannot show that a good network is one: its errors must show that it is none.
        return "fail" if exceeds(count - correct, count, (1 - guessing) / 2) < SURE else "not tested"

    @cached_property
    def constant_loss(self) -> float | None:
        """The loss of the best constant answer, if that of the network is no better and its accuracy hardly is."""
        constant = entropy([*Counter(self.labels).values()])
        if self.loss is None or not CLOSE * constant <= self.loss <= constant / CLOSE:
            return None
        information = bernoulli_divergence(self.correct / len(self.labels), self.guessing)
        return constant if information <= (1 - CLOSE) * constant else None

    def verdict(self, evidence: Evidence, remedy: str = FOREIGN) -> Verdict:
        """Are they better than guessing?"""
        return judged(
            "chance",
            self.level,
            self.finding,
            remedy=remedy,
            evidence=evidence,
            value=self.correct / len(self.labels),
            limit=self.guessing,
        )

    @property
    def finding(self) -> str:
        """The numbers that decide, in one sentence."""
        count, same = len(self.labels), max(Counter(self.predictions).values())
        text = f"{self.correct} of {count} clean images are right ({100 * self.correct / count:.1f} %)"
        text += f", guessing gives {100 * self.guessing:.1f} %"
        if self.constant_loss is not None:
            text += f"; the loss ({self.loss:.3f}) is that of a constant answer ({self.constant_loss:.3f})"
        if self.level == "fail" and same >= MOSTLY * count:
            text += f"; {same} of {count} images get the same answer"
        return text if self.level != "not tested" else f"{text}: too few images, or classes, to tell"


def better_than_chance(rows: pl.DataFrame) -> Verdict:
    """The verdict on one network, from its ledger rows; not tested where clean images were not checked.

    Args:
        rows: of one run and its weights, with the columns method, label, prediction, loss and weights.
    """
    clean = rows.filter(pl.col("method") == "clean")
    if clean.is_empty() or not {"label", "prediction", "loss", "weights"} <= set(clean.columns):
        return Verdict(flag="chance", level="not tested", finding="clean images were not checked", evidence="ledger")
    loss = clean["loss"].mean()
    answers = CleanAnswers(
        clean["label"].to_list(), clean["prediction"].to_list(), float(loss) if isinstance(loss, float) else math.nan
    )
    return answers.verdict("ledger", FOREIGN if clean["weights"][0] == GIVEN else TRAINED)


Network = tuple[str, str]
"""Name of a run, and which of its weights."""


def at_chance(rows: pl.DataFrame) -> dict[Network, Verdict]:
    """The networks of a ledger that answer no better than by guessing, each with its verdict."""
    clean = rows.filter(pl.col("method") == "clean")
    groups = clean.group_by("run", "weights", maintain_order=True)
    verdicts = {(str(run), str(weights)): better_than_chance(part) for (run, weights), part in groups}
    return {network: verdict for network, verdict in verdicts.items() if verdict.level == "fail"}


def chance_warnings(rows: pl.DataFrame) -> list[str]:
    """A sentence on each network of a ledger that is at chance level: why, and what to do."""
    return [
        f"{run} ({weights} weights) is at chance level: {verdict.finding}; {verdict.remedy}"
        for (run, weights), verdict in at_chance(rows).items()
    ]
