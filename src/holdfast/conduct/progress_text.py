"""Progress of training in words, the same for the command line and for Python."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.training.records import Epoch, Preparation, Step


def step_in_words(step: Step, note: str = "") -> str:
    """Where training is, and its loss."""
    return f"epoch {step.epoch}  loss {step.loss:.3f}  {note}"


def scores_in_words(scores: Mapping[str, float] | None) -> str:
    """Validation scores of an epoch; nothing where it was not judged."""
    if not scores:
        return ""
    return "validation " + ", ".join(
        f"{name.replace('_', ' ')} {100 * value:z.1f} %" for name, value in scores.items() if name != "loss"
    )


def training_in_words(record: Step | Epoch | Preparation) -> str:
    """What a record of training says, in one line."""
    if isinstance(record, Step):
        return f"step {record.step} of {record.total}  {step_in_words(record).rstrip()}"
    if isinstance(record, Epoch):
        return f"epoch {record.epoch} finished  {scores_in_words(record.validation)}".rstrip()
    return f"preparing epoch {record.epoch}" if record.epoch else "fitting the transformation"
