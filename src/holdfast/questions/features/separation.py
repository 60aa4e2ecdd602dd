r"""How far apart classes lie in a space of features: three numbers with bootstrap errors.

For features :math:`q_i` with labels :math:`y_i`, :math:`d` the Euclidean distance, :math:`n_c` the images of class
:math:`c`, :math:`m_c` its centroid and :math:`m` the mean of all:

.. math::
    s_i = \frac{b_i - a_i}{\max(a_i, b_i)}, \qquad
    a_i = \frac{1}{n_{y_i} - 1} \sum_{j \ne i,\ y_j = y_i} d(q_i, q_j), \qquad
    b_i = \min_{c \ne y_i} \frac{1}{n_c} \sum_{y_j = c} d(q_i, q_j)

is the silhouette, an image is right for the nearest centroid if

.. math:: d(q_i, m_{y_i}^{-i}) < \min_{c \ne y_i} d(q_i, m_c)

with the centroid :math:`m^{-i}` of the other images of its class (ties are wrong), and

.. math:: \frac{\sum_c n_c \|m_c - m\|^2}{\sum_i \|q_i - m_{y_i}\|^2}

is the ratio of the scatter between classes to that within. All three stay the same when features are moved, turned or
scaled. Without any separation they are about 0, one over the number of classes, and
:math:`(K - 1) / (N - K)`.

Reference:
    Rousseeuw, Silhouettes: A Graphical Aid to the Interpretation and Validation of Cluster Analysis, 1987.
    Calinski, Harabasz, A Dendrite Method for Cluster Analysis, 1974 (the ratio times :math:`(N - K) / (K - 1)`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.rng import Streams

BLOCK = 512
"""Rows of a matrix of distances that are held at a time."""

ROUNDING = 1e-12
"""Distances that differ by less than this share of a feature's length are equal."""


@dataclass(frozen=True)
class Estimate:
    """A number of a sample of images.

    Args:
        value: of the sample.
        error: standard deviation over bootstrap samples of the images; 0 without any.
    """

    value: float
    error: float


@dataclass(frozen=True)
class Separation:
    """How far apart classes lie.

    Args:
        silhouette: mean over the images, -1 to 1.
        nearest_centroid: share of the images nearest to the centroid of their class.
        reference_centroid: the same with the centroids of the reference features.
        scatter_ratio: scatter between classes over that within.
    """

    silhouette: Estimate
    nearest_centroid: Estimate
    reference_centroid: Estimate
    scatter_ratio: Estimate


def separation(
    features: Tensor, labels: Tensor, *, reference: Tensor | None = None, resamples: int = 100, seed: int = 0
) -> Separation:
    """The three numbers, each with its bootstrap error.

    Args:
        features: (N, F).
        labels: (N,).
        reference: other features of the same images, (N, F), whose centroids judge too; None for the features
            themselves. An image is never judged by a centroid that its own reference is part of.
        resamples: bootstrap samples, drawn within each class.
        seed: of the samples.

    Raises:
        ValueError: if there are fewer than two classes, or no class has two images.
    """
    features = features.double()
    classes, members = torch.unique(labels, return_counts=True)
    if len(classes) < 2 or int(members.max()) < 2:
        got = f"{len(classes)} classes in {len(labels)} images"
        raise ValueError(f"separation: expected two or more classes, one of them with two or more images; got {got}")
    labels = torch.searchsorted(classes, labels)
    counts = resampled(labels, resamples, seed).to(features.device)
    judged = features if reference is None else reference.double()
    return Separation(
        _estimate(silhouette(features, labels, counts)),
        _estimate(nearest_centroid(features, labels, counts, features)),
        _estimate(nearest_centroid(features, labels, counts, judged)),
        _estimate(scatter_ratio(features, labels, counts)),
    )


