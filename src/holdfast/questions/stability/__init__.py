"""The question of stability: what Gaussian noise does to features and loss, and what that says of the curvature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from holdfast.questions.answers import Answers
from holdfast.questions.curvature import OF_CURVATURE
from holdfast.questions.fields import ordered, require_at_least, require_positive, require_sizes
from holdfast.questions.question import Needs
from holdfast.show.items import Item

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier, FeatureClassifier


@dataclass(frozen=True, kw_only=True)
class NoiseStability:
    r"""Stability under Gaussian noise: how far features and loss move, and the bounds on curvature that follow.

    .. math:: \eta(\delta) = P\bigl(\|f(x + \varepsilon) - f(x)\| \le \delta\bigr)

    for penultimate features :math:`f` and :math:`\varepsilon \sim N(0, \sigma^2 I)`.

    The noise is not clipped: what is proved of it needs it whole.

    Args:
        sigma: standard deviation of the noise.
        deltas: distances of features.
        copies: noisy copies of each image.
        draws: random directions for the curvature.
        step: step of the finite differences for the curvature (default: sigma).
        exact: differentiate twice instead of taking finite differences.

    Reference:
        Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
        TMLR, definition 6.1 and theorem 6.1.
    """

    title: ClassVar = "Stability under Gaussian noise"
    needs: ClassVar = Needs.NETWORK
    columns: ClassVar = {
        **OF_CURVATURE,
        "inside": "copies whose features stay within each distance",
        "loss_outside": "mean loss of the other copies for each distance; not a number where there are none",
        "change": "mean squared change of the loss",
        "change_error": "standard error of the change",
        "largest_logit": "largest magnitude of a logit of the image or a copy",
        "longest_row": "length of the longest row of the head’s matrix, the same for every image",
    }

    sigma: float = 0.06
    deltas: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
    copies: int = 100
    draws: int = 20
    step: float | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        require_positive(sigma=self.sigma, step=self.sigma if self.step is None else self.step)
        require_sizes(deltas=self.deltas)
        require_at_least(2, copies=self.copies, draws=self.draws)

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """Stability, and the curvature to compare its bounds with at the distance of the noise."""
        import torch

        from holdfast.models.head import Whole
        from holdfast.questions.curvature.measurement import input_curvature
        from holdfast.questions.stability.measurement import longest_row, stability

        Whole("stability").head_of(model, x)
        step = None if self.exact else self.step or self.sigma
        curvature = input_curvature(model, x, y, draws=self.draws, step=step, rng=rng)
        moved = stability(
            cast("FeatureClassifier", model), x, y, sigma=self.sigma, deltas=ordered(self.deltas),
            draws=self.copies, rng=rng,
        )  # fmt: skip
        row = torch.full_like(curvature.curvature, longest_row(model))
        return {**vars(curvature), **vars(moved), "longest_row": row}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Stability against the distance, then what theorem 6.1 makes of it, in words and numbers."""
        from holdfast.questions.stability.presentation import presentation

        return presentation(answers)
