"""Images that fade into grey."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from holdfast.rng import Streams, streams
from holdfast.traits import GREY


@dataclass(frozen=True)
class Linear:
    r"""Linear image corruption: :math:`a x + (1 - a)\, n` with grey noise :math:`n_i \sim N(\tfrac12, s^2)`, clipped.

    People lose half of their accuracy where about a quarter of the image is left, :math:`a = 0.25`.

    Args:
        ratio: :math:`a`, the share of the image that is left.
        std: :math:`s`, spread of the grey in [0, 1] pixel units.

    Reference:
        Jang, McCormack, Tong, Noise-trained deep neural networks effectively predict human vision and its neural
        responses to challenging images, PLOS Biology 2021. Crespo, Teramae, Smoothed Robustness Analysis, TMLR, B.3.
    """

    ratio: float
    std: float = 6 / 255

    def __post_init__(self) -> None:
        if not 0 <= self.ratio <= 1:
            raise ValueError(f"ratio must lie in [0, 1], got {self.ratio}")
        if not self.std >= 0:
            raise ValueError(f"std must not be negative, got {self.std}")

    @property
    def strength(self) -> tuple[str, float]:
        """Axis and size of the check."""
        return GREY, round(1 - self.ratio, 12)

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """Images in [0, 1]."""
        grey = streams(rng, x).normal(x).mul_(self.std).add_(0.5)
        return x.lerp(grey, 1 - self.ratio).clamp_(0, 1)
