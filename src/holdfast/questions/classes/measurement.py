r"""How compact the classes are in feature space, and how far from the decision hyperplanes.

With features :math:`q`, a linear head :math:`z = W q + b` and :math:`m_c` the mean of the features of class :math:`c`:

.. math:: \mathrm{dispersion}(c) = \max_{x, x' \in c} \|q(x) - q(x')\|, \qquad
          \mathrm{margin}(c) = \min_{x \in c}\, \min_{i \ne c} \frac{(z_c - z_i)(q(x))}{\|W_c - W_i\|}

The paper's margin (definition 5.1) is a distance without sign. Here it has one: it is the same for examples that are
right, and negative for those that are wrong, by how far they are on the wrong side. So a class with a wrong example has
no positive margin. Where two rows of :math:`W` are equal there is no hyperplane, and the pair is left out.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
    definitions 3.1 and 5.1, propositions 5.1 and 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.errors import ModelError
from holdfast.models.head import LinearHead, check_linear, check_whole, linear_head
from holdfast.modes import in_evaluation_mode
from holdfast.objectives.centroids import class_sums, means
from holdfast.objectives.discriminative import signed_distances
from holdfast.questions.classes.compactness import intermediate_divergence_bound, mapping_errors, smallest_share

PAIRS = 2**22
"""Distances that are in memory at once."""

SLACK = 1e-9
"""Share by which rounding may miss a proposition."""


@dataclass(frozen=True)
class ClassGeometry:
    r"""Of each class that has examples, in the order of `classes`; float64.

    Args:
        classes: labels, (C,).
        count: examples, (C,).
        dispersion: largest distance of two examples, (C,).
        margin: smallest signed distance of an example to a hyperplane, (C,).
        mean_margin: mean over the examples of that distance, (C,).
        radius: largest distance of an example to the centroid, (C,).
        within: how many examples are within :math:`\delta_v` of the centroid, (C,).
        centroid_margin: smallest signed distance of the centroid to a hyperplane, (C,).
        centroid_norm: length of the centroid, (C,).
        centroid_distance: distances of the centroids, (C, C).
        nearest_other: smallest distance of an example to one of another class, (C,); infinite for a class alone.
        largest_norm: length of the longest features of all.
    """

    classes: Tensor
    count: Tensor
    dispersion: Tensor
    margin: Tensor
    mean_margin: Tensor
    radius: Tensor
    within: Tensor
    centroid_margin: Tensor
    centroid_norm: Tensor
    centroid_distance: Tensor
    nearest_other: Tensor
    largest_norm: float


@dataclass(frozen=True)
class Proposition:
    """What a proposition says of these features.

    Args:
        name: its number in the paper.
        premise: whether it applies.
        conclusion: whether what it promises is so; it must be, where the premise holds.
    """

    name: str
    premise: bool
    conclusion: bool


def class_record(
    model: nn.Module, x: Tensor, y: Tensor, *, delta_v: float, delta_d: float, batch_size: int = 256
) -> dict[str, Any]:
    """What the question of classes keeps: the geometry, and what propositions and theorems conclude from it."""
    features, head = _features_and_head(model, x, batch_size)
    geometry = geometry_of(features, y, head.weight.detach(), head.detached_bias, delta_v=delta_v)
    radius, far = float(geometry.radius.max()), float(geometry.centroid_margin.min())
    tau, tau_low = smallest_share(geometry.within, geometry.count)
    bounds = mapping_errors(features, y, delta_v=delta_v)
    pairs = geometry.centroid_distance.clone().fill_diagonal_(math.inf)
    return {
        **vars(geometry),
        "propositions": [asdict(one) for one in propositions(geometry, delta_v, delta_d)],
        "measured": {
            "delta_v": radius,
            "delta_d": far,
            "propositions": [asdict(one) for one in propositions(geometry, radius, far)],
        },
        "mapping": [bound.value for bound in bounds],
        "mapping_least": min(bound.least for bound in bounds),
        "tau": tau,
        "tau_low": tau_low,
        "apart": bool((pairs > 2 * delta_v).all()),
        "divergence": intermediate_divergence_bound(tau),
        "divergence_low": intermediate_divergence_bound(tau_low),
    }


@in_evaluation_mode
def class_geometry(
    model: nn.Module, x: Tensor, y: Tensor, *, delta_v: float = 0.5, batch_size: int = 256
) -> ClassGeometry:
    r"""Measure the classes of labelled images in the feature space of a network.

    Args:
        model: with `features` and a linear `head`; used in evaluation mode.
        x: images, (N, ...).
        y: labels, (N,).
        delta_v: :math:`\delta_v`, for `within`.
        batch_size: images in a pass.

    Raises:
        ModelError: where the logits are not a linear function of finite features.
    """
    features, head = _features_and_head(model, x, batch_size)
    return geometry_of(features, y, head.weight.detach(), head.detached_bias, delta_v=delta_v)


def geometry_of(
    features: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None = None, *, delta_v: float = 0.5
) -> ClassGeometry:
    r"""Measure the classes of labelled features, exactly: every pair of examples is looked at, a block at a time.

    Args:
        features: :math:`q`, (N, F).
        y: labels, (N,).
        weight: :math:`W` of the head, (K, F).
        bias: :math:`b`, (K,) or None.
        delta_v: :math:`\delta_v`, for `within`.
    """
    if len(features) == 0:
        raise ValueError("class geometry: expected features of at least one example, got none")
    q = features.double()
    classes, own = torch.unique(y, return_inverse=True)
    sums, count = class_sums(q, own, len(classes))
    centroids = means(sums, count)
    apart = torch.linalg.vector_norm(q - centroids[own], dim=1)
    margin = signed_distances(q, y, weight, bias).amin(1)
    farthest, nearest = _extremes(q, own)

    def of_each(values: Tensor, how: str) -> Tensor:
        return values.new_empty(len(classes)).scatter_reduce(0, own, values, how, include_self=False)

    return ClassGeometry(
        classes=classes,
        count=count.long(),
        dispersion=of_each(farthest, "amax"),
        margin=of_each(margin, "amin"),
        mean_margin=of_each(margin, "mean"),
        radius=of_each(apart, "amax"),
        within=class_sums((apart <= delta_v).double()[:, None], own, len(classes))[0][:, 0].long(),
        centroid_margin=signed_distances(centroids, classes, weight, bias).amin(1),
        centroid_norm=torch.linalg.vector_norm(centroids, dim=1),
        centroid_distance=torch.cdist(centroids, centroids, compute_mode="donot_use_mm_for_euclid_dist"),
        nearest_other=of_each(nearest, "amin"),
        largest_norm=float(torch.linalg.vector_norm(q, dim=1).max()),
    )


def _features_and_head(model: nn.Module, x: Tensor, batch_size: int) -> tuple[Tensor, LinearHead]:
    head = linear_head(model, "class geometry")
    check_linear(head, "class geometry")
    check_whole(model, head, x[:batch_size], "class geometry")
    return torch.cat([*features_by_batch(model, x, batch_size=batch_size)]), head


@in_evaluation_mode
def features_by_batch(model: nn.Module, x: Tensor, *, batch_size: int = 256) -> Iterator[Tensor]:
    """Features of many images, a batch at a time; memory is that of a batch and what the caller keeps."""
    head = linear_head(model, "class geometry")
    for first in range(0, len(x), batch_size):
        with torch.no_grad():
            features = head.features(x[first : first + batch_size])
        if bad := int((~features.isfinite()).any(1).sum()):
            raise ModelError(f"the model: expected finite features, has others for {bad} of {len(features)} images")
        yield features


def propositions(geometry: ClassGeometry, delta_v: float, delta_d: float) -> tuple[Proposition, ...]:
    r"""Propositions 5.1 and 5.2 on these features, whose centroids are those of the features themselves.

    - 5.1: if :math:`L_{compact} = 0`, dispersions are at most :math:`2\delta_v`.
    - 5.2.1: if :math:`L_{margin} = 0` too and :math:`\delta_d > \delta_v`, margins are at least
      :math:`\delta_d - \delta_v`.
    - 5.2.2: if even :math:`\delta_d > 2\delta_v`, examples of a class are nearer to each other than any two of
      different classes.

    Args:
        geometry: what was measured.
        delta_v: :math:`\delta_v`. With the largest `radius` the first premise holds on any features.
        delta_d: :math:`\delta_d`. With the smallest `centroid_margin` the second does.
    """
    compact = bool((geometry.radius <= delta_v).all())
    far = compact and bool((geometry.centroid_margin >= delta_d).all())
    slack = SLACK * max(1.0, geometry.largest_norm)
    widest = float(geometry.dispersion.max())
    return (
        Proposition("5.1", compact, widest <= 2 * delta_v + slack),
        Proposition("5.2.1", far and delta_d > delta_v, float(geometry.margin.min()) >= delta_d - delta_v - slack),
        Proposition("5.2.2", far and delta_d > 2 * delta_v, widest < float(geometry.nearest_other.min()) + slack),
    )


def _extremes(q: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Distance of each example to the farthest of its class and to the nearest of the others, (N,) each.

    Products of matrices find the pairs; the distance itself is that of the difference, without their rounding.
    """
    q = q - q.mean(0)
    squares = q.square().sum(1)
    farthest, nearest = [], []
    together = max(1, PAIRS // len(q))
    for first in range(0, len(q), together):
        rows = torch.arange(first, min(first + together, len(q)), device=q.device)
        apart = squares[rows, None] + squares - 2 * q[rows] @ q.T
        same = own[rows, None] == own
        far = apart.masked_fill(~same, -torch.inf).argmax(1)
        close = apart.masked_fill(same, torch.inf).argmin(1)
        farthest.append(torch.linalg.vector_norm(q[rows] - q[far], dim=1))
        alone = same.all(1)
        nearest.append(torch.linalg.vector_norm(q[rows] - q[close], dim=1).masked_fill(alone, torch.inf))
    return torch.cat(farthest), torch.cat(nearest)
