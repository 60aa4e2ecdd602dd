r"""Views of a classifier from a border: what it answers with groups, or with the two sides of a border, as classes.

For the blocks of a level the logit of a group is the largest of its classes, and the group with the largest logit is
that of the predicted class. A general border has other sides for every class, so that the view is of each example:
class 0 for the predictions that do not cross, class 1 for those that do. Attacks, certificates and audits work on a
view as on any classifier, with the group, or 0, as the label.

Of equal logits the class that comes first is predicted. Where groups have equal logits, those of the others are lowered
by one unit in the last place, so that a view answers with the side of the predicted class there, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from holdfast.errors import ModelError
from holdfast.hierarchy import Border, Level
from holdfast.types import Classifier
from holdfast.wrappers import Wrapper, narrow

Pooling = Literal["maximum", "sum"]
"""The logit of a group: that of its likeliest class, or the logarithm of the sum of their probabilities."""


@dataclass(frozen=True, eq=False)
class GroupView(Wrapper):
    """The groups of a level as classes.

    Args:
        wrapped: a classifier of the classes.
        level: which groups they are in.
        pooling: what the logit of a group is. With `sum` the answer may be another group than that of the prediction.
    """

    transparent: ClassVar = False

    level: Level
    pooling: Pooling = "maximum"

    def __call__(self, x: Tensor) -> Tensor:
        """Logits of the groups, (N, G)."""
        logits = self.wrapped(x)
        require_classes(logits, len(self.level.of))
        return (group_maxima if self.pooling == "maximum" else group_sums)(logits, self.level)

    def starting_images(self) -> Any:
        """Images that an attack may start from, with their groups."""
        method = getattr(self.wrapped, "starting_images", None)
        pool: Any = None if method is None else method()
        return None if pool is None else replace(pool, classes=groups_of(self.level, pool.classes)[pool.classes])


@dataclass(frozen=True, eq=False)
class SideView(Wrapper):
    """The two sides of a border as classes: 0 for predictions that do not cross, 1 for those that do.

    Args:
        wrapped: a classifier of the classes.
        crossing: which predictions cross for each example of the batch, (N, K) bool. A batch of several times as many
            rows has all examples one after the other, again and again.
        pooling: what the logit of a side is.
    """

    transparent: ClassVar = False

    crossing: Tensor
    pooling: Pooling = "maximum"

    def __call__(self, x: Tensor) -> Tensor:
        """Logits of the two sides, (N, 2)."""
        logits, examples = self.wrapped(x), len(self.crossing)
        require_classes(logits, self.crossing.shape[1])
        if not examples or len(x) % examples:
            raise ValueError(f"{len(x)} rows asked about {examples} examples: call narrow() when some leave")
        return sides(logits, self.crossing.repeat(len(x) // examples, 1), self.pooling)

    def narrow(self, selection: Tensor) -> Self:
        """The same for a part of the batch."""
        return self.around(narrow(self.wrapped, selection), crossing=self.crossing[selection])

    def starting_images(self) -> None:
        """None: on which side an image is depends on the example."""


def view_from(
    border: Border, model: Classifier, y: Tensor, pooling: Pooling = "maximum"
) -> tuple[GroupView | SideView, Tensor]:
    """A classifier as seen from a border, and the labels of some examples in this view.

    Args:
        border: the border.
        model: a classifier of the classes.
        y: labels of the batch, (N,).
        pooling: what the logit of a group, or a side, is.
    """
    if border.level is None:
        return SideView(model, crossing_of(border, y), pooling), torch.zeros_like(y)
    return GroupView(model, border.level, pooling), groups_of(border.level, y)[y]


def groups_of(level: Level, like: Tensor) -> Tensor:
    """The group of each class, (K,), on the device of a tensor."""
    return torch.tensor(level.of, device=like.device)


def crossing_of(border: Border, y: Tensor) -> Tensor:
    """Which predictions cross a border for examples of these classes, (N, K) bool."""
    return torch.from_numpy(border.crossing).to(y.device)[y]


def group_maxima(logits: Tensor, level: Level) -> Tensor:
    """The largest logit of the classes of each group, (N, G); the gradient is that of this logit alone."""
    members, _ = _members(level, logits)
    grouped = logits[:, members]
    first = grouped.argmax(2, keepdim=True)  # and not `amax`, which shares the gradient between equal ones
    values = grouped.gather(2, first).squeeze(2)
    return _settled(values, groups_of(level, logits)[logits.argmax(1)])


def group_sums(logits: Tensor, level: Level) -> Tensor:
    """The logarithm of the sum of the exponentials of the logits of each group, (N, G)."""
    members, padding = _members(level, logits)
    return logits[:, members].masked_fill(padding, -torch.inf).logsumexp(2)


def sides(logits: Tensor, crossing: Tensor, pooling: Pooling = "maximum") -> Tensor:
    """Logits of the two sides of a border, (N, 2): not crossing, crossing."""
    lowest = torch.finfo(logits.dtype).min / 4  # finite, since a class may have nothing to cross to
    parts = torch.stack((logits.masked_fill(crossing, lowest), logits.masked_fill(~crossing, lowest)), dim=1)
    if pooling == "sum":
        return parts.logsumexp(2)
    values = parts.gather(2, parts.argmax(2, keepdim=True)).squeeze(2)
    return _settled(values, crossing.gather(1, logits.argmax(1, keepdim=True)).squeeze(1).long())


def _settled(values: Tensor, predicted: Tensor) -> Tensor:
    """The same with a largest value in one place, that of the predicted class; gradients stay."""
    tied = (values == values.amax(1, keepdim=True)).scatter(1, predicted[:, None], False)
    if not bool(tied.any()):
        return values
    lower = torch.nextafter(values.detach(), torch.full_like(values, -torch.inf))
    return values + torch.where(tied, lower - values.detach(), 0.0)


def _members(level: Level, like: Tensor) -> tuple[Tensor, Tensor]:
    """The classes of each group in their order, (G, M), with their first again where others have more; and where."""
    own = [level.members(group) for group in range(len(level.groups))]
    most = max(map(len, own))
    filled = [(*some, *[some[0]] * (most - len(some))) for some in own]
    padding = [[place >= len(some) for place in range(most)] for some in own]
    return torch.tensor(filled, device=like.device), torch.tensor(padding, device=like.device)


def require_classes(logits: Tensor, classes: int) -> None:
    """Refuse a classifier of other classes than those of a hierarchy.

    Raises:
        ModelError: saying how many.
    """
    if logits.dim() != 2 or logits.shape[1] != classes:
        raise ModelError(f"hierarchy: expected logits of its {classes} classes; got shape {tuple(logits.shape)}")
