"""Label smoothing."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from holdfast.losses import cross_entropy
from holdfast.rng import Streams
from holdfast.types import Classifier, Terms


@dataclass(frozen=True, kw_only=True)
class LabelSmoothing:
    r"""Cross entropy against labels that give a share to all classes.

    .. math:: (1 - s)\,\ell(f(x), y) + \frac sK \sum_k \ell(f(x), k)

    Args:
        share: :math:`s`, what all :math:`K` classes have together.

    Reference:
        Szegedy et al., Rethinking the Inception Architecture for Computer Vision, CVPR 2016, arXiv:1512.00567,
        section 7.
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"share must lie in [0, 1), got {self.share}")

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch; `rng` is not used."""
        logits = model(x)
        label = cross_entropy(logits, y).mean()
        uniform = -logits.log_softmax(1).mean()
        return Terms((1 - self.share) * label + self.share * uniform, {"label": label, "uniform": uniform})
