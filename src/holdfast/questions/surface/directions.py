"""The planes that a question of loss surfaces names, and the records measured on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch import Tensor

from holdfast.errors import unknown
from holdfast.families import ATTACKS, THREATS
from holdfast.questions.question import Context, Material, Prepared, Record
from holdfast.questions.surface.measurement import (
    Plane,
    Surface,
    gradient_plane,
    loss_surface,
    nearest_change,
    plane_through,
)
from holdfast.rng import Streams
from holdfast.show.numbers import rounded
from holdfast.types import Attack, Classifier

if TYPE_CHECKING:
    from holdfast.questions.surface import LossSurface

WORDS = ("gradient", "random")
"""Directions that are not those of attacks."""
FIRST = 4
"""Images that are shown by default."""
BEYOND = 1.25
"""How far a plane through attacked points goes, over how far the attack may go."""


@dataclass(frozen=True, kw_only=True)
class Surfaces:
    """The loss on planes through images, a record for each image.

    Args:
        question: directions, grid and whether points are cut.
        examples: indices of the images.
        radius: half of the side of the square.
        attacks: by the name of their direction.
        others: other networks that are attacked, by the name of the direction.
    """

    axes: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **dict.fromkeys(("loss", "prediction"), ("second direction", "first direction")),
        "marks": ("attack", "direction"),
        "replaced": ("direction",),
    }

    question: LossSurface
    examples: tuple[int, ...]
    radius: float
    attacks: Mapping[str, Attack]
    others: Mapping[str, Classifier]

    def count(self, material: Material) -> int:
        """One record for each image."""
        return len(self.examples)

    def measure_records(self, material: Material, earlier: Sequence[Record]) -> Iterator[Record]:
        """Surfaces around the images that follow."""
        rows = {example: row for row, example in enumerate(material.index.tolist())}
        for example in self.examples[len(earlier) :]:
            row = slice(rows[example], rows[example] + 1)
            x, y = material.x[row], material.y[row]
            plane = self._plane(material.model, x, y, material.rng[row])
            surface = loss_surface(
                material.model, x, y, plane, radius=self.radius, steps=self.question.steps, clip=self.question.clip,
                batch=material.batch_size,
            )  # fmt: skip
            yield _record(surface, plane, example, int(y))

    def _plane(self, model: Classifier, x: Tensor, y: Tensor, rng: Streams) -> Plane:
        if not self.attacks:
            return gradient_plane(model, x, y, rng=rng)
        ends = [
            self.attacks[word](self.others.get(word, model), x, y, rng=rng.split(f"attack {number}"))
            for number, word in enumerate(self.question.along)
            if word in self.attacks
        ]
        return plane_through(x, ends, rng=rng)


def surfaces(question: LossSurface, context: Context) -> Prepared:
    """What measures a question: its images and the size of its square, with the attacks and networks that it names.

    Raises:
        ValueError: if there is no such attack or no such example.
    """
    attacks = {word: _attack(word, question.norm, question.eps) for word in question.along if word not in WORDS}
    others = {word: context.load(Path(word.partition("@")[2])) for word in attacks if "@" in word}
    examples = _examples(question.show, context.test.index.tolist())
    radius = question.radius or _reach([*attacks.values()], context.test.batch([0])[0])
    models = {word: one.model for word, one in others.items()}
    hashes = {word: one.weights_hash for word, one in others.items()}
    measurement = Surfaces(question=question, examples=examples, radius=radius, attacks=attacks, others=models)
    settings = {"show": list(examples), "radius": radius}
    return Prepared(measurement, {**settings, **({"others": hashes} if hashes else {})})


def _attack(word: str, norm: str, eps: float) -> Attack:
    name = word.partition("@")[0]
    if name not in ATTACKS:
        raise ValueError(f"along: {unknown(name, [*WORDS, *ATTACKS])}")
    kind, threat = cast(Any, ATTACKS[name]), cast(Any, THREATS[norm])
    try:
        attack = kind(threat=threat(eps)) if isinstance(kind, type) else replace(kind, threat=threat(eps))
    except TypeError:
        raise ValueError(f"along: expected attacks that need no more than a threat; got {name!r}") from None
    # The highest loss in reach is wanted, not the first success.
    return cast(Attack, replace(attack, until_lost=False) if hasattr(attack, "until_lost") else attack)


def _reach(attacks: Sequence[Any], x: Tensor) -> float:
    """Half of the side of a square that holds every point that attacks may reach; 1 without attacks."""
    grey = torch.full_like(x, 0.5)
    ends = [attack.threat.extreme(torch.ones_like(grey), grey) for attack in attacks]
    return float(f"{BEYOND * max(float((end - grey).norm()) for end in ends):.3g}") if ends else 1.0


def _examples(stated: Sequence[int] | None, available: Sequence[int]) -> tuple[int, ...]:
    if stated is None:
        return tuple(available[:FIRST])
    if missing := [example for example in stated if example not in available]:
        some = ", ".join(map(str, sorted(available)[:FIRST]))
        raise ValueError(f"show: expected examples of the test images, such as {some}; got {missing[0]}")
    return tuple(dict.fromkeys(stated))


def _record(surface: Surface, plane: Plane, example: int, label: int) -> Record:
    loss, prediction = surface.loss[0], surface.prediction[0]
    numbers = {
        "here": loss[len(loss) // 2, len(loss) // 2],
        "highest": loss.max(),
        "right": (prediction == label).double().mean(),
        "nearest": nearest_change(surface)[0],
    }
    return {
        "example": example,
        "label": label,
        "numbers": {name: rounded(float(value)) for name, value in numbers.items()},
        "loss": [list(map(rounded, row)) for row in loss.tolist()],
        "prediction": prediction,
        "marks": [list(map(rounded, mark)) for mark in plane.marks[0].tolist()],
        "replaced": plane.replaced[0],
    }
