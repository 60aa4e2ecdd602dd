"""Results: the ledger of a run, and summaries of its rows.

Everything that a report says is a query on these rows. No module here loads torch.
"""

from holdfast.results.ledger import SCHEMA, STEP, Ledger, is_graded, natural
from holdfast.results.summaries import (
    accuracies,
    compared,
    confusion,
    is_certificate,
    not_attacked,
    per_class,
    reasons,
    unsettled,
    waiting,
    with_interval,
    yields,
)

__all__ = [
    "SCHEMA",
    "STEP",
    "Ledger",
    "accuracies",
    "compared",
    "confusion",
    "is_certificate",
    "is_graded",
    "natural",
    "not_attacked",
    "per_class",
    "reasons",
    "unsettled",
    "waiting",
    "with_interval",
    "yields",
]
