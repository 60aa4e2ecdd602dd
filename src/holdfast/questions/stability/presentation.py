"""Stability, and what theorem 6.1 makes of it, in tables, charts and sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdfast.questions.answers import Answer, Answers
from holdfast.questions.fields import ordered
from holdfast.questions.presenting import answered, number, products_in_words, share, spread_cell
from holdfast.questions.stability.bounds import AtDelta, quadratic_share, stability_curve
from holdfast.show.chart import Chart, Curve
from holdfast.show.items import Details, Item
from holdfast.show.numbers import count, decimal, give_or_take, percent, short
from holdfast.show.table import Cell, Table

CLOSE = (0.8, 1.25)
"""Ratios of the change of the loss to that of its quadratic part that are close to 1."""
EXPLANATION = (
    "Features are stable where most noisy copies stay near the image’s own features, the loss where it changes little "
    "for those that do not. The change is a mean over the images that have such copies, and uncertain where few have."
)
THEOREM = (
    "Theorem 6.1 bounds the curvature from above by the stability of the features and from below by that of the loss. "
    "It is exact only for quadratic losses, and takes the largest logit of all inputs; here it gets the largest of the "
    "images and their copies. The upper bound is evaluated at the end of a 95 % interval of the share inside that "
    "makes it larger."
)


@dataclass(frozen=True)
class _Summary:
    """Stability of one network."""

    name: str
    answer: Answer

    @property
    def settings(self) -> Any:
        return self.answer.settings

    @property
    def products(self) -> str:
        """How products with the Hessian were made."""
        return products_in_words(self.settings, self.settings["step"] or self.settings["sigma"])

    @property
    def longest_row(self) -> float:
        return float(self.answer.rows["longest_row"][0])

    @property
    def largest_logit(self) -> float:
        return float(self.answer.rows["largest_logit"].to_numpy().max())

    @cached_property
    def quadratic(self) -> float | None:
        """Mean squared change of the loss over that of its quadratic part, the median."""
        return quadratic_share(self.answer.rows, sigma=self.settings["sigma"])

    @cached_property
    def curve(self) -> Sequence[AtDelta]:
        """Stability and bounds at each distance."""
        settings = self.settings
        return stability_curve(
            self.answer.rows, deltas=ordered(settings["deltas"]), draws=settings["copies"],
            sigma=settings["sigma"], longest_row=self.longest_row,
        )  # fmt: skip


def presentation(answers: Answers) -> Iterator[Item]:
    """Curves over the distance, their table, then the theorem in words and what its bounds rest on."""
    some = [_Summary(name, answer) for name, answer in answered(answers)]
    if not some:
        return
    yield EXPLANATION
    distance = "distance δ of the features"
    inside, gaps = (_curves(some, read) for read in (lambda at: at.eta.mean, _gap))
    yield Chart("Features that stay within δ", distance, inside, True, log_x=True)
    if gaps:
        yield Chart("Change of the loss outside δ", distance, gaps, False, log_x=True)
    yield Details("Stability and bounds at each distance", [_table(some)], open=True)
    yield THEOREM
    for one in some:
        yield f"{one.name}: {_upper(one.curve)} {_lower(one.curve)} {_premise(one)}"
    yield _bounds_table(some)


def _gap(at: AtDelta) -> float | None:
    return None if at.loss_gap is None else at.loss_gap.mean


def _curves(some: Sequence[_Summary], read: Callable[[AtDelta], float | None]) -> tuple[Curve, ...]:
    """Values against distances above 0, which a logarithmic axis has."""
    curves = []
    for one in some:
        points = [(at.delta, value) for at in one.curve if at.delta > 0 and (value := read(at)) is not None]
        if points:
            x, y = (tuple(values) for values in zip(*points, strict=True))
            curves.append(Curve(one.answer.place, f"noise of {short(one.settings['sigma'])}", x, y))
    return tuple(curves)


def _table(some: Sequence[_Summary]) -> Table:
    rows = [(f"{one.name}, δ = {short(at.delta)}", _row(at)) for one in some for at in one.curve]
    columns = (
        "Copies inside, 95 %", "|ℓ outside − ℓ|, 95 %", "Images with copies outside", "Curvature below the upper bound",
        "Bound over curvature, median", "Above the lower bound", "Lower bound vacuous",
    )  # fmt: skip
    return Table("Stability, and the bounds of theorem 6.1, at each distance", "Run", columns, rows)


def _row(at: AtDelta) -> list[Cell]:
    inside = Cell(percent(at.eta.mean), give_or_take(at.eta.half, lambda half: decimal(100 * half)), value=at.eta.mean)
    return [
        inside, spread_cell(at.loss_gap), number(at.outside, count), share(at.below_upper),
        number(at.looseness), share(at.above_lower),
        share(at.vacuous),
    ]  # fmt: skip


def _bounds_table(some: Sequence[_Summary]) -> Table:
    rows = [
        (one.name, [
            number(one.settings["sigma"]), number(one.settings["copies"], count),
            number(len(one.answer.rows), count), number(one.largest_logit), number(one.longest_row),
            number(one.quadratic), Cell(one.products, words=True),
        ])
        for one in some
    ]  # fmt: skip
    columns = (
        "Noise σ", "Copies", "Images", "Largest logit seen", "Longest row of the head",
        "Change of the loss over its quadratic part, median", "Curvature measured by",
    )  # fmt: skip
    return Table("What the bounds rest on", "Run", columns, rows)


def _upper(curve: Sequence[AtDelta]) -> str:
    share_below = _between([at.below_upper for at in curve])
    below = f"The measured curvature is below the upper bound for {share_below} of the images"
    loose = [at.looseness for at in curve if at.looseness is not None]
    if not loose:
        return f"{below}."
    return f"{below}; at its tightest the bound is {short(min(loose))} times the curvature (median)."


def _lower(curve: Sequence[AtDelta]) -> str:
    if min(at.vacuous for at in curve) == 1:
        return "The lower bound is vacuous: it is not positive for any image at any distance."
    above, vacuous = _between([at.above_lower for at in curve]), _between([at.vacuous for at in curve])
    return f"{above} of the images are above the lower bound, which is vacuous (not positive) for {vacuous}."


def _premise(one: _Summary) -> str:
    if one.quadratic is None:
        return "The loss is flat."
    verdict = "close to" if CLOSE[0] <= one.quadratic <= CLOSE[1] else "far from"
    return (
        f"Under noise of {short(one.settings['sigma'])} the loss is {verdict} the quadratic that the theorem assumes: "
        f"its mean squared change is {short(one.quadratic)} times that of its quadratic part (median)."
    )


def _between(shares: Sequence[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low} to {high}"
