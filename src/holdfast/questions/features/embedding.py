"""Maps of features to two dimensions, clean and noisy in the same map so that places can be compared.

PCA takes its axes from the clean features and shows both along them. t-SNE and UMAP know no new points, so both are
laid out together: a clean and a noisy image in the same place have like features. Distances in a map of t-SNE or UMAP
mean little, which is why numbers of separation are never taken from a map.

Reference:
    van der Maaten, Hinton, Visualizing Data using t-SNE, JMLR 2008.
    McInnes, Healy, Melville, UMAP: Uniform Manifold Approximation and Projection, 2018, arXiv:1802.03426.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from holdfast.errors import RecipeError
from holdfast.rng import derive

PERPLEXITY = 30.0
"""Of t-SNE: neighbours that count; fewer where there are few points."""


@dataclass(frozen=True)
class Embedded:
    """A map.

    Args:
        clean: positions of the clean images, (N, 2), float64.
        noisy: positions of the same images with noise, (N, 2), float64.
    """

    clean: Tensor
    noisy: Tensor


def pca(clean: Tensor, noisy: Tensor, *, seed: int = 0) -> Embedded:
    """The two directions in which the clean features vary most; of each, the largest entry is positive.

    Args:
        clean: features, (N, F).
        noisy: features of the same images with noise, (N, F).
        seed: not used; nothing is random here.
    """
    clean, noisy = clean.double(), noisy.double()
    middle = clean.mean(0)
    axes = torch.linalg.svd(clean - middle, full_matrices=False).Vh[:2]
    axes = axes * axes.gather(1, axes.abs().argmax(1, keepdim=True)).sign()
    if len(axes) < 2:
        axes = torch.cat((axes, torch.zeros_like(axes)))
    return Embedded((clean - middle) @ axes.T, (noisy - middle) @ axes.T)


def tsne(clean: Tensor, noisy: Tensor, *, seed: int = 0) -> Embedded:
    """t-SNE of clean and noisy features together, started from their PCA."""
    from sklearn.manifold import TSNE

    points = 2 * len(clean)
    start = "pca" if clean.shape[1] > 1 else "random"
    perplexity = min(PERPLEXITY, (points - 1) / 3)
    return _together(TSNE(perplexity=perplexity, init=start, random_state=_state(seed, "tsne")), clean, noisy)


def umap(clean: Tensor, noisy: Tensor, *, seed: int = 0) -> Embedded:
    """UMAP of clean and noisy features together; needs the package umap-learn.

    Raises:
        RecipeError: if it cannot be imported.
    """
    return _together(umap_library().UMAP(random_state=_state(seed, "umap"), n_jobs=1), clean, noisy)


MAPS: dict[str, Callable[..., Embedded]] = {"tsne": tsne, "pca": pca, "umap": umap}
"""Maps by name."""


def umap_library() -> Any:
    """The package umap-learn.

    Raises:
        RecipeError: if it cannot be imported.
    """
    try:
        return importlib.import_module("umap")
    except Exception as error:  # a broken binary extension may raise anything
        raise RecipeError(
            f"umap: cannot import it ({error}); pip install umap-learn, or ask for tsne or pca"
        ) from error


def _together(method: Any, clean: Tensor, noisy: Tensor) -> Embedded:
    both = torch.cat((clean, noisy)).float().cpu()
    if not bool((both != both[0]).any()):  # nothing to lay out: a layer that is the same for all images
        return Embedded(*both.new_zeros(2, len(clean), 2, dtype=torch.float64))
    places = torch.as_tensor(method.fit_transform(both.numpy()), dtype=torch.float64)
    return Embedded(places[: len(clean)], places[len(clean) :])


def _state(seed: int, name: str) -> int:
    return derive(seed, name) & 0x7FFFFFFF
