"""Certificates of groups: within the radius every prediction is in the group of the predicted class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

import torch
from torch import Tensor

from holdfast.certify.margin import Margin, bounded_logits, check_bounded
from holdfast.certify.smoothing import Smoothing
from holdfast.ensembles.views import GroupView, groups_of, require_classes
from holdfast.errors import RecipeError
from holdfast.hierarchy import Hierarchy, Level
from holdfast.lipschitz.radii import Norm, group_radius
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.types import ABSTAIN, Certificate, Certifier, Classifier


@dataclass(frozen=True, kw_only=True)
class GroupCertificate:
    r"""Another certificate, of the groups of a level instead of the classes.

    Of `margin` it is about the network itself. A point within the radius may have another class, but of the same group:

    .. math:: r = \min_{j \notin g} \max_{k \in g} \frac{o_k - o_j}{G_{kj}}

    with the :math:`G` of `Margin`; it is never below the radius of the predicted class. Of a smoothing it is about the
    network that answers with the most frequent group under noise. With `one_vs_rest`, a fixed number of copies and the
    same noise its radius is not below that of the most frequent class, as long as that class is in the chosen group.
    The most frequent group need not be that of the most frequent class, and then the two speak of different networks.

    Its predictions are groups, by their numbers.

    Args:
        certifier: a margin or a smoothing certificate.
        level: of the hierarchy; None for the finest.
        hierarchy: of the classes; None for that of the data.
    """

    certifier: Certifier
    level: str | None = None
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.certifier, Margin | Smoothing):
            names = ", ".join(one.__name__ for one in (Margin, *get_args(Smoothing)))
            raise RecipeError(f"group_certificate: expected one of {names}; got {type(self.certifier).__name__}")
        if self.hierarchy is not None:
            self._level()

    @property
    def norm(self) -> str:
        """The norm of radii."""
        return self.certifier.norm

    @property
    def smoothed(self) -> bool:
        """Whether it speaks of the smoothed network."""
        return self.certifier.smoothed

    @property
    def bound_in(self) -> Norm | None:
        """The norm in which the network needs a known Lipschitz constant."""
        return self.certifier.bound_in if isinstance(self.certifier, Margin) else None

    @property
    def certified_level(self) -> str:
        """The level of the groups that it is about."""
        return self._level().name

    def is_right(self, prediction: Tensor, y: Tensor) -> Tensor:
        """Which predictions are the groups of these labels."""
        return prediction == groups_of(self._level(), y)[y]

    @in_evaluation_mode
    def __call__(self, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Certificate:
        """Certificate of each example."""
        if isinstance(self.certifier, Margin):
            return _margin(self.certifier, self._level(), model, x)
        return self.certifier(GroupView(model, self._level()), x, rng=rng)

    def _level(self) -> Level:
        if self.hierarchy is None:
            raise RecipeError("GroupCertificate: expected a hierarchy; got None, which stands for that of the data")
        chosen = self.hierarchy.border(self.level).level
        assert chosen is not None
        return chosen


def _margin(certifier: Margin, level: Level, model: Classifier, x: Tensor) -> Certificate:
    """The certificate of the network itself; of two groups with equal logits neither is certified."""
    if not len(x):
        return Certificate.of_nothing(x)
    check_bounded(model, certifier.constant)
    bounded = bounded_logits(model, x, certifier.norm, certifier.constant)
    require_classes(bounded.logits, len(level.of))
    members = [level.members(group) for group in range(len(level.groups))]
    radius, prediction = group_radius(bounded.logits, bounded.growth, members, bounded.rounding)
    return Certificate(torch.where(radius > 0, prediction, ABSTAIN).to(x.device), radius)
