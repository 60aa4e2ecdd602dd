"""Whether a directory holds results of the same network on the same images."""

from __future__ import annotations

import re
from typing import Any

from holdfast.errors import RecipeError
from holdfast.runs.directory import Run
from holdfast.runs.outputs import outputs_of
from holdfast.runs.splits import Splits
from holdfast.types import Classifier

REMEDY = "choose another --name or --out, or delete these results with `holdfast evaluate ... --fresh`"


def refuse_others(
    run: Run,
    splits: Splits,
    *,
    weights: str | None = None,
    model: str | None = None,
    options: Any = None,
    remedy: str = REMEDY,
    **facts: Any,
) -> None:
    """Refuse a directory with results of other data, networks, seed or blocks: rows of both would count as one.

    Args:
        run: the directory.
        splits: the images.
        weights: hash of those given.
        model: the network in one word.
        options: all that is said of how it is made.
        remedy: what the user can do, for the message.
        facts: what else `run.json` must agree with.
    """
    recorded = run.info()
    data, given = recorded.get("data", {}), recorded.get("weights", {}).get("given", {})
    pairs = {
        "data": (data.get("fingerprint"), splits.fingerprint),
        "test images": (data.get("test"), len(splits.test)),
        "network": (recorded.get("model", {}).get("name"), model),
        "options": (recorded.get("network", {}).get("model"), options),
        "weights": (given.get("sha256"), weights),
        **{name: (recorded.get(name), value) for name, value in facts.items()},
        "examples": (data.get("examples"), splits.examples),
    }
    if data.get("examples") is None and (others := splits.unknown(run.ledger.examples())):
        pairs["test images"] = (f"example {min(others)} among them", "this choice")
    for what, (before, now) in pairs.items():
        if None not in (before, now) and before != now:
            raise RecipeError(
                f"{run.path}: holds results of other {what} ({_brief(before)}, not {_brief(now)}); {remedy}"
            )


def _brief(value: Any) -> str:
    """A fact for a message; of a hash, its first digits."""
    text = str(value)
    return text[:12] if re.fullmatch("[0-9a-f]{16,}", text) else text


def same_outputs(
    run: Run, label: str, digest: str, model: Classifier, splits: Splits, *, remedy: str = REMEDY
) -> dict[str, Any]:
    """What a network computes, for `run.json`, once that is what these weights computed before.

    Raises:
        RecipeError: if the outputs differ by more than rounding.
    """
    outputs = outputs_of(model, splits.test)
    recorded = run.info().get("weights", {}).get(label, {})
    before = recorded.get("outputs") if recorded.get("sha256", digest) == digest else None
    if not before:
        return outputs.facts()
    difference = outputs.differs_from(before)
    if difference is not None:
        raise RecipeError(
            f"{run.path}: holds results of a network that computes something else: with the same weights ({label}) its "
            f"outputs differ by {difference:.2g} of the largest; restore its code, {remedy}"
        )
    return dict(before)
