"""What the weights of a run are called: `best`, `last`, and `epoch-5` for those kept during training."""

from __future__ import annotations

import re

EPOCH = re.compile("epoch-([1-9][0-9]*)")


def epoch_label(epoch: int) -> str:
    """The label of weights kept after an epoch of training."""
    return f"epoch-{epoch}"


def epoch_of(label: str) -> int | None:
    """The epoch after which weights of this label were kept; None for other weights."""
    match = EPOCH.fullmatch(label)
    return None if match is None else int(match[1])