def resampled(labels: Tensor, resamples: int, seed: int) -> Tensor:
    """How often each image stands in each sample, (1 + resamples, N): once in the first, then drawn within classes."""
    counts = torch.zeros(resamples, len(labels), dtype=torch.float64)
    draws = Streams(seed, "separation", resamples)
    for label in range(int(labels.max()) + 1):
        rows = (labels == label).nonzero()[:, 0].cpu()
        picks = draws.split(f"class {label}").integers(len(rows), (len(rows),))
        counts[:, rows] = counts[:, rows].scatter_add(1, picks, torch.ones(picks.shape, dtype=torch.float64))
    return torch.cat((torch.ones(1, len(labels), dtype=torch.float64), counts))


def silhouette(features: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """Mean silhouette of each weighted sample, (R,); 0 for an image alone in its class, copies of itself not counted.

    Args:
        features: (N, F).
        labels: 0 to K - 1, (N,).
        counts: how often each image stands in each sample, (R, N).
    """
    one_hot, centred = F.one_hot(labels).to(features), features - features.mean(0)
    total = features.new_zeros(len(counts))
    for rows in _blocks(len(features)):
        far, own = torch.cdist(centred[rows], centred), labels[rows, None]
        for number, count in enumerate(counts):
            members = count @ one_hot
            sums = far @ (count[:, None] * one_hot)
            others = members[own[:, 0]] - count[rows]
            within = sums.gather(1, own)[:, 0] / others
            nearest = (sums / members).nan_to_num(torch.inf, torch.inf).scatter(1, own, torch.inf).amin(1)
            value = ((nearest - within) / torch.maximum(nearest, within)).nan_to_num(0.0)
            total[number] += count[rows] @ torch.where(others > 0, value, 0.0)
    return total / counts.sum(1)


def nearest_centroid(features: Tensor, labels: Tensor, counts: Tensor, reference: Tensor) -> Tensor:
    """Share of each weighted sample that lies nearest to the centroid of the other images of its class, (R,).

    Images without another of their class in a sample are not judged in it.

    Args:
        features: what is judged, (N, F).
        labels: 0 to K - 1, (N,).
        counts: how often each image stands in each sample, (R, N).
        reference: what centroids are made of, (N, F).
    """
    one_hot, shares, own = F.one_hot(labels).to(features), [], labels[:, None]
    size, middle = torch.linalg.vector_norm(features, dim=1), reference.mean(0)
    features, reference = features - middle, reference - middle  # far from the origin digits would be lost
    for count in counts:
        weighted = count[:, None] * one_hot
        sums, members = weighted.T @ reference, weighted.sum(0)
        others = members[labels] - count
        home = (sums[labels] - count[:, None] * reference) / others[:, None]
        centroids = sums / members[:, None]
        far = torch.cdist(features, centroids, compute_mode="donot_use_mm_for_euclid_dist").nan_to_num(torch.inf)
        nearest = far.scatter(1, own, torch.inf).amin(1)
        # What differs by rounding alone is a tie, and a tie is no answer.
        right = torch.linalg.vector_norm(features - home, dim=1) + ROUNDING * size < nearest
        judged = count * (others > 0)
        shares.append((judged * right).sum() / judged.sum())
    return torch.stack(shares)


def scatter_ratio(features: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
    """Scatter between classes over scatter within, of each weighted sample, (R,)."""
    one_hot, ratios = F.one_hot(labels).to(features), []
    for count in counts:
        weighted = count[:, None] * one_hot
        members = weighted.sum(0)
        centroids = (weighted.T @ features) / members.clamp_min(1)[:, None]
        middle = (count @ features) / count.sum()
        between = members @ (centroids - middle).square().sum(1)
        within = count @ (features - centroids[labels]).square().sum(1)
        ratios.append(between / within)
    return torch.stack(ratios)


def _estimate(values: Tensor) -> Estimate:
    return Estimate(float(values[0]), float(values[1:].std()) if len(values) > 2 else 0.0)


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, first + BLOCK) for first in range(0, count, BLOCK))
