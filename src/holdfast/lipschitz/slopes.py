"""The largest slopes of activations: how much longer each can make a difference, in every norm."""

from __future__ import annotations

import math
from collections.abc import Callable

from holdfast.lipschitz.rounding import double

SILU = 1.0998393202
r"""Largest slope of :math:`x\,\sigma(x)`, at :math:`x = 2.3993573` where :math:`x \tanh(x/2) = 2`; rounded up."""

GELU = 1.1289041452
r"""Largest slope of :math:`x\,\Phi(x)`: :math:`\Phi(\sqrt 2) + e^{-1}/\sqrt\pi`, at :math:`x = \sqrt 2`; rounded up."""

GELU_TANH = 1.1289930687
"""The same for the approximation by tanh, at 1.4185; rounded up."""

MISH = 1.0884981613
r"""Largest slope of :math:`x \tanh(\log(1 + e^x))`, at 1.4906; rounded up."""

SELU = 1.7580993409
"""Slope just left of 0, scale times alpha; rounded up."""


SIXTH = 0.16666667163372040
"""The sixth that torch multiplies with in the hard activations: that of float32, whatever the precision; rounded up."""


def _always(slope: float) -> Callable[..., float]:
    return lambda *_, **__: slope


ACTIVATIONS: dict[str, Callable[..., float]] = {
    "abs": _always(1),
    "celu": lambda alpha=1.0, inplace=False: 1.0 if alpha > 0 else math.inf,
    "clamp": _always(1),
    "elu": lambda alpha=1.0, inplace=False: max(1.0, abs(alpha)),
    "gelu": lambda approximate="none": {"none": GELU, "tanh": GELU_TANH}[approximate],
    "hardsigmoid": _always(SIXTH),
    "hardswish": _always(9 * SIXTH),
    "hardtanh": _always(1),
    "leaky_relu": lambda negative_slope=0.01, inplace=False: max(1.0, abs(negative_slope)),
    "logsigmoid": _always(1),
    "mish": _always(MISH),
    "prelu": lambda weight: max(1.0, float(double(weight).abs().amax())),
    "relu": _always(1),
    "relu6": _always(1),
    "selu": _always(SELU),
    "sigmoid": _always(0.25),
    "silu": _always(SILU),
    "softplus": lambda beta=1.0, threshold=20.0: 1.0 if beta > 0 and threshold >= 20 else math.inf,
    "softsign": _always(1),
    "tanh": _always(1),
}
"""Largest slope of each activation, as a function of the options that torch's function of that name takes.

Softplus becomes the identity above a threshold, with a jump: of 2e-9 at the default one, which is neglected, and too
large for any constant below it.
"""
