"""Sampling until all is settled, and the refusal of what no sample could settle."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from holdfast.certify.bounds import Integers, Question, Tally
from holdfast.certify.noise import Array
from holdfast.certify.sampling import Sampling

MOST = 10**9
"""Most copies that are considered."""


def check_possible(sampling: Sampling, question: Question) -> None:
    """Refuse what cannot be reached even if all copies agree, and say how many would do."""
    purpose = sampling.falls_short(question)
    if purpose is None:
        return
    if sampling.falls_short(replace(question, n=MOST)):
        limit = float(question.noise.quantile(np.array(1.0)))
        why = f"; with this noise every radius is below {limit:g}" if limit < math.inf else ""
        raise ValueError(
            f"n: not even {MOST:,} are enough {purpose} at alpha {question.alpha:g}, got {question.n}{why}"
        )
    fewest = bisect.bisect_left(
        range(MOST), True, lo=question.n, key=lambda n: sampling.falls_short(replace(question, n=n)) is None
    )
    raise ValueError(f"n must be at least {fewest} {purpose} at alpha {question.alpha:g}, got {question.n}")


def settle(
    sampling: Sampling, question: Question, selection: Tally, draw: Callable[[str, Integers, Integers], Tally]
) -> tuple[Array, Integers]:
    """Sample until all is settled; those that are leave.

    Args:
        sampling: when to stop.
        question: what is to be proved.
        selection: what is known from choosing the classes.
        draw: for a purpose, rows and numbers of copies: what was seen when each of the rows has so many. Copies for
            different purposes are independent.

    Returns:
        The radius of each example, not positive where nothing is proved, and how many copies were drawn.
    """
    everyone = np.arange(len(selection))
    size = sampling.pilot(question.n)
    pilot = draw("pilot", everyone, np.full(len(everyone), size)) if size else selection
    goal = sampling.first(pilot, question)
    radius, rows = np.full(len(everyone), -np.inf), everyone[goal > 0]
    while len(rows):
        tally = draw("estimation", rows, goal[rows])
        radius[rows] = sampling.radius(tally, question)
        following = sampling.following(tally, question)
        stay = following > tally.trials
        rows = rows[stay]
        goal[rows] = following[stay]
    return radius, goal + size
