"""How far the features of one network are from those of another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class EmbeddingDistance(Protocol):
    """A frozen dataclass; called with features of two networks, (N, F) each, and labels, (N,), it gives a scalar."""

    uses_labels: ClassVar[bool]

    def __call__(self, source: Tensor, witness: Tensor, y: Tensor) -> Tensor:
        """The distance of a batch."""
        ...


@dataclass(frozen=True, kw_only=True)
class RKD:
    r"""Relations between examples: distances of pairs and angles of triples.

    .. math:: w_d\, \frac1{N^2} \sum_{ij} h\Bigl(\frac{\|s_i - s_j\|}{\mu_s} - \frac{\|t_i - t_j\|}{\mu_t}\Bigr)
        + w_a\, \frac1{N^3} \sum_{ijk} h\bigl(\cos\angle s_i s_j s_k - \cos\angle t_i t_j t_k\bigr)

    :math:`h` is Huber's loss of threshold 1 and :math:`\mu` the mean distance of different points of the batch.

    Args:
        distance: :math:`w_d`.
        angle: :math:`w_a`.

    Reference:
        Park et al., Relational Knowledge Distillation, CVPR 2019, arXiv:1904.05068.
    """

    uses_labels: ClassVar[bool] = False

    distance: float = 25.0
    angle: float = 50.0

    def __post_init__(self) -> None:
        _weights(distance=self.distance, angle=self.angle)

    def __call__(self, source: Tensor, witness: Tensor, y: Tensor) -> Tensor:
        """The distance of a batch; labels are not used."""
        pairs = F.smooth_l1_loss(relative_distances(source), relative_distances(witness))
        triples = F.smooth_l1_loss(angles(source), angles(witness))
        return self.distance * pairs + self.angle * triples


def relative_distances(points: Tensor) -> Tensor:
    """Distances of all pairs in units of the mean one of different points, (N, N)."""
    squares = (points[:, None] - points[None]).square().sum(2)
    apart = squares > 0
    distances = torch.where(apart, squares, 1).sqrt() * apart  # the root has no slope at 0
    return distances / (distances.sum() / apart.sum().clamp(min=1)).clamp(min=torch.finfo(points.dtype).tiny)


def angles(points: Tensor) -> Tensor:
    """Cosines of the angles at the second of three points, (N, N, N); 0 where two of them are the same."""
    towards = F.normalize(points[:, None] - points[None], dim=2)
    return torch.einsum("ijd,kjd->ijk", towards, towards)


@dataclass(frozen=True, kw_only=True)
class EGA:
    r"""Correlations of examples: within the networks (edges) and across them (nodes).

    .. math:: w_n\, \|C_{st} - I\|_F + w_e\, \|C_{ss} - C_{tt}\|_F

    :math:`C` is Pearson's correlation of two feature vectors. The norms are not squared.

    Args:
        node: :math:`w_n`.
        edge: :math:`w_e`.

    Reference:
        Ma, Chen, Akata, Distilling Knowledge from Self-Supervised Teacher by Embedding Graph Alignment, BMVC 2022,
        arXiv:2211.13264.
    """

    uses_labels: ClassVar[bool] = False

    node: float = 1.0
    edge: float = 0.3

    def __post_init__(self) -> None:
        _weights(node=self.node, edge=self.edge)

    def __call__(self, source: Tensor, witness: Tensor, y: Tensor) -> Tensor:
        """The distance of a batch; labels are not used."""
        s, t = standardised(source), standardised(witness)
        nodes = _frobenius(s @ t.mT - torch.eye(len(s), dtype=s.dtype, device=s.device))
        return self.node * nodes + self.edge * _frobenius(s @ s.mT - t @ t.mT)


def standardised(points: Tensor) -> Tensor:
    """Feature vectors with mean 0 and length 1, whose products are correlations; 0 where all features are equal."""
    return F.normalize(points - points.mean(1, keepdim=True), dim=1)


def _frobenius(matrix: Tensor) -> Tensor:
    """The norm, with the slope 0 where it is 0."""
    square = matrix.square().sum()
    return torch.where(square > 0, square, 1).sqrt() * (square > 0)


@dataclass(frozen=True, kw_only=True)
class Hint:
    r"""The mean square of the differences of features.

    .. math:: \frac1{NF} \sum_{if} (s_{if} - t_{if})^2

    Reference:
        Romero et al., FitNets: Hints for Thin Deep Nets, ICLR 2015, arXiv:1412.6550.
    """

    uses_labels: ClassVar[bool] = False

    def __call__(self, source: Tensor, witness: Tensor, y: Tensor) -> Tensor:
        """The distance of a batch; labels are not used."""
        return F.mse_loss(source, witness)


@dataclass(frozen=True, kw_only=True)
class NCE:
    r"""Noise-contrastive estimation: features of one class are near each other across the networks, others are not.

    .. math:: -\frac1N \sum_i \Bigl( \frac1{|P_i|} \sum_{j \in P_i} \log p_{ij}
        + \frac1{|M_i|} \sum_{j \in M_i} \log(1 - p_{ij}) \Bigr), \qquad
        p_{ij} = \frac{e^{\cos(s_i, t_j) / \tau}}{\sum_k e^{\cos(s_i, t_k) / \tau}}

    :math:`P_i` are the examples of the batch with the label of example :math:`i`, itself included, :math:`M_i` the
    others.

    Args:
        temperature: :math:`\tau`.

    Reference:
        Chen et al., Distilling Audio-Visual Knowledge by Compositional Contrastive Learning, CVPR 2021,
        arXiv:2104.10955. Differs: in a batch of one class the second sum is 0, where public code has 0/0.
    """

    uses_labels: ClassVar[bool] = True

    temperature: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")

    def __call__(self, source: Tensor, witness: Tensor, y: Tensor) -> Tensor:
        """The distance of a batch."""
        shares = (F.normalize(source, dim=1) @ F.normalize(witness, dim=1).mT / self.temperature).log_softmax(1)
        same = (y[:, None] == y[None]).to(shares)
        # As in public code, which keeps the logarithm of an example that has all of the probability finite.
        away = (1 - shares.exp()).clamp(min=0).add(1e-6).log()
        near = (shares * same).sum(1) / same.sum(1)
        return -(near + (away * (1 - same)).sum(1) / (1 - same).sum(1).clamp(min=1)).mean()


def _weights(**weights: float) -> None:
    for name, weight in weights.items():
        if not 0 <= weight < math.inf:
            raise ValueError(f"{name} must be finite and not negative, got {weight}")
