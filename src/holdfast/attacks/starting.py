"""Images to start from, and a note of the examples that an attack could not run on.

Both belong to the call and not to the method, so that they come with the classifier: an attack asks its classifier for
images (`starting_images`) and tells it which examples it had to leave out (`note_not_run`), through whatever wrappers
are between the two. An attack that could not run has shown nothing; who keeps notes must not count it as survived.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from holdfast.attacks.search import Aim
from holdfast.modes import in_evaluation_mode
from holdfast.rng import Streams
from holdfast.types import Attack, Classifier, Threat
from holdfast.wrappers import Wrapper, narrow, network

NO_START = "no starting point"
"""Why a decision-based attack could not run."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Images with the classes that a classifier sees in them, for attacks that start from an image of another class.

    Args:
        images: (P, ...).
        classes: the predicted class of each, (P,).
    """

    images: Tensor
    classes: Tensor

    def nearest(self, threat: Threat, x: Tensor, aim: Aim, rank: int = 0) -> tuple[Tensor, Tensor]:
        """The image of `rank` among those nearest to each example that are seen as its aim wants.

        Returns:
            The images, `x` where there are not as many, and where there are, (N,) bool.
        """
        if rank >= len(self.images):
            return x, torch.zeros(len(x), dtype=torch.bool, device=x.device)
        images, classes = self.images.to(x), self.classes.to(x.device)
        distance = torch.stack([threat.distance(image.expand_as(x), x) for image in images], dim=1)
        wanted = (classes == aim.classes[:, None]) == aim.targeted
        order = distance.masked_fill(~wanted, torch.inf).argsort(dim=1, stable=True)[:, rank]
        available = wanted.sum(1) > rank
        return torch.where(available.view(-1, *[1] * (x.dim() - 1)), images[order], x), available


@dataclass(frozen=True, eq=False)
class Attempt(Wrapper):
    """A classifier under attack, with images to start from and notes of the examples that the attack could not run on.

    Args:
        wrapped: the classifier.
        notes: why the attack could not run on each example, None where it could, shared with the narrowed copies; None
            if the classifier inside keeps them.
        pool: makes the images, when an attack asks for them; None if the classifier inside has them.
        entries: which entry of `notes` each row of a batch belongs to; None means row i is entry i.
    """

    notes: list[str | None] | None = None
    pool: Callable[[], Pool] | None = None
    entries: Tensor | None = None

    def __post_init__(self) -> None:
        if self.entries is None and self.notes is not None:
            object.__setattr__(self, "entries", torch.arange(len(self.notes)))

    def __call__(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.wrapped(x)

    def starting_images(self) -> Pool | None:
        """Images that an attack may start from."""
        return starting_images(self.wrapped) if self.pool is None else self.pool()

    def note_not_run(self, selection: Tensor, reason: str) -> bool:
        """Note why the attack could not run on the selected examples, (N,) bool; whether anybody keeps notes."""
        if self.notes is None or self.entries is None:
            return note_not_run(self.wrapped, selection, reason)
        for entry in self.entries[selection.to(self.entries.device)].tolist():
            self.notes[entry] = reason
        return True

    def narrow(self, selection: Tensor) -> Self:
        """The same for a selection of the batch."""
        entries = None if self.entries is None else self.entries[selection.to(self.entries.device)]
        return self.around(narrow(self.wrapped, selection), entries=entries)


def starting_images(model: Classifier) -> Pool | None:
    """Images that an attack on this classifier may start from; None for a classifier that comes without."""
    method: Callable[[], Pool | None] | None = getattr(model, "starting_images", None)
    return None if method is None else method()


def note_not_run(model: Classifier, selection: Tensor, reason: str) -> bool:
    """Note that an attack could not run on the selected examples, (N,) bool; whether anybody keeps notes."""
    method: Callable[[Tensor, str], bool] | None = getattr(model, "note_not_run", None)
    return method is not None and method(selection, reason)


def report_no_start(model: Classifier, selection: Tensor) -> None:
    """Note that the selected examples, (N,) bool, have no start; where nobody keeps notes, warn how many they are."""
    if selection.any() and not note_not_run(model, selection, NO_START):
        remedy = "give the attack images to start from with StartingFrom"
        line = f"{int(selection.sum())} of {len(selection)} examples not attacked: {NO_START}; {remedy}"
        warnings.warn(line, RuntimeWarning, stacklevel=3)


@dataclass(frozen=True, kw_only=True)
class StartingFrom:
    """A decision-based attack that starts from given images.

    Each example starts from the nearest image of another class, or of the target class. Evaluation takes images of the
    data it runs on by itself; this is for attacks that are called directly.

    Args:
        attack: the attack, or one around it, such as `Targeted(attack=HopSkipJump(...))`.
        images: (P, ...), of any classes; ten of each are plenty.
    """

    wraps: ClassVar = "attack"

    attack: Attack
    images: Tensor

    @property
    def threat(self) -> Threat:
        """Where the attack may search."""
        return self.attack.threat

    @in_evaluation_mode
    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """What the attack finds for each example; the look at the images is not counted among its queries."""

        def pool() -> Pool:
            images = self.images.to(x)
            with torch.no_grad():
                return Pool(images, network(model)(images).argmax(1))

        return self.attack(Attempt(model, pool=pool), x, y, target=target, rng=rng)
