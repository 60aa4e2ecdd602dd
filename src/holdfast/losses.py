r"""Per-example losses: logits (N, K) and labels (N,) to (N,). Attacks maximise them, training averages them.

`cross_entropy` also takes label distributions, (N, K).

:math:`z` are the logits, :math:`y` the label and :math:`z_{\pi_1} \ge z_{\pi_2} \ge \dots` the sorted logits.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.families import LOSSES as LOSSES
from holdfast.types import Loss


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    r""":math:`-\log \mathrm{softmax}(z)_y`; of label distributions, (N, K), as `soft_cross_entropy`."""
    return soft_cross_entropy(logits, y) if y.is_floating_point() else F.cross_entropy(logits, y, reduction="none")


def soft_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    r""":math:`-\sum_k q_k \log \mathrm{softmax}(z)_k` for label distributions :math:`q`, (N, K)."""
    return -(target * logits.log_softmax(1)).sum(1)


def margin(logits: Tensor, y: Tensor) -> Tensor:
    r""":math:`\max_{k \ne y} z_k - z_y`: positive exactly when the prediction is wrong."""
    return _best_other(logits, y) - _at(logits, y)


def difference_of_logits_ratio(logits: Tensor, y: Tensor) -> Tensor:
    r"""DLR, :math:`(\max_{k \ne y} z_k - z_y) / (z_{\pi_1} - z_{\pi_3})`: invariant to shift and scale of the logits.

    With fewer than four classes the denominator is uninformative, and the loss is `margin`.

    Reference:
        Croce, Hein, Reliable Evaluation of Adversarial Robustness with an Ensemble of Diverse Parameter-free Attacks,
        ICML 2020, arXiv:2003.01690, section 4.2 (there with the opposite sign inside, the same value).
    """
    if logits.shape[1] < 4:
        return margin(logits, y)
    top = logits.topk(3, dim=1).values
    return margin(logits, y) / (top[:, 0] - top[:, 2] + 1e-12)


def targeted_difference_of_logits_ratio(logits: Tensor, pairs: Tensor) -> Tensor:
    r"""Targeted DLR, :math:`(z_t - z_y) / (z_{\pi_1} - (z_{\pi_3} + z_{\pi_4}) / 2)`, for label and target, (N, 2).

    With fewer than four classes it is :math:`z_t - z_y`.

    Reference:
        Croce, Hein, ICML 2020, arXiv:2003.01690, equation 7 (there with the opposite sign inside, the same value).
    """
    rise = _at(logits, pairs[:, 1]) - _at(logits, pairs[:, 0])
    if logits.shape[1] < 4:
        return rise
    top = logits.topk(4, dim=1).values
    return rise / (top[:, 0] - (top[:, 2] + top[:, 3]) / 2 + 1e-12)


def kl_divergence(logits: Tensor, reference: Tensor) -> Tensor:
    r""":math:`\mathrm{KL}(p \,\|\, q) = \sum_k p_k \log (p_k / q_k)`, `reference` the logits of :math:`p`, (N, K)."""
    log_p, log_q = reference.log_softmax(1), logits.log_softmax(1)
    return (log_p.exp() * (log_p - log_q)).sum(1)


@dataclass(frozen=True)
class Towards:
    """The loss of a targeted attack: maximising it lowers `loss` at the target class."""

    loss: Loss

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        """Minus the loss at the target."""
        return -self.loss(logits, target)


def towards(loss: Loss) -> Towards:
    """Turn a loss that leads attacks away from a label into one that leads them towards it."""
    return Towards(loss)


def _at(logits: Tensor, y: Tensor) -> Tensor:
    return logits.gather(1, y[:, None]).squeeze(1)


def _best_other(logits: Tensor, y: Tensor) -> Tensor:
    if logits.shape[1] < 2:
        raise ValueError(f"a margin needs at least 2 classes, got logits of shape {tuple(logits.shape)}")
    return logits.scatter(1, y[:, None], -torch.inf).amax(1)
