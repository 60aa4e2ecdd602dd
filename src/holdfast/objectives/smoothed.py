"""The cross entropy of a smoothed classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.lipschitz.moments import propagate
from holdfast.losses import cross_entropy
from holdfast.objectives.arguments import require_positive
from holdfast.objectives.passes import Passes
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class SmoothedCrossEntropy:
    r"""SC-SCE: :math:`-\log \mathrm{softmax}(\mu)_c` of the logits' means under Gaussian noise.

    Args:
        sigma: standard deviation of the noise in [0, 1] pixel units; the paper's grid gives its square.

    Reference:
        Crespo, Teramae, Smoothed Robustness Analysis, TMLR, section 4.1.
    """

    sigma: float

    soft_labels: ClassVar[bool] = True
    passes: ClassVar[Passes] = Passes(1, 1)

    def __post_init__(self) -> None:
        require_positive(sigma=self.sigma)

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        return Terms(cross_entropy(propagate(model, x, self.sigma).mean, y).mean())
