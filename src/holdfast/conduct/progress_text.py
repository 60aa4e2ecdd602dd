"""Progress of training in words, the same for the command line and for Python."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.training.records import Step


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
