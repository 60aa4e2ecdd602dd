"""`holdfast analyse features`: how well the layers of a network separate the classes, in numbers and maps."""

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.analyse.asking import About, about, asking
from holdfast.cli.output import echo
from holdfast.cli.screen import Bar, percent, table
from holdfast.errors import RecipeError, unknown

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.analysis.features import Layer, LayerMap
    from holdfast.analysis.store import Answer
    from holdfast.conduct import Ready
    from holdfast.data import Split
    from holdfast.types import Corruption

ONLY_LAST = "This network shows no stages, so that there are numbers of its penultimate layer alone."


def ask(
    ready: "Ready",
    quiet: bool,
    noise: Annotated[
        str, typer.Option("--noise", help="Any corruption, as a recipe says it.")
    ] = "gaussian_noise: 0.06",
    maps: Annotated[str, typer.Option("--maps", help="tsne, pca, umap; several with commas.")] = "tsne",
    images: Annotated[int, typer.Option("--images", min=4, help="Test images that the numbers are of.")] = 1000,
    points: Annotated[int, typer.Option("--points", min=2, max=2000, help="Of them in the maps.")] = 500,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap samples for the errors.")] = 100,
) -> "Answer":
    """How well each layer separates the classes of clean and noisy images, with maps to look at."""
    from holdfast.analysis.features import feature_maps
    from holdfast.analysis.store import write_answer
    from holdfast.recipe import describe
    from holdfast.rng import permutation
    from holdfast.types import Corruption

    names, corruption = _maps(maps), _noise(noise)
    settings = {
        "noise": describe(corruption, Corruption)[1], "maps": names, "images": images, "points": points,
        "resamples": resamples,
    }  # fmt: skip
    seen = about(ready, "features", settings, {"names": [], "layers": [], "example": [], "label": []})
    answer, known = seen.question, len(seen.question.result["layers"])
    if known and known == len(answer.result["names"]):
        return answer
    chosen = ready.splits.test.select(permutation(len(ready.splits.test), ready.seed, "features")[:images])
    with Bar(quiet=quiet).stage(f"features {ready.subjects[0].run}", "layers") as show:
        layers = _layers(seen, chosen, corruption, ready)
        drawn = {"example": chosen.index[:points].tolist(), "label": chosen.y[:points].tolist()}
        answer = replace(answer, result={**answer.result, **drawn, "names": [layer.name for layer in layers]})
        show(known, len(layers), layers[known].name)
        try:
            for found in feature_maps(
                layers[known:], chosen.y.to(seen.where.device), maps=names, points=points, resamples=resamples,
                seed=ready.seed,
            ):  # fmt: skip
                answer = replace(answer, result={**answer.result, "layers": [*answer.result["layers"], _plain(found)]})
                write_answer(ready.run.path, answer)
                show(len(answer.result["layers"]), len(layers), found.name)
        except ValueError as error:
            raise RecipeError(f"analyse features: {error}") from error
    return answer


def _layers(seen: About, chosen: "Split", noise: "Corruption", ready: "Ready") -> "list[Layer]":
    from holdfast.analysis.features import feature_layers
    from holdfast.rng import Streams

    x, rng = chosen.batch(slice(None))[0].to(seen.where), Streams(ready.seed, "features", chosen.index)
    return feature_layers(seen.model, x, noise=noise, batch_size=ready.how.batch_size, rng=rng)


def _maps(text: str) -> list[str]:
    """Maps by name, that can be drawn here; asked before any work is done."""
    from holdfast.analysis.embedding import MAPS, umap_library

    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in MAPS:
            raise RecipeError(f"--maps: {unknown(name, MAPS)}")
    if "umap" in names:
        umap_library()
    return names


def _noise(text: str) -> "Corruption":
    import yaml

    from holdfast.recipe import parse
    from holdfast.types import Corruption
    from holdfast.yaml_text import load_yaml

    try:
        said = load_yaml(text)
    except yaml.YAMLError:
        raise RecipeError(f"--noise: expected a corruption such as 'gaussian_noise: 0.06'; got {text!r}") from None
    corruption: Corruption = parse(Corruption, said, where=lambda path: f"--noise {'.'.join(path)}".strip())
    return corruption


def _plain(found: "LayerMap") -> dict[str, Any]:
    """What is kept of a layer; numbers that are none, such as the ratio of collapsed classes, are null."""
    sides = {
        side: {
            name: {key: value if math.isfinite(value) else None for key, value in number.items()}
            for name, number in asdict(getattr(found, side)).items()
        }
        for side in ("clean", "noisy")
    }
    drawn = {
        name: {side: _rounded(getattr(each, side)) for side in ("clean", "noisy")} for name, each in found.maps.items()
    }
    return {"name": found.name, "size": found.size, **sides, "maps": drawn}


def _rounded(places: "Tensor") -> list[list[float]]:
    """Coordinates with four digits: more cannot be seen."""
    return [[float(f"{value:z.4g}") for value in axis] for axis in places.T.tolist()]


def show(answer: "Answer") -> None:
    """The numbers of each layer, clean and noisy."""
    rows = []
    for layer in answer.result["layers"]:
        for side in ("clean", "noisy"):
            shares = [_written(layer[side][name], share=True) for name in ("nearest_centroid", "reference_centroid")]
            others = [_written(layer[side][name], share=False) for name in ("silhouette", "scatter_ratio")]
            rows.append([f"{layer['name']} ({layer['size']}), {side}", others[0], *shares, others[1]])
    title = f"{answer.settings['noise']}, {min(answer.settings['images'], answer.settings['examples'])} images, 95 %"
    columns = ["layer (size)", "silhouette", "nearest centroid", "clean centroid", "between / within"]
    table(columns, rows, title=title)
    if len(answer.result["names"]) == 1:
        echo(ONLY_LAST)


def _written(number: dict[str, float | None], *, share: bool) -> str:
    value, error = number["value"], number["error"]
    if value is None:
        return "none"
    if share:
        return f"{percent(value)} ± {196 * (error or 0):.1f}"
    return f"{value:z.3f} ± {1.96 * (error or 0):z.3f}"


command = asking(ask, show)
