r"""A classifier by the labels of the nearest training images.

.. math:: h_i(x) = 2 \sum_{k=1}^K w_k\, 1[y_k = i] - 1, \qquad \sum_k w_k = 1

over the :math:`K` images nearest to :math:`x` in the 2-norm, with each channel standardised.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

import torch
from torch import Tensor, nn

from holdfast.errors import RecipeError

BLOCK = 2**24
"""Distances that are in memory at once."""


class NearestNeighbours(nn.Module):
    r"""The oracle; logits lie in [-1, 1].

    Args:
        x: training images in [0, 1], (M, C, ...).
        y: their labels, (M,).
        classes: number of logits.
        k: number of neighbours.
        weights: `uniform`: equal; `distance`: :math:`\propto 1 / d`, only the images themselves where :math:`d = 0`;
            `soft`: :math:`\propto \exp(-d^2 / t)`, which has a gradient that attacks can follow.
        temperature: :math:`t` of `soft`, in squared standardised units; None: the median squared distance of an image
            to its `k`-th neighbour among the training images.
        search: `exact`, in blocks and double precision, or `faiss`, an extra, in single precision.

    Reference:
        Bai, Anderson, Sojoudi, Avoiding the Accuracy-Robustness Trade-off of Classifiers via Local Adaptive Smoothing,
        section 3 and appendix A.3.
    """

    images: Tensor
    labels: Tensor
    mean: Tensor
    std: Tensor
    temperature: Tensor

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        classes: int,
        *,
        k: int = 10,
        weights: Literal["uniform", "distance", "soft"] = "uniform",
        temperature: float | None = None,
        search: Literal["exact", "faiss"] = "exact",
    ) -> None:
        super().__init__()
        _check(x, y, k, weights, temperature, search)
        self.k, self.weights, self.classes, self.search = k, weights, classes, search
        dims = [0, *range(2, x.dim())]
        std, mean = torch.std_mean(x.double(), dims, correction=0, keepdim=True)
        self.register_buffer("mean", mean[0].to(x))
        self.register_buffer("std", std[0].where(std[0] > 0, 1.0).to(x))
        self.register_buffer("images", self._standardised(x.detach()))
        self.register_buffer("labels", y.detach().clone())
        self._index: Any = None
        width = 1.0 if weights != "soft" else self._usual_width() if temperature is None else temperature
        self.register_buffer("temperature", torch.tensor(width, dtype=x.dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K)."""
        z = self._standardised(x)
        indices = self.neighbours(x)
        if self.weights == "soft":
            square = (z[:, None] - self.images[indices]).square().sum(2)
            weight = torch.softmax(-square / self.temperature, dim=1)
        else:
            weight = self._weights(z.detach(), indices)
        ballots = nn.functional.one_hot(self.labels[indices], self.classes).to(x.dtype)
        votes = (weight[:, :, None] * ballots).sum(1)
        # Votes that are whole numbers are summed without rounding: equal ones stay equal.
        return 2 * votes / weight.sum(1, keepdim=True) - 1

    @torch.no_grad()
    def neighbours(self, x: Tensor) -> Tensor:
        """Indices of the nearest training images of each image, nearest first, (N, k)."""
        z = self._standardised(x)
        return self._by_faiss(z) if self.search == "faiss" else nearest(z, self.images, self.k)

    @torch.no_grad()
    def distances(self, x: Tensor, count: int) -> Tensor:
        """Distances to the nearest training images of each image, standardised, nearest first, (N, count), double."""
        z = self._standardised(x).double()
        apart = z[:, None] - self.images.double()[nearest(z, self.images, count)]
        lengths: Tensor = torch.linalg.vector_norm(apart, dim=2)
        return lengths.sort(1).values

    def _standardised(self, x: Tensor) -> Tensor:
        return ((x - self.mean) / self.std).flatten(1)

    def _weights(self, z: Tensor, indices: Tensor) -> Tensor:
        if self.weights == "uniform":
            return torch.ones_like(indices, dtype=z.dtype)
        apart = torch.linalg.vector_norm(z[:, None] - self.images[indices], dim=2)
        same = apart == 0
        return torch.where(same.any(1, keepdim=True), same.to(z.dtype), 1 / apart.where(~same, 1.0))

    def _usual_width(self) -> float:
        """Median squared distance of training images to their `k`-th neighbour."""
        some = self.images[:: max(1, len(self.images) // 256)]
        far = self.images[nearest(some, self.images, min(self.k + 1, len(self.images)))[:, -1]]
        width = float((some - far).square().sum(1).median())
        return width if width > 0 else 1.0

    def _by_faiss(self, z: Tensor) -> Tensor:
        if self._index is None:
            self._index = faiss_library().IndexFlatL2(z.shape[1])
            self._index.add(self.images.float().cpu().numpy())
        indices = self._index.search(z.float().cpu().numpy(), self.k)[1]
        return torch.from_numpy(indices).to(z.device)


def faiss_library() -> Any:
    """The package faiss.

    Raises:
        RecipeError: if it cannot be imported.
    """
    try:
        return importlib.import_module("faiss")
    except Exception as error:  # a broken binary extension may raise anything
        raise RecipeError(f"faiss: cannot import it ({error}); install holdfast[faiss], or search: exact") from error


def nearest(z: Tensor, points: Tensor, k: int) -> Tensor:
    """Indices of the k points nearest to each of z, nearest first, (N, k).

    Squared distances are products of matrices in double precision, a block at a time.
    """
    z, points = z.double(), points.double()
    lengths = points.square().sum(1)
    blocks = []
    rows = max(1, BLOCK // len(points))
    for first in range(0, len(z), rows):
        part = z[first : first + rows]
        apart = lengths - 2 * part @ points.T
        blocks.append(apart.topk(k, largest=False).indices)
    return torch.cat(blocks) if blocks else torch.zeros(0, k, dtype=torch.int64, device=z.device)


def _check(x: Tensor, y: Tensor, k: int, weights: str, temperature: float | None, search: str) -> None:
    if len(x) != len(y):
        raise ValueError(f"nearest neighbours: {len(x)} images and {len(y)} labels")
    if not 1 <= k <= len(x):
        raise ValueError(f"nearest neighbours: k must lie between 1 and the {len(x)} images, got {k}")
    if weights not in ("uniform", "distance", "soft"):
        raise ValueError(f"nearest neighbours: weights must be uniform, distance or soft, got {weights}")
    if weights == "soft" and k == 1 and len(x) > 1:
        raise ValueError("nearest neighbours: soft weights of one neighbour have no gradient; expected k of 2 or more")
    if search not in ("exact", "faiss"):
        raise ValueError(f"nearest neighbours: search must be exact or faiss, got {search}")
    check_temperature(temperature)


def check_temperature(temperature: float | None) -> None:
    """Refuse an invalid temperature; None stands for one to be computed."""
    if temperature is not None and not 0 < temperature < float("inf"):
        raise ValueError(f"nearest neighbours: temperature must be positive and finite, got {temperature}")
