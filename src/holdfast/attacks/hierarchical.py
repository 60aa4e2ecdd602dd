"""Attacks across a border: another attack, on the classifier as it is seen from there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

from torch import Tensor

from holdfast.attacks.persistence import check_persistent, make_persistent
from holdfast.ensembles.views import Pooling, view_from
from holdfast.errors import unknown
from holdfast.hierarchy import Border, Hierarchy, border_of, check_border
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.types import Attack, Classifier, Threat
from holdfast.wrappers import behind, network


@dataclass(frozen=True, kw_only=True)
class Hierarchical:
    r"""Another attack, which looks for a prediction beyond a border: outside the group, or costly.

    .. math:: V_g(x) = \max_{k \in g} f_k(x) \qquad\text{or}\qquad V_g(x) = \log \sum_{k \in g} e^{f_k(x)}

    It attacks the groups of a level as classes, with the group of the label as label; AutoAttack on this view aims at
    groups. Of a general border the classes are its two sides. Whether the point is a success is judged on the
    prediction of the classifier itself. With `sum`, which is the logarithm of the probability of the group up to one
    number for all groups, the view stops at another border than the predictions do, so that the attack goes on to its
    end. On a HAR network that view is its network of groups alone (PGD-Meta), and only this is run.

    Surviving says nothing about mistakes within the group.

    Args:
        attack: the attack.
        level: of the hierarchy; None for the finest.
        severity: instead of a level, mistakes that cost at least this.
        view: the logit of a group: its `maximum`, or the `sum` of its probabilities.
        hierarchy: of the classes; None for that of the data.

    Reference:
        Ma, thesis, sections 5.2 and 5.6.3 (PGD-Meta). The maximum view is ours.
    """

    wraps: ClassVar = "attack"
    thorough: ClassVar = False

    attack: Attack
    level: str | None = None
    severity: float | None = None
    view: Pooling = "maximum"
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.view not in get_args(Pooling):
            raise ValueError(f"view: {unknown(self.view, get_args(Pooling))}")
        if self.view == "sum":
            check_persistent("hierarchical with view sum", self.attack)
        check_border(self)

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        return self.attack.threat

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """What the attack finds for each example; with `target`, only that class counts, and no border."""
        if target is not None:
            return self.attack(model, x, y, target=target, rng=rng)
        border = border_of(self)
        if self.view == "maximum":
            view, labels = view_from(border, model, y)
            return self.attack(view, x, labels, rng=rng)
        view, labels = view_from(border, model, y, "sum")
        of_groups = groups_network(network(model), border)
        climbed: Any = view if of_groups is None else behind(model, lambda _: of_groups)
        return make_persistent(self.attack)(climbed, x, labels, rng=rng)


def groups_network(inner: Any, border: Border) -> Classifier | None:
    """The network that a classifier has for the groups of a border alone; None for others."""
    of_groups = getattr(inner, "of_groups", None)
    same = border.level is not None and getattr(inner, "leaves", None) == leaves_of(border)
    return of_groups if callable(of_groups) and same else None


def leaves_of(border: Border) -> tuple[tuple[int, ...], ...]:
    """The classes of each group of a border that is made of blocks."""
    assert border.level is not None
    return tuple(border.level.members(group) for group in range(len(border.level.groups)))
