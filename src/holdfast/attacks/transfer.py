"""Attacks made on one classifier and tried on another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from holdfast.attacks.persistence import check_persistent, make_persistent
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.traits import Access
from holdfast.types import Attack, Classifier, Threat
from holdfast.wrappers import behind


@dataclass(frozen=True, kw_only=True)
class Transferred:
    """Another attack, on another classifier; what it finds there is tried on this one.

    No gradient of the classifier in question is used, so that none can be masked. The attack goes to the end, since a
    point that just crosses a boundary of one classifier rarely crosses that of another.

    Args:
        attack: the attack.
        source: the classifier that it attacks, in the mode it is used in.

    Reference:
        Papernot, McDaniel, Goodfellow, Transferability in Machine Learning, arXiv:1605.07277.
    """

    wraps: ClassVar = "attack"
    access: ClassVar = Access.NOTHING

    attack: Attack
    source: Classifier

    def __post_init__(self) -> None:
        check_persistent("transfer", self.attack)

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        return self.attack.threat

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """What the attack finds for each example; the queries that are counted are those to the source."""
        stand_in = behind(model, lambda _: self.source)
        return make_persistent(self.attack)(stand_in, x, y, target=target, rng=rng)


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A transferred attack as recipes say it: the source is a run that somebody has to load.

    Args:
        attack: the attack.
        source: directory of a run on the same images (its best weights or, failing that, its last), or one weights
            file; `{seed}` in it stands for the seed.
    """

    retired: ClassVar = frozenset({"trust"})
    """Fields of earlier versions that stored recipes may still have and that mean nothing now."""

    wraps: ClassVar = "attack"
    access: ClassVar = Access.NOTHING

    attack: Attack
    source: str

    def __post_init__(self) -> None:
        if not self.source.strip():
            raise ValueError("source: expected the directory of a run or a weights file, got nothing")
        check_persistent("transfer", self.attack)

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        return self.attack.threat

    def on(self, source: Classifier) -> Transferred:
        """The attack on the classifier that was found there."""
        return Transferred(attack=self.attack, source=source)
