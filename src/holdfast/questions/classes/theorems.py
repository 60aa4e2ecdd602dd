"""What propositions 5.1 and 5.2 and theorems 6.2 and 6.3 conclude about a network, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

CONCLUSIONS = {
    "5.1": "no class is wider than 2 δv",
    "5.2.1": "no example is nearer to a hyperplane than δd − δv",
    "5.2.2": "examples of one class are nearer to each other than examples of different classes",
}


def conclusions(settings: Mapping[str, Any], record: Mapping[str, Any]) -> Iterator[str]:
    """The propositions for the given and for the measured distances, then the theorems."""
    measured = record["measured"]
    yield from _propositions("given", settings["delta_v"], settings["delta_d"], record["propositions"], record)
    yield from _propositions("measured", measured["delta_v"], measured["delta_d"], measured["propositions"], record)
    yield _mapping_error(settings["delta_v"], record)
    yield _divergence(settings["delta_v"], record)


def _propositions(
    kind: str, delta_v: float, delta_d: float | None, propositions: Sequence[Mapping[str, Any]],
    record: Mapping[str, Any],
) -> Iterator[str]:  # fmt: skip
    distance = "no hyperplane" if delta_d is None else f"δd = {delta_d:.4g}"
    beginning = f"With the {kind} distances, δv = {delta_v:.4g} and {distance}, "
    applicable = [one for one in propositions if one["premise"]]
    if not applicable:
        yield beginning + f"no proposition applies: {_why_not(delta_v, delta_d, record)}."
    for one in applicable:
        holds = "holds" if one["conclusion"] else "is violated, which should be impossible (please report it)"
        yield beginning + f"proposition {one['name']} applies and {holds}: {CONCLUSIONS[one['name']]}."


def _why_not(delta_v: float, delta_d: float | None, record: Mapping[str, Any]) -> str:
    radius = max(record["radius"])
    if radius > delta_v:
        return f"an example is {radius:.4g} from its centroid"
    return "a centroid is too near to a hyperplane" if delta_d is not None else "there is no hyperplane"


def _mapping_error(delta_v: float, record: Mapping[str, Any]) -> str:
    value, least = min(record["mapping"]), record["mapping_least"]
    ball = f"2 δv = {2 * delta_v:.4g}"
    if value < 1:
        return f"Theorem 6.2 bounds the share outside a ball of radius {ball} by {value:z.4g} in the best class."
    remedy = (
        f"With features of these lengths it is above {least:.4g} for any radius and any number of images."
        if least >= 1
        else "More images or larger balls could change that."
    )
    return f"Theorem 6.2 is vacuous: its bound for a ball of radius {ball} is {value:z.4g} in the best class. {remedy}"


def _divergence(delta_v: float, record: Mapping[str, Any]) -> str:
    tau, low = record["tau"], record["tau_low"]
    share = f"in the worst class {100 * tau:.1f} % of the examples are within δv of the centroid"
    if not record["apart"]:
        return f"Theorem 6.3 does not apply: balls of radius δv = {delta_v:.4g} around two centroids intersect."
    if tau <= 0.5:
        return f"Theorem 6.3 does not apply: {share}, and more than half are needed."
    return (
        f"Theorem 6.3: {share}, so any two classes differ by at least {record['divergence']:.4g} nats "
        f"(Jensen-Shannon) in every layer; with 95 % confidence in that share ({100 * low:.1f} %) by "
        f"{record['divergence_low']:.4g}."
    )
