"""The question of loss surfaces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.question import Context, Needs, Prepared
from holdfast.questions.surface.presentation import presented
from holdfast.show.items import Item

GRADIENT, RANDOM = "gradient", "random"


@dataclass(frozen=True, kw_only=True)
class LossSurface:
    r"""Loss surface: the loss and the predicted class on a plane through each of a few images.

    .. math:: L(a, b) = \ell(f(x + a\,u + b\,v), y), \qquad \|u\| = \|v\| = 1,\ \langle u, v\rangle = 0

    Args:
        along: the directions u and v, as gradient,random or pgd,random or pgd,apgd or pgd,pgd@RUN.
        show: examples, as reports number them (default: the first four).
        radius: half of the side of the square, Euclidean (default: 1, or 1.25 times as far as the attacks may go).
        steps: grid points from the image to the edge.
        clip: cut points to [0, 1], so that all are images but not all lie in the plane.
        norm: norm of the attacks.
        eps: budget of the attacks.

    Reference:
        Nguyen et al., Training More Robust Classification Model via Discriminative Loss and Gaussian Noise Injection,
        figure 11. Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, figure 6.3.
    """

    title: ClassVar = "Loss surfaces"
    needs: ClassVar = Needs.NETWORK

    along: tuple[str, ...] = (GRADIENT, RANDOM)
    show: tuple[int, ...] | None = None
    radius: float | None = None
    steps: int = 20
    clip: bool = False
    norm: Literal["linf", "l2", "l1"] = "linf"
    eps: float = 8 / 255

    def __post_init__(self) -> None:
        first, *rest = self.along or ("",)
        fits = len(rest) == 1 and first != RANDOM and rest[0] != GRADIENT
        if not fits or (first == GRADIENT and rest != [RANDOM]):
            expected = "gradient,random, or an attack and random or another attack"
            raise ValueError(f"along: expected {expected}; got {','.join(self.along)!r}")
        if self.radius is not None and not 0 < self.radius < math.inf:
            raise ValueError(f"radius: expected a positive number, got {self.radius:g}")
        if not 1 <= self.steps <= 100:
            raise ValueError(f"steps: expected 1 to 100, got {self.steps}")

    @property
    def sources(self) -> tuple[str, ...]:
        """The runs behind `attack@run`."""
        return tuple(word.partition("@")[2] for word in self.along if "@" in word)

    def prepared(self, context: Context) -> Prepared:
        """The images and the size of the square, with attacks and other networks as the directions name them."""
        from holdfast.questions.surface.directions import surfaces

        return surfaces(self, context)

    @staticmethod
    def rests_on(answer: Answer) -> int:
        """How many images have a surface."""
        return len(answer.records)

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Maps and reliefs of every image, all networks on one scale, with their numbers."""
        return presented(answers)
