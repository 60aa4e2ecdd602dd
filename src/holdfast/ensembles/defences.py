r"""Defences in front of a network that is not trained for them: preprocessings, and votes under noise.

A defence is a frozen dataclass whose `around` puts it around a classifier. What it answers is exact; its gradient,
where it has none of its own, is that of a stand-in (BPDA), so that every attack can be tried on the defended network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from holdfast.corruptions.common.digital import jpeg_compression
from holdfast.frequency import dct, inverse_dct
from holdfast.rng import Streams
from holdfast.types import Classifier
from holdfast.wrappers import BPDA, Defence, with_value

BLOCK = 8
"""Pixels along a side of the blocks that JPEG transforms."""


class InputDefence(Protocol):
    """A frozen dataclass that puts itself around a classifier."""

    def around(self, classifier: Classifier) -> Classifier:
        """The defended classifier."""
        ...


@dataclass(frozen=True, kw_only=True)
class BitDepth:
    r"""Fewer levels of every pixel.

    .. math:: g(x) = \frac{\mathrm{round}((m - 1)\, x)}{m - 1}

    Args:
        levels: :math:`m`; 4 are two bits.

    Reference:
        Xu, Evans, Qi, Feature Squeezing, NDSS 2018, arXiv:1704.01155, section IV-A.
    """

    levels: int = 4

    def __post_init__(self) -> None:
        if self.levels < 2:
            raise ValueError(f"levels must be at least 2, got {self.levels}")

    def __call__(self, x: Tensor) -> Tensor:
        """The images in fewer levels; half a level is rounded up."""
        steps = self.levels - 1
        return (x * steps + 0.5).floor() / steps

    def around(self, classifier: Classifier) -> Classifier:
        """A classifier behind it; gradients pass it unchanged."""
        return BPDA(classifier, self)


@dataclass(frozen=True, kw_only=True)
class JPEG:
    """Images written as JPEG and read again, as the corruption `jpeg_compression`.

    Args:
        quality: of the encoder, 1 to 95.

    Reference:
        Guo et al., Countering Adversarial Images Using Input Transformations, ICLR 2018, arXiv:1711.00117.
    """

    quality: int = 75

    def __post_init__(self) -> None:
        if not 1 <= self.quality <= 95:
            raise ValueError(f"quality must be 1 to 95, got {self.quality}")

    def __call__(self, x: Tensor) -> Tensor:
        """The images that the file has."""
        return jpeg_compression(x, (self.quality,), Streams(0, "", len(x))) if len(x) else x.clone()

    def around(self, classifier: Classifier) -> Classifier:
        """A classifier behind it; gradients pass it unchanged."""
        return BPDA(classifier, self)


@dataclass(frozen=True, kw_only=True)
class FeatureDistillation:
    r"""Quantised cosine coefficients of blocks of 8 x 8 pixels, the low frequencies more finely.

    .. math:: g(x) = \mathrm{clip}\, D^{-1}\Bigl(q \odot \mathrm{round}\,\frac{D(x)}{q}\Bigr), \qquad
              q_{uv} = \begin{cases} \text{low} & u, v < 4 \\ \text{high} & \text{otherwise} \end{cases}

    :math:`D` is the orthonormal transform of each channel in units of 1/255. Sides that are no multiple of 8 are
    continued by their last pixels, and cut off again. Public code refuses them or enlarges the image, and returns an
    image of zeros for the first one of each batch, since its loop begins at 1.

    Args:
        low: step of the 4 x 4 lowest frequencies.
        high: step of the others.

    Reference:
        Liu et al., Feature Distillation: DNN-Oriented JPEG Compression Against Adversarial Examples, CVPR 2019,
        arXiv:1803.05787; the steps are those of its public code.
    """

    low: float = 25.0
    high: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < min(self.low, self.high) <= max(self.low, self.high) < math.inf:
            raise ValueError(f"low and high must be positive and finite, got {self.low} and {self.high}")

    def __call__(self, x: Tensor) -> Tensor:
        """The images without what quantisation takes."""
        if not len(x):
            return x.clone()
        height, width = x.shape[-2:]
        padded = F.pad(x, (0, -width % BLOCK, 0, -height % BLOCK), mode="replicate")
        step = torch.full((BLOCK, BLOCK), self.high / 255, dtype=torch.float64, device=x.device)
        step[: BLOCK // 2, : BLOCK // 2] = self.low / 255
        # Images of 8 bits often lie half-way between two steps, where rounding errors must not decide.
        whole = (dct(blocks(padded).double()) / step + (0.5 + 1e-9)).floor()
        return unblocked(inverse_dct(whole * step))[..., :height, :width].clamp(0, 1).to(x).contiguous()

    def around(self, classifier: Classifier) -> Classifier:
        """A classifier behind it; gradients pass it unchanged."""
        return BPDA(classifier, self)


def blocks(x: Tensor) -> Tensor:
    """Images (N, C, H, W) in blocks of 8 x 8 pixels, (N, C, H / 8, W / 8, 8, 8)."""
    count, channels, height, width = x.shape
    return x.reshape(count, channels, height // BLOCK, BLOCK, width // BLOCK, BLOCK).transpose(3, 4)


def unblocked(x: Tensor) -> Tensor:
    """The images of `blocks`."""
    return x.transpose(3, 4).flatten(4, 5).flatten(2, 3)


@dataclass(frozen=True, kw_only=True)
class GaussianVotes:
    r"""The vote of a network on noisy copies of the image: randomized smoothing without a certificate.

    .. math:: n_k = \sum_{i=1}^n 1\bigl[\arg\max f(x + \sigma \epsilon_i) = k\bigr], \qquad
              \text{logit}_k = \log \frac{n_k + 1}{n + K}

    Gradients are those of the same formula with the sums of probabilities in the place of the votes. The noise of an
    image comes from a stream of its own, which the image itself chooses, by its pixels in 8 bits: the same image has
    the same noise in every batch and process, and another image, such as the next point of an attack, has other noise.

    Args:
        sigma: standard deviation of the noise in [0, 1] pixel units; copies are not clipped.
        copies: :math:`n`.

    Reference:
        Cohen, Rosenfeld, Kolter, Certified Adversarial Robustness via Randomized Smoothing, ICML 2019,
        arXiv:1902.02918, PREDICT without abstaining. The gradient: Salman et al., Provably Robust Deep Learning via
        Adversarially Trained Smoothed Classifiers, NeurIPS 2019, arXiv:1906.04584, equation 5.
    """

    sigma: float = 0.25
    copies: int = 100

    def __post_init__(self) -> None:
        if not 0 < self.sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, got {self.sigma}")
        if self.copies < 1:
            raise ValueError(f"copies must be at least 1, got {self.copies}")

    def around(self, classifier: Classifier) -> Classifier:
        """A classifier that answers with the votes of another one."""
        return Voting(classifier, self.sigma, self.copies)


@dataclass(frozen=True, eq=False)
class Voting(Defence):
    """The classifier of `GaussianVotes`.

    Args:
        wrapped: the one that votes.
        sigma: standard deviation of the noise.
        copies: votes for each image.
    """

    rows: ClassVar[int] = 512
    """Noisy copies in a pass, about."""

    sigma: float
    copies: int

    def __call__(self, x: Tensor) -> Tensor:
        """Logarithms of the shares of votes."""
        streams = Streams(0, "votes", keys_of_images(x))
        together = max(1, self.rows // max(1, len(x)))
        parts = [range(self.copies)[first : first + together] for first in range(0, self.copies, together)]
        sums = [self._sums(x, streams, part) for part in parts]
        votes = torch.stack([votes for votes, _ in sums]).sum(0)
        answer = self._logits(votes)
        if not (x.requires_grad and torch.is_grad_enabled()):
            return answer
        return with_value(answer, self._logits(torch.stack([soft for _, soft in sums]).sum(0)))

    def _logits(self, counts: Tensor) -> Tensor:
        return ((counts + 1) / (self.copies + counts.shape[1])).log()

    def _sums(self, x: Tensor, streams: Streams, part: range) -> tuple[Tensor, Tensor]:
        """Votes and probabilities, summed over some copies; where gradients are wanted, activations are not kept."""
        noise = torch.stack([streams.split(f"copy {number}").normal(x) for number in part])
        if not (x.requires_grad and torch.is_grad_enabled()):
            return self._asked(x, noise)
        result: tuple[Tensor, Tensor] = checkpoint(self._asked, x, noise, use_reentrant=False, preserve_rng_state=False)
        return result

    def _asked(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.wrapped((x + self.sigma * noise).flatten(0, 1))
        logits = logits.reshape(len(noise), len(x), logits.shape[1])
        votes = F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits).sum(0)
        return votes.detach(), logits.softmax(-1).sum(0)


def keys_of_images(x: Tensor) -> Tensor:
    """A number of 64 bits for each image, from its pixels in 8 bits: equal for equal images, else different, (N,)."""
    pixels = x.detach().flatten(1).mul(255).round().long().cpu()
    weights = Streams(0, "keys of images", 1).bits(pixels.shape[1]) | 1
    return (pixels * weights).sum(1)


class Defended(nn.Module):
    """A network behind a defence; an ordinary classifier for attacks, certificates and analyses.

    Args:
        network: the network.
        defence: what is put around it.
    """

    def __init__(self, network: nn.Module, defence: InputDefence) -> None:
        super().__init__()
        self.network, self.defence = network, defence

    @property
    def wrapper(self) -> Classifier:
        """The defended classifier, as a wrapper."""
        return self.defence.around(self.network)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the defended classifier, (N, K)."""
        return self.wrapper(x)
