"""The question of Taylor expansions: the loss on the way to an attack's point, and what expansions make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from holdfast.questions.answers import Answers
from holdfast.questions.attack import attack_settings, check_budget, chosen_attack
from holdfast.questions.fields import require_positive
from holdfast.questions.question import Context, Needs, Prepared
from holdfast.show.items import Item

if TYPE_CHECKING:
    from torch import Tensor

    from holdfast.rng import Streams
    from holdfast.types import Attack, Classifier

MOST_POINTS = 1001


@dataclass(frozen=True, kw_only=True)
class Segments:
    r"""Taylor expansions of the loss towards an attack's point: how far the first and second order are accurate.

    .. math:: \ell(t) = \ell(x + t(z - x)), \qquad \ell_1(t) = \ell(a) + (t - a)\,\ell'(a), \qquad
        \ell_2(t) = \ell_1(t) + \tfrac12 (t - a)^2\, \ell''(a)

    from each image :math:`x` to the point :math:`z` that an attack finds for it.

    Args:
        norm: norm of the attack's budget: linf, l2 or l1; goes with eps (default: linf).
        eps: budget of the attack, such as 8/255 (default: the run's own attack).
        points: points of each segment, ends included.
        around: where expansions are made, from 0 at the image to 1 at the attack's point.
        tolerance: error of an expansion that still counts as accurate, in units of the loss.

    Reference:
        Ma, Understanding Adversarial Robustness in Deep Learning, thesis, Toronto 2025, section 3.3.4.
    """

    title: ClassVar = "Taylor expansions towards attacks"
    needs: ClassVar = Needs.NETWORK

    norm: Literal["linf", "l2", "l1"] | None = None
    eps: float | None = None
    points: int = 21
    around: float = 0.0
    tolerance: float = 0.1

    def __post_init__(self) -> None:
        check_budget(self.norm, self.eps)
        if not 2 <= self.points <= MOST_POINTS:
            raise ValueError(f"points: expected a number from 2 to {MOST_POINTS}; got {self.points}")
        if not 0 <= self.around <= 1:
            raise ValueError(f"around: expected a number from 0 to 1; got {self.around:g}")
        require_positive(tolerance=self.tolerance)

    def prepared(self, context: Context) -> Prepared:
        """The measurement with the attack of the budget, or the run's own."""
        attack = chosen_attack(context, self.norm, self.eps)
        measurement = Measurement(attack, self.points, self.around, self.tolerance)
        return Prepared(measurement, attack_settings(context, attack))

    @staticmethod
    def present(answers: Answers) -> Iterator[Item]:
        """Where the expansions fail, in words, curves and tables."""
        from holdfast.questions.segment.presentation import presentation

        return presentation(answers)


@dataclass(frozen=True)
class Measurement:
    """Losses and expansions along the segments of an attack.

    Args:
        attack: finds the other ends.
        points: of each segment.
        around: where expansions are made.
        tolerance: error that still counts as accurate.
    """

    columns: ClassVar[Mapping[str, str]] = {
        "image": "number made of the pixels, which recognises the image in other answers",
        "loss": "loss at every point of the segment",
        "start": "first order at the image",
        "slope": "first derivative along the segment, where expansions are made",
        "bend": "second derivative",
        "first_end": "error of the first order at the end, negative where it promises too little",
        "second_end": "error of the second order at the end",
        "first_reach": "how far the first order stays within the tolerance, 1 for the whole way",
        "second_reach": "how far the second order does",
        "right": "whether the answer is right at the image",
        "right_at_end": "whether it is at the other end",
    }

    attack: Attack
    points: int
    around: float
    tolerance: float

    def measure(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams) -> Mapping[str, Tensor]:
        """Losses along the segments, the expansions and how wrong they are."""
        from holdfast.questions.segment.measurement import image_numbers, loss_along_segment, taylor_errors
        from holdfast.questions.sureness import sureness

        z = self.attack(model, x, y, rng=rng.split("attack"))
        # a point of all segments at a time: no more images in memory than the batch has
        way = loss_along_segment(model, x, z, y, points=self.points, around=self.around, batch=len(x))
        errors = taylor_errors(way, tolerance=self.tolerance)
        return {
            "image": image_numbers(x), "loss": way.loss, "start": way.first[:, 0], "slope": way.slope,
            "bend": way.bend, "first_end": errors.first_end, "second_end": errors.second_end,
            "first_reach": errors.first_reach, "second_reach": errors.second_reach,
            "right": sureness(model, x, y).right, "right_at_end": sureness(model, z, y).right,
        }  # fmt: skip
