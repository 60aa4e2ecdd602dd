"""`holdfast analyse classes`: dispersion and margin of every class in feature space."""

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import asking, examples
from holdfast.cli.networks import Ready
from holdfast.cli.output import echo
from holdfast.cli.screen import Bar, percent, table
from holdfast.errors import RecipeError

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.store import Answer
    from holdfast.models.head import LinearHead

DELTAS = {"delta_v": 0.5, "delta_d": 5.0}
"""Where neither the command nor the recipe says something: those of the paper."""


def ask(
    ready: Ready,
    quiet: bool,
    delta_v: Annotated[
        float | None,
        typer.Option("--delta-v", help="Distance to the centroid that counts as compact [recipe's, or 0.5]."),
    ] = None,
    delta_d: Annotated[
        float | None, typer.Option("--delta-d", help="Wanted distance of centroids to hyperplanes [recipe's, or 5].")
    ] = None,
) -> "Answer":
    """How compact the classes are before the last layer, how far from its hyperplanes, and what follows from it."""
    import torch

    from holdfast.analysis.class_geometry import features_by_batch
    from holdfast.analysis.store import write_answer
    from holdfast.models.head import check_linear, check_whole, linear_head

    settings = _deltas(ready, {"delta_v": delta_v, "delta_d": delta_d})
    seen = examples(ready, "classes", settings, {})
    if seen.question.result:
        return seen.question
    head = linear_head(seen.model, "analyse classes")
    check_linear(head, "analyse classes")
    found: list[Tensor] = []
    with Bar(quiet=quiet).stage(f"classes {ready.subjects[0].run}", "images") as show:
        check_whole(seen.model, head, seen.x[: ready.how.batch_size], "analyse classes")
        for part in features_by_batch(seen.model, seen.x, batch_size=ready.how.batch_size):
            found.append(part)
            show(sum(map(len, found)), len(seen.x), "")
        show(len(seen.x), len(seen.x), "distances of all pairs")
        names = {"names": [*ready.splits.classes]}
        result = names | measured(torch.cat(found), seen.y, head, **settings)
    answer = replace(seen.question, result=result)
    write_answer(ready.run.path, answer)
    return answer


def measured(features: "Tensor", y: "Tensor", head: "LinearHead", delta_v: float, delta_d: float) -> dict[str, Any]:
    """The answer in plain values; None where there is no hyperplane or no other class."""
    from holdfast.analysis.class_geometry import geometry_of, propositions
    from holdfast.analysis.compactness import intermediate_divergence_bound, mapping_errors, smallest_share

    found = geometry_of(features, y, head.weight.detach(), head.detached_bias, delta_v=delta_v)
    radius, far = float(found.radius.max()), float(found.centroid_margin.min())
    tau, low = smallest_share(found.within, found.count)
    mapping = mapping_errors(features, y, delta_v=delta_v)
    pairs = found.centroid_distance.clone().fill_diagonal_(math.inf)
    return {
        **{name: _plain(value) for name, value in vars(found).items()},
        "propositions": [asdict(one) for one in propositions(found, delta_v, delta_d)],
        "measured": {
            "delta_v": radius,
            "delta_d": _plain(far),
            "propositions": [asdict(one) for one in propositions(found, radius, far)],
        },
        "mapping": [one.value for one in mapping],
        "mapping_least": min(one.least for one in mapping),
        "tau": tau,
        "tau_low": low,
        "apart": bool((pairs > 2 * delta_v).all()),
        "divergence": intermediate_divergence_bound(tau),
        "divergence_low": intermediate_divergence_bound(low),
    }


def show(answer: "Answer") -> None:
    """A line for each class, then what follows."""
    from holdfast.analysis.class_verdicts import verdicts

    result, names = answer.result, answer.result["names"]
    columns = ["class", "images", "dispersion", "smallest margin", "mean margin", "within delta_v", "nearest centroid"]
    rows = []
    for place, label in enumerate(result["classes"]):
        others = [value for other, value in enumerate(result["centroid_distance"][place]) if other != place]
        rows.append([
            names[label], str(result["count"][place]), _number(result["dispersion"][place]),
            _number(result["margin"][place]), _number(result["mean_margin"][place]),
            percent(result["within"][place] / result["count"][place]), _number(min(others, default=None)),
        ])  # fmt: skip
    title = f"classes in feature space, {answer.settings['examples']} images, {answer.weights} weights"
    table(columns, rows, title=title)
    for sentence in verdicts(answer.settings, result):
        echo(sentence)


def _deltas(ready: Ready, said: dict[str, float | None]) -> dict[str, float]:
    """What was said, else what the recipe's objective has, else the paper's."""
    trained = _trained(ready)
    deltas = {name: float(trained.get(name, DELTAS[name])) if value is None else value for name, value in said.items()}
    if not (0 < deltas["delta_v"] < math.inf and 0 <= deltas["delta_d"] < math.inf):
        got = f"{deltas['delta_v']} and {deltas['delta_d']}"
        raise RecipeError(f"analyse classes: expected --delta-v above 0 and --delta-d from 0 on, got {got}")
    return deltas


def _trained(ready: Ready) -> dict[str, Any]:
    """Fields of the objective that the run was trained with; empty for a network from elsewhere."""
    from holdfast import files
    from holdfast.yaml_text import load_yaml

    file = ready.run.path / "recipe.yaml"
    said = load_yaml(files.read_checked(file)) if file.exists() else {}
    objective = said.get("train", {}).get("objective", {})
    fields: dict[str, Any] = objective.get("discriminative", {}) if isinstance(objective, dict) else {}
    return fields


def _plain(value: Any) -> Any:
    """Lists and numbers that JSON has."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:z.4g}"


command = asking(ask, show)
