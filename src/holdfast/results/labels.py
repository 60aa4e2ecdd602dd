"""What the weights of a run are called: `best`, `last`, and `epoch-5` for those that an epoch left on the way."""

from __future__ import annotations

import re

EPOCH = re.compile("epoch-([1-9][0-9]*)")


def epoch_label(epoch: int) -> str:
    """The label of weights that an epoch left on the way."""
    return f"epoch-{epoch}"


def epoch_of(label: str) -> int | None:
    """The epoch that left weights of this label on the way; None for other weights."""
    match = EPOCH.fullmatch(label)
    return None if match is None else int(match[1])
