"""The question of curvature: how the loss bends at each image, and accuracy under noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from holdfast.questions.answers import Answers
from holdfast.questions.fields import require_at_least, require_not_negative, require_positive
from holdfast.questions.question import Needs
from holdfast.show.items import Item

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier

OF_CURVATURE = {
    "loss": "cross entropy of the image",
    "gradient_norm": "l2 norm of its gradient",
    "curvature": "sum of the squared eigenvalues of its Hessian, estimated",
    "curvature_error": "standard error of the curvature",
    "trace": "sum of the eigenvalues, estimated",
    "trace_error": "standard error of the trace",
}
"""Columns of every question that measures the curvature of the loss."""


@dataclass(frozen=True, kw_only=True)
class Curvature:
    r"""Curvature: how strongly the loss bends at each image, and how it relates to accuracy under noise.

    .. math:: \Lambda(x) = \sum_i \lambda_i^2 = E\,\|H \varepsilon\|^2, \qquad \varepsilon \sim N(0, I)

    :math:`H` is the Hessian of the cross entropy in the image.

    Args:
        draws: random directions of each image.
        step: step of the finite differences.
        exact: differentiate twice instead of taking finite differences.
        normalised: measure in units of the network's normalisation instead of pixels.
        lanczos: steps of the iteration for the largest eigenvalue; 0 for none.
        noise: kind of the noise, gaussian or uniform.
        strength: standard deviation of Gaussian noise, or largest change of uniform noise.
        copies: noisy copies of each image.

    Reference:
        Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
        TMLR, section 7.
    """

    title: ClassVar = "Curvature"
    needs: ClassVar = Needs.NETWORK
    columns: ClassVar = {
        **OF_CURVATURE,
        "eigenvalue": "eigenvalue of largest magnitude, with its sign; not a number where lanczos is 0",
        "residual": "some eigenvalue lies this near; not a number where lanczos is 0",
        "right": "noisy copies that are right",
    }

    draws: int = 20
    step: float = 0.01
    exact: bool = False
    normalised: bool = False
    lanczos: int = 10
    noise: Literal["gaussian", "uniform"] = "gaussian"
    strength: float = 0.06
    copies: int = 10

    def __post_init__(self) -> None:
        require_at_least(2, draws=self.draws)
        require_positive(step=self.step)
        require_at_least(0, lanczos=self.lanczos)
        require_not_negative(strength=self.strength)
        require_at_least(1, copies=self.copies)

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """Curvature, largest eigenvalue and right answers under noise."""
        import torch

        from holdfast.corruptions.noise import GaussianNoise, UniformNoise
        from holdfast.gradients import expansion
        from holdfast.losses import cross_entropy
        from holdfast.questions.curvature import measurement
        from holdfast.questions.curvature.eigenvalue import Eigenvalue, largest_eigenvalue

        unit = measurement.unit_of(model) if self.normalised else 1.0
        rescaled = measurement.in_units(model, unit)
        around = expansion(cross_entropy, rescaled, x / unit, y, step=None if self.exact else self.step)
        curvature = measurement.curvature_of(around, draws=self.draws, rng=rng)
        none = torch.full_like(curvature.curvature, torch.nan)
        largest = largest_eigenvalue(around, steps=self.lanczos, rng=rng) if self.lanczos else Eigenvalue(none, none)
        noise = GaussianNoise(self.strength) if self.noise == "gaussian" else UniformNoise(self.strength)
        right = measurement.right_under_noise(model, x, y, noise=noise, draws=self.copies, rng=rng)
        return {**vars(curvature), "eigenvalue": largest.value, "residual": largest.residual, "right": right}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Curvature of each network in one row, its distribution, and how it relates to accuracy under noise."""
        from holdfast.questions.curvature.presentation import presentation

        return presentation(answers)
