"""Random translations by padding and cropping."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from holdfast.rng import Streams, streams


@dataclass(frozen=True, kw_only=True)
class RandomCrop:
    """Pad each side, then cut an image of the old size out at a place of its own, all places equally likely.

    Args:
        padding: pixels added to each side, so images move by up to this much.
        reflect: pad with the mirrored image instead of zeros; then `padding` must be less than height and width.

    Reference:
        He et al., Deep Residual Learning for Image Recognition, CVPR 2016, arXiv:1512.03385, section 4.2.
    """

    padding: int = 4
    reflect: bool = False

    def __post_init__(self) -> None:
        if self.padding < 0:
            raise ValueError(f"padding: expected 0 or more, got {self.padding}")

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The moved images, (N, C, H, W) as `x`."""
        corner = streams(rng, x).integers(2 * self.padding + 1, (2,)).to(x.device)
        padded = F.pad(x, (self.padding,) * 4, mode="reflect" if self.reflect else "constant")
        N, C, H, W = x.shape
        rows = corner[:, 0, None] + torch.arange(H, device=x.device)  # (N, H)
        columns = corner[:, 1, None] + torch.arange(W, device=x.device)  # (N, W)
        example = torch.arange(N, device=x.device)[:, None, None, None]
        channel = torch.arange(C, device=x.device)[:, None, None]
        return padded[example, channel, rows[:, None, :, None], columns[:, None, None, :]]
