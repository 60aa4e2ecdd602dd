"""Composites as recipes describe them, made of runs; other modules load the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.ensembles.composite import AdaptiveComposite, Composite, Maps, first_stage_maps, frozen, image_size_maps
from holdfast.ensembles.defences import Defended, InputDefence
from holdfast.ensembles.har import HAR
from holdfast.ensembles.mixing import GradientRatio, Probability, check_strength
from holdfast.ensembles.neighbours import NearestNeighbours, check_temperature
from holdfast.ensembles.policy import Policy, as_maps, check_width
from holdfast.ensembles.transform_fit import FITTED, FittedTransform, TransformFit
from holdfast.errors import RecipeError, unknown
from holdfast.hierarchy import Hierarchy, Level
from holdfast.types import Mixing

MAPS: dict[str, Maps] = {"image_size": image_size_maps, "first_stage": first_stage_maps}
"""Feature maps that a policy may use."""

RETIRED = frozenset({"trust"})
"""Fields that stored composites of earlier versions have; they mean nothing now."""


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """The nearest training images as the robust classifier, see `NearestNeighbours`; weights files hold the images.

    Args:
        k: number of neighbours.
        weights: `uniform`, `distance` or `soft`, which alone has a gradient for attacks.
        subset: search among this many training images, balanced over the classes.
        temperature: temperature of `soft`; None to compute it from the images.
        search: `exact` or `faiss`.
    """

    k: int = 10
    weights: Literal["uniform", "distance", "soft"] = "soft"
    subset: int | None = None
    temperature: float | None = None
    search: Literal["exact", "faiss"] = "exact"

    def __post_init__(self) -> None:
        if self.k < 1 or (self.subset is not None and self.subset < self.k):
            raise ValueError(f"expected k at least 1 and a subset of k images at least, got {self.k} and {self.subset}")
        check_temperature(self.temperature)

    def of(self, x: Tensor, y: Tensor, classes: int) -> NearestNeighbours:
        """The classifier that searches these images."""
        return NearestNeighbours(x, y, classes, **{key: v for key, v in asdict(self).items() if key != "subset"})

    def empty(self, shape: tuple[int, int, int], classes: int, images: int) -> NearestNeighbours:
        """The same with empty images, to load weights into."""
        x, y = torch.zeros(images, *shape), torch.zeros(images, dtype=torch.int64)
        return NearestNeighbours(x, y, classes, k=self.k, weights=self.weights, temperature=1.0, search=self.search)


@dataclass(frozen=True, kw_only=True)
class CompositeOfRuns:
    """Two trained networks as one, mixed with a fixed strength; there is nothing to train.

    Args:
        standard: the accurate one: directory of a run on the same images (its best weights or, failing that, its last),
            or one weights file; `{seed}` in it stands for the seed.
        robust: the robust one.
        neighbours: instead of a robust network, the nearest training images.
        mixing: how the two answers become one.
        strength: from 0 (only `standard`) to `.inf` (only `robust`).
        fit: fit the numbers of the mixing's transformation, and the strength, to the robust network on validation
            images; they replace those given. `true` for the published share of answers to keep.
    """

    retired: ClassVar = RETIRED
    trainable: ClassVar = False

    standard: str
    robust: str | None = None
    neighbours: Neighbours | None = None
    mixing: Mixing = field(default_factory=GradientRatio)
    strength: float = 1.0
    fit: TransformFit | None = None

    def __post_init__(self) -> None:
        if (self.robust is None) == (self.neighbours is None):
            raise ValueError("expected either robust or neighbours")
        named(standard=self.standard, robust=self.robust)
        check_strength(self.strength)
        if self.neighbours is not None and self.neighbours.weights != "soft" and isinstance(self.mixing, GradientRatio):
            raise ValueError(
                f"gradient_ratio needs a gradient of both; neighbours of weights {self.neighbours.weights} have none: "
                "expected weights soft, or mixing local_bias"
            )
        if self.fit is not None:
            _require_transform(self.mixing)

    @property
    def roles(self) -> Mapping[str, str | None]:
        """Where the network of each role is; None for the nearest training images."""
        return {"standard": self.standard, "robust": self.robust}

    def of(self, standard: nn.Module, robust: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
        """The composite of these two."""
        return Composite(standard, robust, self.mixing, self.strength)

    def fitted(self, numbers: FittedTransform) -> CompositeOfRuns:
        """The same with the numbers of a fit."""
        given: Any = self.mixing
        chosen = replace(given.transform, **{name: getattr(numbers.transform, name) for name in FITTED})
        return replace(self, mixing=replace(given, transform=chosen), strength=numbers.strength)


@dataclass(frozen=True, kw_only=True)
class AdaptiveCompositeOfRuns:
    """Two trained networks as one, with a strength that a policy chooses for every image; the policy is trained.

    Args:
        standard: the accurate one: directory of a run on the same images (its best weights or, failing that, its last),
            or one weights file; `{seed}` in it stands for the seed.
        robust: the robust one.
        mixing: how the two answers become one.
        width: factor on the published widths of the policy.
        maps: feature maps that the policy uses: first ones of the image's size (`image_size`, as published), or the
            first stage of each network, pooled or not (`first_stage`).
    """

    former: ClassVar[Mapping[str, Any]] = {"maps": "first_stage"}
    """What stored recipes without these fields mean."""
    retired: ClassVar = RETIRED

    standard: str
    robust: str
    mixing: Mixing = field(default_factory=GradientRatio)
    width: float = 1.0
    maps: Literal["image_size", "first_stage"] = "image_size"

    def __post_init__(self) -> None:
        named(standard=self.standard, robust=self.robust)
        check_width(self.width)
        if self.maps not in MAPS:
            raise ValueError(f"maps must be one of {', '.join(MAPS)}; got {self.maps}")

    @property
    def roles(self) -> Mapping[str, str | None]:
        """Where the network of each role is."""
        return {"standard": self.standard, "robust": self.robust}

    @property
    def neighbours(self) -> Neighbours | None:
        """None: a policy needs feature maps, which nearest neighbours do not have."""
        return None

    def of(self, standard: nn.Module, robust: nn.Module, shape: tuple[int, int, int]) -> nn.Module:
        """The composite of these two with a fresh policy."""
        maps = MAPS[self.maps]
        channels = [_channels(maps, standard, shape), _channels(maps, robust, shape)]
        policy = Policy((channels[0], channels[1]), width=self.width)
        return AdaptiveComposite(standard, robust, self.mixing, policy, maps=maps)


@dataclass(frozen=True, kw_only=True)
class HAROfRuns:
    """A network of groups and networks of the classes of each group as one, see `HAR`; there is nothing to train.

    Args:
        groups: the network of the groups of a level: directory of a run of the same images with `data.view` the level
            (its best weights, else its last), or one weights file; `{seed}` in it stands for the seed.
        leaves: of each group of several classes, by its name, the network of these classes: of a run with `data.view`
            the level and the group, such as group/animals.
        level: of the hierarchy; None for the finest.
        hierarchy: of the classes; None for that of the data.
    """

    retired: ClassVar = RETIRED
    trainable: ClassVar = False

    groups: str
    leaves: Mapping[str, str]
    level: str | None = None
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        named(groups=self.groups, **{f"leaves.{group}": path for group, path in self.leaves.items()})
        if self.hierarchy is not None:
            self._require_groups(self._level())

    @property
    def neighbours(self) -> Neighbours | None:
        """None: nothing takes the place of a network."""
        return None

    @property
    def roles(self) -> Mapping[str, str | None]:
        """Where the network of each role is."""
        return {"groups": self.groups, **{f"leaves.{group}": path for group, path in self.leaves.items()}}

    def classes_of(self, role: str) -> tuple[str, ...]:
        """The classes of the network of a role, in the order of its outputs."""
        level = self._level()
        if role == "groups":
            return level.groups
        assert self.hierarchy is not None
        group = level.groups.index(role.removeprefix("leaves."))
        return tuple(self.hierarchy.classes[leaf] for leaf in level.members(group))

    def of_parts(self, parts: Mapping[str, nn.Module]) -> HAR:
        """The network of these, by role, all frozen."""
        level = self._level()
        leaves = [level.members(group) for group in range(len(level.groups))]
        networks = {role: frozen(part) for role, part in parts.items()}
        return HAR(networks["groups"], [networks.get(f"leaves.{group}") for group in level.groups], leaves)

    def submodule(self, role: str) -> str:
        """Where the network of a role is in the whole."""
        if role == "groups":
            return "of_groups"
        return f"of_leaves.{self._level().groups.index(role.removeprefix('leaves.'))}"

    def _level(self) -> Level:
        if self.hierarchy is None:
            raise RecipeError("model: har: expected data with a hierarchy, such as data.hierarchy: cifar10; got none")
        chosen = self.hierarchy.border(self.level).level
        assert chosen is not None
        return chosen

    def _require_groups(self, level: Level) -> None:
        """Refuse networks of other groups than those of several classes."""
        several = [name for group, name in enumerate(level.groups) if len(level.members(group)) > 1]
        for name in self.leaves:
            if name not in several:
                raise RecipeError(f"model: har: leaves: {unknown(name, several)}")
        if missing := [name for name in several if name not in self.leaves]:
            raise RecipeError(f"model: har: leaves: expected a network of the classes of '{missing[0]}'; got none")


@dataclass(frozen=True, kw_only=True)
class DefendedRun:
    """A trained network behind a defence that it was not trained for, see `Defended`; there is nothing to train.

    Args:
        network: directory of a run on the same images (its best weights or, failing that, its last), or one weights
            file; `{seed}` in it stands for the seed.
        defence: what is put in front of it, such as jpeg or gaussian_votes.
    """

    retired: ClassVar = RETIRED
    trainable: ClassVar = False

    network: str
    defence: InputDefence

    def __post_init__(self) -> None:
        named(network=self.network)

    @property
    def neighbours(self) -> Neighbours | None:
        """None: nothing takes the place of the network."""
        return None

    @property
    def roles(self) -> Mapping[str, str | None]:
        """Where the network is."""
        return {"network": self.network}

    def of_parts(self, parts: Mapping[str, nn.Module]) -> Defended:
        """The defended network, frozen."""
        return Defended(frozen(parts["network"]), self.defence)


OfRuns = CompositeOfRuns | AdaptiveCompositeOfRuns | HAROfRuns | DefendedRun
"""Composites in recipes."""


def _require_transform(mixing: Mixing) -> None:
    """Refuse to fit a mixing without a transformation."""
    if not isinstance(mixing, Probability) or mixing.transform is None:
        raise ValueError("fit: expected a mixing with a transformation to fit, {probability: {transform: {}}}")
    if mixing.temperature != 1 or mixing.transform.correction != 1:
        raise ValueError("fit: expected temperature 1 and correction 1; the scale does what a temperature would")


def named(**paths: str | None) -> None:
    """Refuse empty paths."""
    for name, path in paths.items():
        if path is not None and not path.strip():
            raise ValueError(f"{name}: expected the directory of a run or a weights file, got nothing")


def _channels(maps: Maps, model: nn.Module, shape: tuple[int, int, int]) -> int:
    """Number of channels of a network's first maps."""
    like = next((weight for weight in model.parameters() if weight.is_floating_point()), torch.empty(0))
    with torch.no_grad():
        return as_maps(maps(model.eval(), like.new_zeros(1, *shape))).shape[1]
