r"""Images attacked by an adversary that aims at mixtures of fixed strengths :math:`\alpha_t` (eq. 6).

The two classifiers inside do not change while a policy learns, so each image is attacked once for each strength, and
the result is kept. A network's output may depend on the batch by rounding; so images are attacked in fixed blocks of
the data set, whichever batch needs them first, and discarded results are found again to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.attacks.pgd import PGD
from holdfast.ensembles.composite import Pair, climbed
from holdfast.types import Attack, Classifier, Examples, Threat

BLOCK = 64
"""Images that are attacked together."""

MEMORY = 2**31
"""Largest memory in bytes for attacked images; data sets that need more are attacked anew each time."""

LOOK = 1024
"""Largest number of images that accuracies are measured on."""


def pgd(threat: Threat, steps: int, step_size: float | None) -> PGD:
    """The attack of eq. 6, which starts at the image; the gradient is that at the current point (eq. 6 prints x)."""
    return PGD(threat=threat, steps=steps, step_size=step_size, random_start=False, until_lost=False)


def at(composite: Pair, strength: float) -> Classifier:
    """The classifier that an adversary attacks who assumes this strength, for images of any precision."""
    kind = next(iter(composite.parameters()), torch.empty(0)).dtype
    return lambda x: climbed(composite, x.to(kind), strength).to(x.dtype)


def attacked(
    attack: Attack, composite: Pair, x: Tensor, y: Tensor, strengths: Sequence[float], which: Tensor
) -> Tensor:
    """Each image attacked at its own strength, given by its index among the strengths, (N,)."""
    z = x.detach().clone()
    for place in sorted(set(which.tolist())):
        rows = which == place
        z[rows] = attack(at(composite, strengths[place]), x[rows], y[rows])
    return z


class Remembered:
    """Attacked training images; each block is made once for each strength.

    Args:
        attack: the adversary.
        composite: its classifiers are attacked, on the device of the work.
        train: the training images, in the order of their indices.
        strengths: what the attack may aim at.
    """

    def __init__(self, attack: Attack, composite: Pair, train: Examples, strengths: Sequence[float]) -> None:
        self.attack, self.composite, self.train, self.strengths = attack, composite, train, strengths
        self._order = train.index.argsort()
        self._blocks: dict[tuple[int, int], Tensor] = {}

    def __call__(self, places: Tensor, which: Tensor, like: Tensor) -> Tensor:
        """The images at these places in the order of indices, each attacked at its strength; as `like`, (N, ...)."""
        points = torch.empty_like(like)
        for row, (place, strength) in enumerate(zip(places.tolist(), which.tolist(), strict=True)):
            block, within = divmod(place, BLOCK)
            points[row] = self._blocks[block, strength][within].to(like)
        return points

    def missing(self, places: Tensor, which: Tensor) -> list[tuple[int, int]]:
        """Blocks, each with the number of a strength, that must be made before these images are available."""
        wanted = set(zip((places // BLOCK).tolist(), which.tolist(), strict=True))
        return sorted(wanted - self._blocks.keys())

    def make(self, block: int, strength: int, like: Tensor) -> None:
        """Attack a block, on the device and in the precision of `like`."""
        x, y = self.train.batch(self._order[block * BLOCK : (block + 1) * BLOCK])
        aim = at(self.composite, self.strengths[strength])
        self._blocks[block, strength] = self.attack(aim, x.to(like), y.to(like.device)).cpu()


def fits_in_memory(train: Examples, strengths: Sequence[float]) -> bool:
    """Whether all attacked images fit in memory."""
    x, _ = train.batch(slice(0, 1))
    return len(train) * len(strengths) * x[0].numel() * x.element_size() <= MEMORY


def looked_at(examples: Examples) -> list[Tensor]:
    """Rows of the images that accuracies are measured on, a block at a time; an even choice if there are many."""
    return [*torch.split(torch.arange(0, len(examples), -(-len(examples) // LOOK)), BLOCK)]


def right_answers(attack: Attack, composite: Pair, x: Tensor, y: Tensor, strengths: Sequence[float]) -> Tensor:
    """How many images both classifiers get right where the adversary aims at each strength (figure 4), (2, T).

    Args:
        attack: the adversary.
        composite: whose classifiers they are, in eval mode: the accurate one first.
        x: images, best such that neither classifier has seen them.
        y: their labels.
        strengths: what the adversary aims at.
    """
    sides = (at(composite, 0.0), at(composite, float("inf")))
    right = torch.zeros(len(sides), len(strengths), dtype=torch.float64)
    for place, strength in enumerate(strengths):
        z = attack(at(composite, strength), x, y)
        with torch.no_grad():
            right[:, place] = torch.tensor([float((side(z).argmax(1) == y).sum()) for side in sides])
    return right
