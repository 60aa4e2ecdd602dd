"""What the parts promise each other: protocols, and the records that pass between them.

Nothing inherits from these; a frozen dataclass with the right `__call__` fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from holdfast.rng import Streams

ABSTAIN = -1
"""The prediction of a certifier that proves nothing."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""Per-example loss: logits (N, K) and labels (N,) to (N,)."""


class Classifier(Protocol):
    """Images in [0, 1], (N, ...), to logits (N, K)."""

    def __call__(self, x: Tensor, /) -> Tensor:
        """Logits of a batch."""
        ...


class FeatureClassifier(Classifier, Protocol):
    """A classifier whose last layer is linear on a feature vector: `head(features(x))`."""

    def features(self, x: Tensor) -> Tensor:
        """The penultimate vector, (N, F)."""
        ...

    @property
    def head(self) -> Any:
        """The last linear layer."""
        ...


@runtime_checkable
class Threat(Protocol):
    """What the adversary may do to `x`: a ball in some norm, cut by the box [0, 1]."""

    @property
    def eps(self) -> float:
        """Radius of the ball in [0, 1] pixel units, or how many values may change."""
        ...

    def project(self, z: Tensor, x: Tensor) -> Tensor:
        """A point of the threat set of `x`, by projecting on the ball and then on the box; points inside stay."""
        ...

    def project_exact(self, z: Tensor, x: Tensor) -> Tensor:
        """The point of the threat set nearest to `z`."""
        ...

    def sample(self, x: Tensor, rng: Streams) -> Tensor:
        """Uniform in the ball, then clipped to the box."""
        ...

    def steepest(self, grad: Tensor, z: Tensor) -> Tensor:
        """Direction of unit norm along which a linear function with this gradient grows most from `z`."""
        ...

    def ascent(self, grad: Tensor, z: Tensor) -> Tensor:
        """Direction of unit norm in which an attack steps from `z`: `steepest`, or what works better than it."""
        ...

    def extreme(self, grad: Tensor, x: Tensor) -> Tensor:
        """The point of the threat set of `x` where a linear function with this gradient is largest."""
        ...

    def distance(self, z: Tensor, x: Tensor) -> Tensor:
        """Norm of `z - x` per example, (N,)."""
        ...

    def dual(self, grad: Tensor) -> Tensor:
        """Dual norm per example, (N,): growth of a linear function per unit of distance."""
        ...


class Attack(Protocol):
    """Searches the threat set of each example for a point that the model gets wrong.

    Its class states what it is, see `holdfast.traits`: the `access` that it needs, and where they apply `minimises`,
    `thorough` and `wraps`.
    """

    @property
    def threat(self) -> Threat:
        """Where it may search."""
        ...

    def __call__(
        self, model: Classifier, x: Tensor, y: Tensor, *, target: Tensor | None = None, rng: Streams | None = None
    ) -> Tensor:
        """The point found for each example; shape, dtype and device of `x`."""
        ...


@runtime_checkable
class Ascent(Attack, Protocol):
    """A dataclass that climbs a loss, and whose fields say for how long: `dataclasses.replace` makes it try harder."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def loss(self) -> Loss:
        """What it climbs."""
        ...

    @property
    def steps(self) -> int:
        """Gradient steps per example and restart."""
        ...

    @property
    def restarts(self) -> int:
        """How often it starts anew."""
        ...

    @property
    def until_lost(self) -> bool:
        """Whether an example leaves at the first success."""
        ...


@runtime_checkable
class StoredImages(Protocol):
    """A corruption whose images were made beforehand, and are chosen by the positions of examples in the test set."""

    def check(self) -> None:
        """Refuse missing and unsuitable files."""
        ...

    def take(self, index: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The stored images of these examples, as `x` in shape, dtype and device."""
        ...


@runtime_checkable
class Composed(Attack, Protocol):
    """An attack made of attacks, each of which works on the examples that those before it left standing."""

    def components(self) -> Mapping[str, Attack]:
        """The attacks by name, in their published order; the threat is the same for all."""
        ...


class Corruption(Protocol):
    """Changes images without looking at the model."""

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The changed images in [0, 1]."""
        ...


class Augmentation(Protocol):
    """A random change of training images."""

    def __call__(self, x: Tensor, *, rng: Streams | None = None) -> Tensor:
        """The changed images in [0, 1]."""
        ...


@runtime_checkable
class Softening(Augmentation, Protocol):
    """An augmentation after which labels are less certain."""

    @property
    def softens(self) -> bool:
        """Whether labels change with these settings; if not, it is as any other augmentation."""
        ...

    def confidence(self, z: Tensor, x: Tensor, classes: int) -> Tensor:
        """Probability that stays with the label's class, (N,), when the images `x` became `z`."""
        ...


@dataclass(frozen=True)
class Terms:
    """What an objective returns.

    Args:
        total: the scalar to differentiate.
        parts: named parts to report, detached or not.
    """

    total: Tensor
    parts: Mapping[str, Tensor] = field(default_factory=dict)


class Objective(Protocol):
    """What training minimises.

    One that also takes label distributions, (N, K), states it with a class attribute `soft_labels = True`. Most state
    in a property `passes` what a step costs. One that wants more of the training loop than to be called states it in an
    attribute `hooks`, see `objectives.hooks.Hooks`. One that has got fields whose defaults are not what it did before
    them states in `former` what it did, so that recipes of older runs keep their meaning.
    """

    def __call__(self, model: Classifier, x: Tensor, y: Tensor, *, rng: Streams | None = None) -> Terms:
        """Terms of a batch."""
        ...


class Examples(Protocol):
    """Labelled images in memory, such as a split of a data set."""

    @property
    def index(self) -> Tensor:
        """Of each example in its data set, (n,)."""
        ...

    def __len__(self) -> int:
        """How many there are."""
        ...

    def batch(self, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Images of these rows, floats in [0, 1], and their labels."""
        ...


@dataclass(frozen=True)
class Certificate:
    """Predictions that provably do not change within `radius`; ABSTAIN and 0 where nothing is proved.

    Args:
        prediction: a class or ABSTAIN, (N,).
        radius: in the certifier's norm, float64, (N,).
        samples: noisy copies of each image that the model was asked about, (N,); None where there is no noise.
    """

    prediction: Tensor
    radius: Tensor
    samples: Tensor | None = None

    @classmethod
    def of_nothing(cls, x: Tensor, *, sampled: bool = False) -> Certificate:
        """Of an empty batch."""
        none = torch.zeros(0, dtype=torch.int64, device=x.device)
        return cls(none, none.double(), none if sampled else None)


@runtime_checkable
class Certifier(Protocol):
    """Proves that predictions hold."""

    @property
    def norm(self) -> str:
        """In which distances are measured: l1, l2 or linf."""
        ...

    @property
    def smoothed(self) -> bool:
        """Whether the certificate is about the network averaged over noise, instead of the network itself."""
        ...

    def __call__(self, model: Classifier, x: Tensor, *, rng: Streams | None = None) -> Certificate:
        """Certificate of each example."""
        ...


class Architecture(Protocol):
    """Makes networks: image shape (C, H, W) and number of classes to a classifier of images in [0, 1]."""

    def __call__(self, shape: tuple[int, int, int], classes: int) -> nn.Module:
        """A freshly initialised network."""
        ...


Strength = float | Tensor
"""One number for all images, or one for each, (N,)."""


class Mixing(Protocol):
    """A way to make one classifier of two."""

    def __call__(self, standard: Classifier, robust: Classifier, x: Tensor, strength: Strength) -> Tensor:
        """Logits of the mixed classifier, (N, K)."""
        ...
