"""What the answer of `holdfast analyse classes` means, in sentences; without torch, for command line and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PROMISES = {
    "5.1": "no class is wider than 2 delta_v",
    "5.2.1": "no example is nearer to a hyperplane than delta_d - delta_v",
    "5.2.2": "examples of one class are nearer to each other than examples of different classes",
}


def verdicts(settings: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """Propositions 5.1 and 5.2 with the wanted and the measured distances, then theorems 6.2 and 6.3."""
    wanted = (settings["delta_v"], settings["delta_d"])
    measured = result["measured"]
    return [
        *_propositions("wanted", *wanted, result["propositions"], result),
        *_propositions("measured", measured["delta_v"], measured["delta_d"], measured["propositions"], result),
        _mapping(settings, result),
        _divergence(settings, result),
    ]


def _propositions(
    kind: str, delta_v: float, delta_d: float | None, found: list[Mapping[str, Any]], result: Mapping[str, Any]
) -> Iterator[str]:
    distance = "none" if delta_d is None else f"{delta_d:.4g}"
    applying = [one for one in found if one["premise"]]
    said = f"With the {kind} distances, delta_v {delta_v:.4g} and delta_d {distance}, "
    if not applying:
        yield said + f"no proposition applies: {_why_not(delta_v, delta_d, result)}."
    for one in applying:
        holds = "holds" if one["conclusion"] else "FAILS, which contradicts its proof"
        yield said + f"proposition {one['name']} applies and {holds}: {PROMISES[one['name']]}."


def _why_not(delta_v: float, delta_d: float | None, result: Mapping[str, Any]) -> str:
    radius = max(result["radius"])
    if radius > delta_v:
        return f"an example is {radius:.4g} from its centroid"
    return "a centroid is too near to a hyperplane" if delta_d is not None else "there is no hyperplane"


def _mapping(settings: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    value, least = min(result["mapping"]), result["mapping_least"]
    ball = f"2 delta_v = {2 * settings['delta_v']:.4g}"
    if value < 1:
        return f"Theorem 6.2 bounds the share outside a ball of radius {ball} by {value:z.4g} in the best class."
    never = (
        f" For lengths as these it is above {least:.4g} for any radius and any number of images."
        if least >= 1
        else " More images, or larger balls, could change that."
    )
    return f"Theorem 6.2 is vacuous: its bound for a ball of radius {ball} is {value:z.4g} in the best class.{never}"


def _divergence(settings: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    tau, low = result["tau"], result["tau_low"]
    share = f"in the worst class {100 * tau:.1f} % of the examples are within delta_v of the centroid"
    if not result["apart"]:
        return (
            f"Theorem 6.3 says nothing: balls of radius delta_v = {settings['delta_v']:.4g} around two centroids meet."
        )
    if tau <= 0.5:
        return f"Theorem 6.3 says nothing: {share}, and more than half are needed."
    return (
        f"Theorem 6.3: {share}, so that any two classes differ by at least {result['divergence']:.4g} nats "
        f"(Jensen-Shannon) in every layer; with 95 % confidence in that share ({100 * low:.1f} %) by "
        f"{result['divergence_low']:.4g}."
    )
