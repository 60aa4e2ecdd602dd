"""SimBA: one coordinate of an orthonormal basis at a time, by scores alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from holdfast.attacks.search import Aim, Front, require_metric_threat
from holdfast.attacks.square import as_planes
from holdfast.frequency import dct_matrix
from holdfast.losses import cross_entropy
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams, streams
from holdfast.threat.shape import per_example
from holdfast.traits import Access
from holdfast.types import Classifier, Loss, Threat
from holdfast.wrappers import narrow


@dataclass(frozen=True, kw_only=True)
class SimBA:
    r"""Random coordinates, without repetition, each a step back or forth if the loss grows.

    .. math::
        \delta_{t+1} = \delta_t + a\,q_t, \qquad a \in \{-\alpha, +\alpha, 0\}, \qquad z_t = \Pi_{S(x)}(x + \delta_t)

    :math:`q_t` is a pixel, or a plane wave of the discrete cosine transform. The minus is tried first, and the plus
    where it fails: one or two queries per step. With the cross-entropy, the loss grows exactly when the probability of
    the true class drops. When all coordinates have been tried, a new random order begins.

    Args:
        threat: the set :math:`S`. The published attack has none, or linf in the DCT basis.
        steps: coordinates to try per example; the clean image costs one query more.
        step_size: :math:`\alpha`.
        basis: `pixel` or `dct`.
        frequencies: for `dct`, how many of the lowest frequencies of each axis to use; None means all.
        loss: per-example loss to climb.

    Reference:
        Guo et al., Simple Black-box Adversarial Attacks, ICML 2019, arXiv:1905.07121, algorithm 1.
    """

    access: ClassVar = Access.SCORES

    threat: Threat
    steps: int = 1000
    step_size: float = 0.2
    basis: Literal["pixel", "dct"] = "pixel"
    frequencies: int | None = None
    loss: Loss = cross_entropy

    def __post_init__(self) -> None:
        require_metric_threat("simba", self.threat)
        if self.steps < 1 or not self.step_size > 0:
            raise ValueError(f"steps and step_size must be positive, got {self.steps} and {self.step_size}")
        if self.basis not in ("pixel", "dct"):
            raise ValueError(f"basis must be pixel or dct, got {self.basis!r}")
        if self.frequencies is not None and (self.basis != "dct" or self.frequencies < 1):
            raise ValueError(f"frequencies: a positive number for the basis dct alone, got {self.frequencies}")

    @torch.no_grad()
    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The best point found for each example."""
        front = Front(model, x, Aim.of(self.loss, y, target), streams(rng, x).split("simba"), leave=True)
        front.look(x)
        if not len(front):
            return front.best_points
        best = front.value[~front.lost]
        delta = torch.zeros_like(front.x)
        basis = self._basis(front.x)
        order = torch.empty(len(front), 0, dtype=torch.int64, device=x.device)
        for _ in range(self.steps):
            if not order.shape[1]:
                order = front.rng.uniform(x.new_empty(len(front), basis.count, dtype=torch.float64)).argsort(1)
            move = self.step_size * basis.vectors(order[:, 0])
            delta, best, stay = self._try(front, delta, best, move)
            order = order[:, 1:]
            if stay is not None:
                delta, best, order = delta[stay], best[stay], order[stay]
            if not len(front):
                break
        return front.best_points

    def _try(self, front: Front, delta: Tensor, best: Tensor, move: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Minus, then plus for those whom it did not help; what is better is kept."""
        tried = delta - move
        z = self.threat.project(front.x + tried, front.x)
        logits = front.model(z)
        values = front.aim.loss(logits, front.aim.labels)
        again = ~((values > best) | front.aim.reached(logits))
        if again.any():
            plus = (delta + move)[again]
            other = self.threat.project(front.x[again] + plus, front.x[again])
            answer = narrow(front.model, again)(other)
            tried[again], z[again] = plus, other
            logits = logits.index_put((again,), answer)
            values = values.index_put((again,), front.aim.loss(answer, front.aim.labels[again]))
        better = values > best
        stay = front.record(z, values, logits)
        return torch.where(per_example(better, delta), tried, delta), torch.where(better, values, best), stay

    def _basis(self, x: Tensor) -> _Pixels | _Waves:
        return _Pixels(x) if self.basis == "pixel" else _Waves(x, self.frequencies)


class _Pixels:
    """The coordinates themselves."""

    def __init__(self, like: Tensor) -> None:
        self._like = like
        self.count = like[0].numel()

    def vectors(self, index: Tensor) -> Tensor:
        """Basis vectors by number, as images (N, ...)."""
        rows = self._like.new_zeros(len(index), self.count)
        return rows.scatter_(1, index[:, None], 1).view(-1, *self._like.shape[1:])


class _Waves:
    """Plane waves of the cosine transform of each channel, the lowest `frequencies` of each axis."""

    def __init__(self, like: Tensor, frequencies: int | None) -> None:
        _, channels, height, width = as_planes(like[:1]).shape
        self._shape = like.shape[1:]
        self._vertical = dct_matrix(height, like)[:frequencies]
        self._horizontal = dct_matrix(width, like)[:frequencies]
        self._channels = torch.eye(channels, dtype=like.dtype, device=like.device)
        self.count = channels * len(self._vertical) * len(self._horizontal)

    def vectors(self, index: Tensor) -> Tensor:
        """Basis vectors by number, as images (N, ...)."""
        columns = self._horizontal[index % len(self._horizontal)]
        index = index // len(self._horizontal)
        rows = self._vertical[index % len(self._vertical)]
        channel = self._channels[index // len(self._vertical)]
        return torch.einsum("nc,nh,nw->nchw", channel, rows, columns).reshape(-1, *self._shape)
