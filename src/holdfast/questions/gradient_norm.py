"""The question of the input-gradient norm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from holdfast.questions.answers import Answers
from holdfast.questions.presenting import answered, quartile_table, share_chart
from holdfast.questions.question import Needs
from holdfast.show.items import Item

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Classifier, Loss


@dataclass(frozen=True, kw_only=True)
class GradientNorm:
    r"""Input-gradient norm: how fast the loss grows around each image.

    .. math:: \|\nabla_x \ell(f(x), y)\|_q

    Args:
        norm: norm of the gradient; l1 is dual to attacks in linf, linf to attacks in l1.
        loss: per-example loss (default: cross_entropy).
    """

    title: ClassVar = "Input-gradient norm"
    needs: ClassVar = Needs.NETWORK
    columns: ClassVar = {"gradient_norm": "norm of the gradient of the loss with respect to the image"}

    norm: Literal["l1", "l2", "linf"] = "l2"
    loss: Loss | None = None

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """One number for each image, in double precision."""
        import torch

        from holdfast.gradients import input_gradient
        from holdfast.losses import cross_entropy

        _, gradient, _ = input_gradient(self.loss or cross_entropy, model, x, y)
        order = {"l1": 1, "l2": 2, "linf": torch.inf}[self.norm]
        return {"gradient_norm": torch.linalg.vector_norm(gradient.flatten(1).double(), order, dim=1)}

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Quartiles of every run, then their distributions."""
        if answered(answers):
            yield quartile_table(answers, "gradient_norm", "Input-gradient norm, loss per unit of input")
            title = "Share of images with at most this norm"
            yield share_chart(answers, "gradient_norm", title, "input-gradient norm")
