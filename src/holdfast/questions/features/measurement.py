r"""Features of every layer, clean and noisy: how well they separate the classes, and maps to look at.

The layers are the stages of a network, averaged over space (over tokens in a transformer), and the vector before the
linear head, the penultimate layer. The paper's claim that intermediate layers separate too when only the last is
trained to is then a row of numbers instead of an impression.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
    figures 1, 12 and 13 and section 7.5. Differs: clean and noisy images share a map, and every map has numbers beside
    it that are taken in the full space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from holdfast.corruptions.noise import GaussianNoise
from holdfast.errors import ModelError, RecipeError
from holdfast.modes import in_evaluation_mode
from holdfast.questions.features.embedding import MAPS, Embedded
from holdfast.questions.features.separation import Separation, separation
from holdfast.questions.question import Material, Record
from holdfast.rng import Streams, permutation, streams
from holdfast.show.numbers import rounded
from holdfast.types import Classifier, Corruption

if TYPE_CHECKING:
    from holdfast.questions.features import Features

PENULTIMATE = "penultimate"
PROBES = 16
"""Images that decide whether the last stage is the penultimate layer."""
NOISE = GaussianNoise(sigma=0.06)
"""The paper's, for CIFAR-10."""


@dataclass(frozen=True)
class Layer:
    """Features of one layer.

    Args:
        name: "stage 1", "stage 2", ..., "penultimate".
        clean: of the images, (N, F).
        noisy: of the same images with noise, (N, F).
    """

    name: str
    clean: Tensor
    noisy: Tensor


@dataclass(frozen=True)
class LayerMap:
    """What one layer does with the classes.

    Args:
        name: of the layer.
        size: numbers in a feature vector.
        clean: separation of the clean images.
        noisy: separation of the noisy ones; the reference are the clean features.
        maps: by name, of the images that are drawn.
    """

    name: str
    size: int
    clean: Separation
    noisy: Separation
    maps: Mapping[str, Embedded]


@in_evaluation_mode
def layers_of(model: Classifier, x: Tensor) -> dict[str, Tensor]:
    """Feature vectors of a batch by layer, each (N, F).

    A network without stages has only its penultimate layer. A stage that is the penultimate layer already (averaged,
    with no neck behind it) appears once.

    Raises:
        ModelError: if the model shows no features at all.
    """
    layers = _stages_and_last(model, x)
    last_stage = list(layers)[-2:-1]
    if last_stage and _same(layers[last_stage[0]], layers[PENULTIMATE]):
        del layers[last_stage[0]]
    return layers


def layer_names(model: Classifier, x: Tensor) -> list[str]:
    """Names of the layers of a network, as its first images show them: the same for any batch size."""
    return list(layers_of(model, x[:PROBES]))


@torch.no_grad()
def _stages_and_last(model: Classifier, x: Tensor) -> dict[str, Tensor]:
    features, stages = getattr(model, "features", None), getattr(model, "stages", None)
    if not callable(features):
        kind = type(model).__name__
        raise ModelError(f"the model: expected one that shows its features, with features(x) and head; got {kind}")
    each = {f"stage {n}": pooled(z) for n, z in enumerate(stages(x), 1)} if callable(stages) else {}
    return {**each, PENULTIMATE: pooled(features(x))}


def pooled(z: Tensor) -> Tensor:
    """The output of a layer as vectors, (N, F): averaged over space (N, F, ...), or over tokens (N, T, F)."""
    if z.dim() < 2:
        raise ModelError(f"the model: expected features of shape (N, F) or more, got {tuple(z.shape)}")
    if z.dim() == 3:
        return z.mean(1)
    return z if z.dim() == 2 else z.flatten(2).mean(2)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-6)


@in_evaluation_mode
def feature_layers(
    model: Classifier, x: Tensor, *, noise: Corruption = NOISE, batch_size: int = 256, rng: Streams | None = None
) -> list[Layer]:
    """Features of many images, clean and noisy, a batch at a time; the result does not depend on the batch size.

    Args:
        model: the network, used in evaluation mode.
        x: images, (N, ...).
        noise: any corruption.
        batch_size: images of a forward pass.
        rng: random streams of the images.

    Raises:
        ModelError: if there are no features, or they are not finite.
    """
    rng, parts, names = streams(rng, x), [], layer_names(model, x)
    for first in range(0, len(x), batch_size):
        here = slice(first, first + batch_size)
        noisy = noise(x[here], rng=rng[here])
        parts.append((_stages_and_last(model, x[here]), _stages_and_last(model, noisy)))
    joined = [Layer(name, *(torch.cat([part[side][name] for part in parts]) for side in (0, 1))) for name in names]
    for layer in joined:
        bad = int((~(layer.clean.isfinite().all(1) & layer.noisy.isfinite().all(1))).sum())
        if bad:
            raise ModelError(
                f"the model: expected finite features, {layer.name} has others for {bad} of {len(x)} images"
            )
    return joined


def feature_maps(
    layers: Sequence[Layer], labels: Tensor, *, maps: Sequence[str] = ("tsne",), points: int = 500,
    resamples: int = 100, seed: int = 0,
) -> Iterator[LayerMap]:  # fmt: skip
    """Numbers and maps of each layer, one after the other.

    Args:
        layers: as `feature_layers` returns them.
        labels: of the images, (N,).
        maps: names in `MAPS`.
        points: images that maps lay out, the first so many; the numbers are of all.
        resamples: bootstrap samples for the errors of the numbers.
        seed: of maps and samples.
    """
    for layer in layers:
        clean = separation(layer.clean, labels, resamples=resamples, seed=seed)
        noisy = separation(layer.noisy, labels, reference=layer.clean, resamples=resamples, seed=seed)
        drawn = {name: MAPS[name](layer.clean[:points], layer.noisy[:points], seed=seed) for name in maps}
        yield LayerMap(layer.name, layer.clean.shape[1], clean, noisy, drawn)


def layer_records(question: Features, material: Material, done: int) -> Iterator[Record]:
    """What the question of features keeps of each layer, without the first `done`.

    Raises:
        RecipeError: if the images have too few classes, or classes too few images.
    """
    chosen = permutation(len(material.x), material.seed, "features")[: question.images]
    x, y, index = (values[chosen.to(values.device)] for values in (material.x, material.y, material.index))
    layers = feature_layers(
        material.model, x, noise=question.noise or NOISE, batch_size=material.batch_size, rng=material.rng[chosen]
    )
    shared = {
        "layers": [layer.name for layer in layers],
        "example": index[: question.points].tolist(), "label": y[: question.points].tolist(),
    }  # fmt: skip
    try:
        for layer in feature_maps(
            layers[done:], y, maps=tuple(dict.fromkeys(question.maps)), points=question.points,
            resamples=question.resamples, seed=material.seed,
        ):  # fmt: skip
            yield {**_plain(layer), **shared}
    except ValueError as error:
        raise RecipeError(f"features: {error}") from error


def _plain(layer: LayerMap) -> dict[str, Any]:
    """Numbers and maps of a layer."""
    sides = {"clean": asdict(layer.clean), "noisy": asdict(layer.noisy)}
    maps = {
        name: {side: [list(map(rounded, axis)) for axis in getattr(each, side).T.tolist()] for side in sides}
        for name, each in layer.maps.items()
    }
    return {"name": layer.name, "size": layer.size, **sides, "maps": maps}
