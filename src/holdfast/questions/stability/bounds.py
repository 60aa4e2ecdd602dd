r"""What stability under noise says of curvature: theorem 6.1, evaluated for each example; without torch.

.. math::
    \sum_i \lambda_i^2 &\le \frac{8}{\sigma^4}
        \bigl(\eta\, \|W\|_{2,\infty}^2\, \delta^2 + 4 (1 - \eta)\, K_{\max}^2\bigr) \\
    2 \sum_i \lambda_i^2 + \Bigl(\sum_i |\lambda_i|\Bigr)^2 &\ge \frac{4}{\sigma^4}
        \bigl((1 - \eta)\, (\ell_{out} - \ell)^2 - \sigma^2 \|\nabla\ell\|^2\bigr)

The theorem is exact for losses that are exactly quadratic, where (equation 22)

.. math:: E\,(\ell(x + \varepsilon) - \ell(x))^2
    = \sigma^2 \|\nabla\ell\|^2 + \tfrac14 \sigma^4 \bigl(2 \sum_i \lambda_i^2 + (\mathrm{tr}\, H)^2\bigr).

For others it is an approximation; `quadratic_share` says how good. :math:`K_{\max}` is to bound all logits of all
inputs; only the largest one seen is available. The lower bound is often negative, and then vacuous.

Reference:
    Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection, TMLR,
    theorem 6.1 and appendix E.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from holdfast.statistics import Spread, lower_bounds, spread

Numbers = NDArray[np.float64]


def upper_bound(eta: Numbers, *, delta: float, sigma: float, longest_row: float, largest_logit: float) -> Numbers:
    """Statement 1 of the theorem: the sum of squared eigenvalues is at most this."""
    near, far = (longest_row * delta) ** 2, 4 * largest_logit**2
    return 8 / sigma**4 * (eta * near + (1 - eta) * far)


def lower_bound(eta: Numbers, loss_gap: Numbers, gradient_norm: Numbers, *, sigma: float) -> Numbers:
    """Statement 2: twice the sum of squares plus the square of the sum of magnitudes is at least this."""
    return 4 / sigma**4 * ((1 - eta) * loss_gap**2 - (sigma * gradient_norm) ** 2)


def loss_change(gradient_norm: Numbers, curvature: Numbers, trace_square: Numbers, *, sigma: float) -> Numbers:
    """Equation 22: the mean squared change of a quadratic loss under the noise."""
    return (sigma * gradient_norm) ** 2 + sigma**4 / 4 * (2 * curvature + trace_square)


def stable_share(inside: Numbers, draws: int, *, alpha: float = 0.05) -> tuple[Numbers, Numbers]:
    """Clopper-Pearson ends of eta from the draws inside: each lies beyond the true one with probability alpha / 2."""
    trials = np.full_like(inside, draws)
    low = lower_bounds(inside, trials, alpha=alpha / 2)
    return low, 1 - lower_bounds(trials - inside, trials, alpha=alpha / 2)


@dataclass(frozen=True)
class AtDelta:
    r"""Stability and the theorem at one distance, over the examples.

    Args:
        delta: :math:`\delta`.
        eta: mean share of draws inside.
        loss_gap: mean :math:`|\ell_{out} - \ell|`, of the examples with a draw outside; None without any.
        outside: how many examples have a draw outside.
        below_upper: share of the examples whose measured curvature is at most the upper bound, at the end of the
            interval of eta that makes the bound largest.
        looseness: median of upper bound over measured curvature; None where all curvature is 0.
        above_lower: share whose measured left side is at least the lower bound, at the upper end of eta.
        vacuous: share whose lower bound is negative or 0 (at the estimated eta).
    """

    delta: float
    eta: Spread
    loss_gap: Spread | None
    outside: int
    below_upper: float
    looseness: float | None
    above_lower: float
    vacuous: float


def stability_curve(
    rows: pl.DataFrame, *, deltas: Sequence[float], draws: int, sigma: float, longest_row: float
) -> list[AtDelta]:
    """Definition 6.1 and theorem 6.1 at each distance, from the rows of the question `stability`.

    Args:
        rows: of the examples.
        deltas: distances, as measured.
        draws: noisy copies of each example.
        sigma: deviation of the noise.
        longest_row: of the head's matrix.
    """
    inside, outside = (np.array(rows[name].to_list(), dtype=np.float64) for name in ("inside", "loss_outside"))
    largest = float(np.max(_numbers(rows, "largest_logit")))

    def bounded(delta: float, eta: Numbers) -> Numbers:
        return upper_bound(eta, delta=delta, sigma=sigma, longest_row=longest_row, largest_logit=largest)

    points = []
    for place, delta in enumerate(deltas):
        low, high = stable_share(inside[:, place], draws)
        upper = np.maximum(bounded(delta, low), bounded(delta, high))
        points.append(_at_delta(rows, delta, inside[:, place] / draws, high, outside[:, place], upper, sigma))
    return points


def _at_delta(
    rows: pl.DataFrame, delta: float, eta: Numbers, most: Numbers, outside: Numbers, upper: Numbers, sigma: float
) -> AtDelta:
    """One distance; `most` is the upper end of eta, `upper` the upper bound of the curvature."""
    curvature, slopes = _numbers(rows, "curvature"), _numbers(rows, "gradient_norm")
    gap = np.abs(outside - _numbers(rows, "loss"))
    moved = ~np.isnan(gap)
    lower = lower_bound(most, np.where(moved, gap, 0.0), slopes, sigma=sigma)
    estimated = lower_bound(eta, np.where(moved, gap, 0.0), slopes, sigma=sigma)
    # The sum of magnitudes is not measured; it is at least the trace's magnitude, and the root of the sum of squares.
    left = 2 * curvature + np.maximum(curvature, trace_square(rows))
    bent = curvature > 0
    return AtDelta(
        delta=delta,
        eta=spread(eta.tolist()),
        loss_gap=spread(gap[moved].tolist()) if moved.any() else None,
        outside=int(moved.sum()),
        below_upper=float(np.mean(curvature <= upper)),
        looseness=float(np.median(upper[bent] / curvature[bent])) if bent.any() else None,
        above_lower=float(np.mean(left >= lower)),
        vacuous=float(np.mean(estimated <= 0)),
    )


def trace_square(rows: pl.DataFrame) -> Numbers:
    """The square of the trace without the bias of its error, not below 0."""
    return np.maximum(_numbers(rows, "trace") ** 2 - _numbers(rows, "trace_error") ** 2, 0.0)


def quadratic_share(rows: pl.DataFrame, *, sigma: float) -> float | None:
    """Median ratio of the measured mean squared change of the loss to that of its quadratic part; 1 for a quadratic.

    None where the loss of every example is flat.
    """
    expected = loss_change(
        _numbers(rows, "gradient_norm"), _numbers(rows, "curvature"), trace_square(rows), sigma=sigma
    )
    some = expected > 0
    return float(np.median(_numbers(rows, "change")[some] / expected[some])) if some.any() else None


def _numbers(rows: pl.DataFrame, column: str) -> Numbers:
    return rows[column].to_numpy().astype(np.float64)
