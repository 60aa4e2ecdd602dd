"""Composites of an accurate and a robust classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from holdfast.ensembles.mixing import attackable, check_strength
from holdfast.errors import ModelError
from holdfast.types import Classifier, Mixing, Strength
from holdfast.wrappers import replaced

Maps = Callable[[nn.Module, Tensor], Tensor]
"""A network and images to its first feature maps, (N, C, H, W)."""


class Pair(nn.Module):
    """The common part of composites: two frozen classifiers, in eval mode whatever the mode of the whole.

    Args:
        standard: the accurate classifier.
        robust: the robust classifier, of the same classes.
        mixing: how their answers become one.
    """

    def __init__(self, standard: nn.Module, robust: nn.Module, mixing: Mixing) -> None:
        super().__init__()
        self.standard, self.robust, self.mixing = frozen(standard), frozen(robust), mixing

    def train(self, mode: bool = True) -> Self:
        """Set the mode of everything but the two classifiers inside."""
        super().train(mode)
        self.standard.eval()
        self.robust.eval()
        return self


class Composite(Pair):
    """A mixture of fixed strength.

    It is a classifier like any other: attacks differentiate through everything in it, gradients of gradients included.
    Each of the two classifiers inside normalises images in its own way.

    Args:
        standard: the accurate classifier.
        robust: the robust classifier, of the same classes.
        mixing: how their answers become one.
        strength: from 0 (only `standard`) to infinity (only `robust`).
    """

    def __init__(self, standard: nn.Module, robust: nn.Module, mixing: Mixing, strength: float) -> None:
        super().__init__(standard, robust, mixing)
        check_strength(strength)
        self.strength = strength

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K)."""
        return mixed(self, x, self.strength)


class AdaptiveComposite(Pair):
    r"""A mixture whose strength a policy chooses for every image: :math:`\alpha(x) = \exp(\beta_\theta(x))` (eq. 7).

    Args:
        standard: the accurate classifier.
        robust: the robust classifier, of the same classes.
        mixing: how their answers become one.
        policy: first feature maps of both to :math:`\beta`, (N,).
        maps: how the first feature maps of a classifier are computed.
    """

    def __init__(
        self, standard: nn.Module, robust: nn.Module, mixing: Mixing, policy: nn.Module, *, maps: Maps | None = None
    ) -> None:
        super().__init__(standard, robust, mixing)
        self.policy, self.maps = policy, maps or image_size_maps

    def forward(self, x: Tensor) -> Tensor:
        """Logits, (N, K)."""
        return self.decide(x)[0]

    def decide(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""Logits, (N, K), and the :math:`\beta` that they come from, (N,)."""
        beta = self.strengths(x)
        return mixed(self, x, beta.exp()), beta

    def strengths(self, x: Tensor) -> Tensor:
        r""":math:`\beta`, the logarithm of the strength that the policy chooses for each image, (N,)."""
        beta: Tensor = self.policy(self.maps(self.standard, x), self.maps(self.robust, x))
        return beta


def frozen(model: nn.Module) -> nn.Module:
    """The model in eval mode, with parameters that require no gradient."""
    return model.eval().requires_grad_(False)


def image_size_maps(model: nn.Module, x: Tensor) -> Tensor:
    """First feature maps of a network, of the image's height and width; without any, the images themselves.

    A `Network` stops before the layer that first makes maps smaller (`first_maps`); of others the first stage is used.
    Pooled or strided maps would hide most traces of small perturbations.

    Raises:
        ModelError: where the network does not show its stages.
    """
    own = getattr(model, "first_maps", None)
    maps: Tensor = first_stage_maps(model, x) if own is None else own(x)
    return maps if maps.shape[2:] == x.shape[2:] else x


def first_stage_maps(model: nn.Module, x: Tensor) -> Tensor:
    """Output of a network's first stage, of whatever size.

    Raises:
        ModelError: where the network does not show its stages.
    """
    stages = getattr(model, "stages", None)
    if stages is None:
        raise ModelError(f"a policy needs networks with stages(x), got {type(model).__name__}")
    first: Tensor = next(iter(stages(x)))
    return first


def mixed(composite: Pair, x: Tensor, strength: Strength) -> Tensor:
    """Logits of a composite at another strength, (N, K).

    Raises:
        ModelError: where the two classifiers do not have the same classes.
        ValueError: for one strength that is negative or no number.
    """
    return _mixed_by(composite.mixing, composite, x, strength)


def climbed(composite: Pair, x: Tensor, strength: Strength) -> Tensor:
    """Logits for an adversary that assumes this strength: as `mixed`, by the attackable mixing, (N, K)."""
    return _mixed_by(attackable(composite.mixing), composite, x, strength)


def _mixed_by(mixing: Mixing, composite: Pair, x: Tensor, strength: Strength) -> Tensor:
    if not isinstance(strength, Tensor):
        check_strength(strength)
    return mixing(composite.standard, composite.robust, x, strength)


def aimed(model: Classifier, strength: float | None) -> Classifier:
    """The classifier for an adversary that assumes this strength of the composites in a classifier.

    A composite may be behind wrappers, and inside other modules such as a normalisation. A transformation of the
    answers inside is left out, since it flattens gradients. A classifier without composites is returned as it is.

    Args:
        model: the classifier.
        strength: None for the strengths that a policy chooses, without their gradient; a composite without a policy is
            then left as it is.
    """
    return replaced(model, Pair, lambda pair: _at(pair, strength))


def _at(pair: Pair, strength: float | None) -> Classifier:
    if strength is not None:
        return lambda x: climbed(pair, x, strength)
    return (lambda x: climbed(pair, x, _chosen(pair, x))) if isinstance(pair, AdaptiveComposite) else pair


@torch.no_grad()
def _chosen(model: AdaptiveComposite, x: Tensor) -> Tensor:
    return model.strengths(x).exp()
